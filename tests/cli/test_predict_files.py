"""``bayesdrop predict`` of files that hold features alone: all that ``fit`` takes, read as those of the fit were."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import bayesdrop as bd

RNG = np.random.default_rng(1)
N, P = 60, 5
X = np.where(RNG.random((N, P)) < 0.6, RNG.integers(-3, 4, size=(N, P)), 0).astype(float)
X[0] = 1.0
Y = np.where(X[:, 0] - X[:, 4] + RNG.normal(size=N) > 0, 1, -1)
NEW = X[40:] * (np.arange(P) % (P - 1) > 0)  # neither the first feature nor the last


def svmlight(path, rows, labels, first):
    lines = [
        f"{label} {' '.join(f'{d + first}:{row[d]:g}' for d in np.flatnonzero(row))}"
        for label, row in zip(labels, rows, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")


def parquet(path, rows, labels, order=range(P)):
    names = [f"f{d}" for d in order]
    pd.DataFrame(rows[:, list(order)], columns=names).assign(label=np.where(labels > 0, "yes", "no")).to_parquet(path)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("sampled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_svmlight(command, tmp_path, first, sampled):
    svmlight(tmp_path / "old.svmlight", X[:40], Y[:40], first)
    svmlight(tmp_path / "new.svmlight", NEW, Y[40:], first)
    chain = ["--sample", "--draws", 20, "--tune", 20, "--chains", 2] if sampled else []
    result = command("fit", "old.svmlight", "--rates", "0" if sampled else "0.2", "--out", "model", *chain)
    assert result.exit_code == 0, result.stderr
    result = command("predict", "model", "new.svmlight", *(["--posterior"] if sampled else []))
    assert result.exit_code == 0, result.stderr
    written = pd.read_csv(tmp_path / "predictions.csv")
    source = bd.groups.load(tmp_path / "model/posterior.nc") if sampled else bd.Fit.load(tmp_path / "model/fit.nc")
    found = bd.predict(source, sparse.csr_array(NEW))
    assert written["row"].tolist() == list(range(1, 21))
    np.testing.assert_allclose(written["probability_1.0"], found.mean, rtol=1e-8)
    wrong = 100 * np.mean(found.label != Y[40:])
    assert f"Compared with 'label': {wrong:.2f} % of 20 rows predicted wrong." in result.stdout


def test_rows_without_labels(command, tmp_path):
    """One number in the place of labels says nothing of how the predictions did."""
    svmlight(tmp_path / "old.svmlight", X[:40], Y[:40], 1)
    svmlight(tmp_path / "new.svmlight", NEW, np.ones(20, dtype=int), 1)
    assert command("fit", "old.svmlight", "--rates", "0.2", "--out", "model").exit_code == 0
    result = command("predict", "model", "new.svmlight")
    assert result.exit_code == 0, result.stderr
    assert "Beside" not in result.stdout


@pytest.mark.parametrize("kind", ["npy", "npz", "folder of npy"])
def test_arrays(command, tmp_path, kind):
    """Standardised as the rows of the fit were, where they were."""
    np.save(tmp_path / "labels.npy", Y[:40])
    old, new = ("old.npz", "new.npz") if kind == "npz" else ("old.npy", "new" if kind[:6] == "folder" else "new.npy")
    if kind == "npz":
        sparse.save_npz(tmp_path / old, sparse.csr_array(X[:40]))
        sparse.save_npz(tmp_path / new, sparse.csr_array(NEW))
    else:
        np.save(tmp_path / old, X[:40])
        if new == "new":
            (tmp_path / new).mkdir()
            np.save(tmp_path / new / "a.npy", NEW[:7])
            np.save(tmp_path / new / "b.npy", NEW[7:])
        else:
            np.save(tmp_path / new, NEW)
    assert command("fit", old, "--labels", "labels.npy", "--rates", "0.2", "--out", "model").exit_code == 0
    result = command("predict", "model", new)
    assert result.exit_code == 0, result.stderr
    rows = NEW if kind == "npz" else (NEW - X[:40].mean(axis=0)) / X[:40].std(axis=0)
    expected = bd.Fit.load(tmp_path / "model/fit.nc").predict(rows).mean
    np.testing.assert_allclose(pd.read_csv(tmp_path / "predictions.csv")["probability_1"], expected, rtol=1e-8)


def test_a_folder_of_parquet(command, tmp_path):
    """Columns by name, in whatever order."""
    for name, rows, order in (("old", slice(0, 40), range(P)), ("new", slice(40, None), [3, 1, 4, 0, 2])):
        (tmp_path / name).mkdir()
        parquet(tmp_path / name / "part.parquet", X[rows], Y[rows], order)
    result = command("fit", "old", "--memory", "2GB", "--target", "label", "--rates", "0.2", "--out", "model")
    assert result.exit_code == 0, result.stderr
    result = command("predict", "model", "new")
    assert result.exit_code == 0, result.stderr
    rows = (X[40:] - X[:40].mean(axis=0)) / X[:40].std(axis=0)
    found = bd.Fit.load(tmp_path / "model/fit.nc").predict(rows)
    np.testing.assert_allclose(pd.read_csv(tmp_path / "predictions.csv")["probability_yes"], found.mean, rtol=1e-8)
    wrong = 100 * np.mean((found.label == "yes") != (Y[40:] > 0))
    assert f"Compared with 'label': {wrong:.2f} % of 20 rows predicted wrong." in result.stdout
    alone = command("predict", "model", "new/part.parquet", "--out", "alone.csv")
    assert alone.exit_code == 0, alone.stderr
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "alone.csv"), pd.read_csv(tmp_path / "predictions.csv"))


def test_files_that_do_not_fit(command, tmp_path):
    svmlight(tmp_path / "old.svmlight", X[:40], Y[:40], 1)
    assert command("fit", "old.svmlight", "--rates", "0.2", "--out", "model").exit_code == 0
    pd.DataFrame(X).rename(columns="x{}".format).assign(y=Y).to_csv(tmp_path / "table.csv", index=False)
    assert command("fit", "table.csv", "--target", "y", "--rates", "0.2", "--out", "named").exit_code == 0
    svmlight(tmp_path / "zero.svmlight", X[40:], Y[40:], 0)
    svmlight(tmp_path / "more.svmlight", np.hstack([X[40:], np.ones((20, 1))]), Y[40:], 1)
    (tmp_path / "bad.svmlight").write_text("1 1:2\n-1 2:red\n")
    (tmp_path / "unlabelled.svmlight").write_text("1 1:2\nyes 2:3\n")
    np.save(tmp_path / "few.npy", X[:, :3])
    np.save(tmp_path / "holes.npy", np.where(X == 2, np.nan, X))
    for model, name, message in (
        ("model", "zero.svmlight", "zero.svmlight, line 1: expected indices from 1 to 5, got 0"),
        ("model", "more.svmlight", "more.svmlight, line 1: expected indices from 1 to 5, got 6"),
        ("model", "bad.svmlight", "bad.svmlight, line 2, entry 1: expected index:value, finite numbers, got '2:red'"),
        ("model", "unlabelled.svmlight", "unlabelled.svmlight, line 2: expected a number for the label, got 'yes'"),
        ("model", "few.npy", "few.npy has 3 columns, and the model was fitted to 5"),
        ("model", "holes.npy", "has a NaN or infinite entry in its row"),
        ("model", "gone.npy", "gone.npy does not exist"),
        ("named", "zero.svmlight", "the model was fitted to the columns of a table, and zero.svmlight has none"),
    ):
        result = command("predict", model, name)
        assert result.exit_code == 2, name
        assert "TABLE: " in result.stderr, result.stderr
        assert message in " ".join(result.stderr.split())
    assert not (tmp_path / "predictions.csv").exists()
