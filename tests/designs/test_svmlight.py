"""svmlight files: new rows have the first index and the features of a fit, and a bad line is named."""

import gzip

import numpy as np
import pytest
from scipy.sparse import csr_array, vstack

import bayesdrop as bd

RNG = np.random.default_rng(2)
N, P = 40, 6
X = np.where(RNG.random((N, P)) < 0.6, RNG.integers(-3, 4, size=(N, P)), 0).astype(float)
X[0] = 1.0
Y = (X[:, 0] - X[:, 5] + RNG.normal(size=N) > 0).astype(int)
MODEL = bd.Model(rates=bd.Fixed(0.3))
# New rows without the first feature, or the last, or any.
NEW = {"all": X[:8], "no first": X[8:16] * (np.arange(P) > 0), "no last": X[16:24] * (np.arange(P) < P - 1),
       "neither": X[24:32] * np.isin(np.arange(P), [2, 3]), "none": np.zeros((3, P))}  # fmt: skip


def write(path, rows, labels=None, first=1):
    """Lines as people write them: comments, blank lines and queries among them."""
    labels = np.zeros(len(rows)) if labels is None else labels
    lines = ["# made by hand", ""]
    for label, row in zip(labels, rows, strict=True):
        entries = " ".join(f"{d + first}:{row[d]:g}" for d in np.flatnonzero(row))
        lines.append(f"{label:g} qid:7 {entries} # {label:g}")
    text = "\n".join(lines) + "\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def results(tmp_path, blocks):
    """By name: whatever is trained on the same rows and asked about new ones."""
    fit, estimator = bd.fit(MODEL, blocks, Y), bd.DropoutLogisticRegression(0.3).fit(blocks, Y)
    fit.save(tmp_path / "fit.nc")
    return {
        "fit": fit.predict,
        "loaded": bd.Fit.load(tmp_path / "fit.nc").predict,
        "elpd": lambda rows: bd.elpd(fit, rows, np.zeros(rows.shape[0], dtype=int)),
        "estimator": estimator.predict_proba,
        "decision": estimator.decision_function,
    }


def numbers(found):
    return np.asarray(getattr(found, "pointwise", getattr(found, "mean", found)) if not callable(
        getattr(found, "mean", None)) else found)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("suffix", [".svmlight", ".svmlight.gz"])
def test_new_rows_are_read_as_those_of_the_fit(tmp_path, first, suffix):
    blocks = bd.Blocks(write(tmp_path / f"old{suffix}", X, Y, first), rows=7)
    assert blocks.shape == X.shape
    assert blocks.zero_based == (first == 0)
    for name, ask in results(tmp_path, blocks).items():
        for label, rows in NEW.items():
            path = write(tmp_path / f"new{suffix}", rows, first=first)
            expected = numbers(ask(csr_array(rows)))
            np.testing.assert_allclose(
                numbers(ask(bd.Blocks(path, rows=3))), expected, rtol=1e-12, err_msg=f"{name}: {label}"
            )
            stated = bd.Blocks(path, n_features=P, zero_based=first == 0)
            np.testing.assert_allclose(numbers(ask(stated)), expected, rtol=1e-12, err_msg=f"{name}: {label}")


@pytest.mark.parametrize("stated", [False, True])
def test_indices_that_the_fit_does_not_have_are_refused_by_their_line(tmp_path, stated):
    old = bd.Blocks(write(tmp_path / "old.svmlight", X, Y))
    fit, estimator = bd.fit(MODEL, old, Y), bd.DropoutSVC(0.3).fit(old, Y)
    more = np.hstack([X[:5], np.zeros((5, 1))])
    more[3, P] = 2.0
    zero = write(tmp_path / "zero.svmlight", X[:5], first=0)
    given = "expected svmlight files with indices from 1, as those of the fit, got zero_based=True"
    for path, message in (
        (write(tmp_path / "more.svmlight", more), rf".*more.svmlight, line 6: expected .* 1 to {P}, got {P + 1}"),
        (zero, given if stated else rf".*zero.svmlight, line 3: expected indices from 1 to {P}, got 0"),
    ):  # fmt: skip
        new = bd.Blocks(path, zero_based=True) if stated and path is zero else bd.Blocks(path)
        for ask in (fit.predict, estimator.predict):
            with pytest.raises(ValueError, match=f"X: {message}"):
                ask(new)
    with pytest.raises(ValueError, match="expected 6 columns, as were fitted|X: "):
        bd.fit(MODEL, X, Y).predict(bd.Blocks(write(tmp_path / "few.svmlight", NEW["no last"])))


def test_what_is_stated_of_a_file(tmp_path):
    path = write(tmp_path / "rows.svmlight", NEW["no last"], first=1)
    assert bd.Blocks(path).shape == (8, P - 1)
    wide = bd.Blocks(path, n_features=P)
    assert wide.shape == (8, P)
    np.testing.assert_array_equal(vstack(wide.each_block(lambda matrix: matrix)).toarray(), NEW["no last"])
    shifted = bd.Blocks(path, n_features=P + 1, zero_based=True)
    np.testing.assert_array_equal(
        vstack(shifted.each_block(lambda matrix: matrix)).toarray()[:, 1:], NEW["no last"]
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"source: .*rows.svmlight, line 3: expected indices from 1 to 2, got \d"):
        bd.Blocks(path, n_features=2)
    with pytest.raises(ValueError, match=r"source: .*zero.svmlight, line 3: expected indices from 1 to 5, got 0"):
        bd.Blocks(write(tmp_path / "zero.svmlight", X[:5], first=0), zero_based=False)
    np.save(tmp_path / "rows.npy", X)
    for options in ({"n_features": P}, {"zero_based": False}):
        with pytest.raises(ValueError, match="n_features, zero_based: expected svmlight files"):
            bd.Blocks(tmp_path / "rows.npy", **options)
    with pytest.raises(ValueError, match="n_features: expected a whole number"):
        bd.Blocks(path, n_features=0)
    with pytest.raises(TypeError, match="zero_based: expected True, False or None"):
        bd.Blocks(path, zero_based="auto")


def test_rows_that_are_left_out_stay_out(tmp_path):
    fit = bd.fit(MODEL, bd.Blocks(write(tmp_path / "old.svmlight", X, Y, 0)), Y)
    new, keep = bd.Blocks(write(tmp_path / "new.svmlight", NEW["no first"], first=0)), np.arange(8) % 2 == 0
    np.testing.assert_allclose(fit.predict(new[keep]).mean, fit.predict(NEW["no first"][keep]).mean, rtol=1e-12)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("yes 1:2", "line 4: expected a number for the label, got 'yes'"),
        ("1 1:2 2", "line 4, entry 2: expected index:value, finite numbers, got '2'"),
        ("1 one:2", "line 4, entry 1: expected index:value, finite numbers, got 'one:2'"),
        ("1 1:2 3:red", "line 4, entry 2: expected index:value, finite numbers, got '3:red'"),
        ("1 1:2 3:nan", "line 4, entry 2: expected index:value, finite numbers, got '3:nan'"),
        ("1 1:2 3:inf", "line 4, entry 2: expected index:value, finite numbers, got '3:inf'"),
        ("1 -1:2 3:1", "line 4, entry 1: expected index:value, finite numbers, got '-1:2'"),
        ("1 3:2 2:1", "line 4, entry 2: expected ascending indices, got 2 after 3"),
        ("1 2:2 2:1", "line 4, entry 2: expected ascending indices, got 2 after 2"),
    ],
)
@pytest.mark.parametrize("suffix", [".svm", ".libsvm.gz"])
def test_a_bad_line_is_named(tmp_path, line, message, suffix):
    text = "\n".join(["# rows", "1 1:1 2:1", "0 3:1", line, "1 1:1", ""])
    path = tmp_path / f"rows{suffix}"
    path.write_bytes(gzip.compress(text.encode()) if suffix.endswith(".gz") else text.encode())
    with pytest.raises(ValueError, match=rf"source: .*rows{suffix}, {message}"):
        bd.Blocks(path, rows=1)


@pytest.mark.parametrize("kind", ["npy", "npz", "parquet", "matrices"])
def test_an_entry_that_is_no_number_is_named_by_row_and_column(tmp_path, kind):
    import pandas as pd
    from scipy.sparse import save_npz

    bad = X.copy()
    bad[9, 4] = np.nan
    path = tmp_path / f"rows.{kind}"
    if kind == "npy":
        np.save(path, bad)
    elif kind == "npz":
        save_npz(path, csr_array(bad))
    elif kind == "parquet":
        pd.DataFrame(bad, columns=[f"f{d}" for d in range(P)]).to_parquet(path)
    source = [bad[:5], bad[5:]] if kind == "matrices" else path
    row = 4 if kind == "matrices" else 9
    with pytest.raises(ValueError, match=rf"entry in its row {row} \(row 9 of all\), column 4; fill in"):
        bd.Blocks(source)
