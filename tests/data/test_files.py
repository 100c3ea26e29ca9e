"""Files that are read in blocks: the fit of the data in memory, and one clear line where they do not fit together."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, make_classification

import bayesdrop as bd
from bayesdrop.data import files as large
from bayesdrop.data.table_files import InputError


@pytest.fixture
def data():
    X, y = make_classification(300, 6, random_state=0)
    return 3 * X + 10, y


def _written(tmp_path):
    return xr.load_dataset(tmp_path / "bayesdrop-output" / "fit.nc")


def _expected(X, y, standardize=True):
    if standardize:
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    return bd.fit(bd.Model(rates=bd.PerFeature()), X, y)


def test_npy_with_labels(command, data, tmp_path):
    X, y = data
    np.save(tmp_path / "rows.npy", X)
    np.save(tmp_path / "labels.npy", np.where(y == 1, "yes", "no"))
    result = command("fit", "rows.npy", "--labels", "labels.npy")
    assert result.exit_code == 0, result.stderr
    assert "300 rows, 6 features (read in blocks)" in result.stdout
    assert "positive weights support yes" in result.stdout
    np.testing.assert_allclose(_written(tmp_path)["weight"], _expected(X, y).weight, rtol=1e-7)
    kept = pd.read_csv(tmp_path / "bayesdrop-output" / "weights.csv")
    np.testing.assert_allclose(kept["subtracted"], X.mean(axis=0))
    np.testing.assert_allclose(kept["divided_by"], X.std(axis=0))


def test_folder_of_npz(command, data, tmp_path):
    X, y = np.where(data[0] > 12, data[0], 0.0), data[1]
    (tmp_path / "parts").mkdir()
    for number, part in enumerate(np.array_split(X, 4)):
        sparse.save_npz(tmp_path / "parts" / f"{number}.npz", sparse.csr_array(part))
    np.save(tmp_path / "labels.npy", y)
    result = command("fit", "parts", "--labels", "labels.npy", "--memory", "2GB")
    assert result.exit_code == 0, result.stderr
    assert "sparse features enter as they are" in " ".join(result.stdout.split())
    np.testing.assert_allclose(_written(tmp_path)["weight"], _expected(X, y, False).weight, rtol=1e-6, atol=1e-9)


def test_svmlight_has_its_labels(command, data, tmp_path):
    X, y = np.where(data[0] > 12, data[0], 0.0), data[1]
    dump_svmlight_file(X, 2 * y - 1, str(tmp_path / "rows.svmlight"), comment="written for a test")
    result = command("fit", "rows.svmlight", "--memory", "1GB")
    assert result.exit_code == 0, result.stderr
    np.testing.assert_allclose(_written(tmp_path)["weight"], _expected(X, y, False).weight, rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("ignore::bayesdrop.warnings.ApproximationWarning")  # of 20 draws
def test_a_posterior_under_a_cap(command, data, tmp_path):
    X, y = data
    np.save(tmp_path / "rows.npy", X)
    np.save(tmp_path / "labels.npy", y)
    chain = ("--sample", "--draws", "20", "--tune", "20", "--chains", "2")
    result = command("fit", "rows.npy", "--labels", "labels.npy", "--memory", "600MB", "--rates", "0.2", *chain)
    assert result.exit_code == 0, result.stderr
    assert "sampled by HMC; masks are integrated as if" in " ".join(result.stdout.split())
    post = bd.groups.load(next(tmp_path.rglob("posterior.nc")))
    assert bd.groups.dataset(post, "posterior")["weight"].shape == (2, 20, 6)


def test_parquet_under_a_cap_is_the_table_in_memory(command, data, tmp_path):
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(label=np.where(y == 1, "yes", "no"))
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=70)
    options = ("--target", "label", "--drop", "c", "--loss", "hinge")
    assert command("fit", "rows.parquet", *options, "--memory", "600MB").exit_code == 0
    capped = _written(tmp_path)
    assert command("fit", "rows.parquet", *options, "--rates", "feature").exit_code == 0
    whole = _written(tmp_path)
    assert capped["feature"].values.tolist() == list("abdef")
    np.testing.assert_allclose(capped["weight"], whole["weight"], rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(capped["rate"], whole["rate"], rtol=1e-10)


def test_a_constant_column_stays_out(data, tmp_path):
    X, y = data
    X[:, 2] = 1e6
    np.save(tmp_path / "rows.npy", X)
    np.save(tmp_path / "labels.npy", y)
    found = large.read_large(tmp_path / "rows.npy", None, tmp_path / "labels.npy", [], None, standardize=True)
    assert found.scale[2] == 1.0
    blocks = np.concatenate([part.matvec(np.eye(6)) for _, part in found.X.parts()])
    np.testing.assert_array_equal(blocks[:, 2], 0.0)
    np.testing.assert_allclose(blocks.std(axis=0)[[0, 1, 3, 4, 5]], 1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rows.npy"], "--labels: .npy and .npz files hold features alone"),
        (["rows.npy", "--labels", "short.npy"], "expected 300 labels, one per row of rows.npy, got 299"),
        (["rows.npy", "--labels", "three.npy"], "--labels: expected two classes in 'the labels', got 3"),
        (["rows.npy", "--labels", "rows.npy"], "expected one label per row, got an array of shape"),
        (["rows.npy", "--labels", "gone.npy"], "gone.npy cannot be read as .npy"),
        (["rows.npy", "--labels", "labels.npy", "--memory", "much"], "--memory: expected a size such as 4GB"),
        (["rows.npy", "--labels", "labels.npy", "--memory", "1MB"], "leave no room for one block in addition"),
        (["rows.npy", "--labels", "labels.npy", "--memory", "300MB", "--sample"], "leave no room for one block"),
        (["rows.npy", "--labels", "labels.npy", "--target", "a"], ".npy files have no named columns"),
        (["cut.npy", "--labels", "labels.npy"], "cut.npy cannot be read"),
        (["rows.svmlight", "--labels", "labels.npy"], "holds its own labels"),
        (["bad.svmlight"], "expected a number for the label"),
        (["gone.npz", "--labels", "labels.npy"], "gone.npz does not exist"),
        (["empty", "--labels", "labels.npy"], "is empty; expected files of features"),
        (["mixed", "--labels", "labels.npy"], "files of several kinds"),
        (["rows.csv", "--target", "a", "--memory", "1GB"], "rows.csv cannot be read in blocks"),
        (["rows.csv", "--target", "a", "--labels", "labels.npy"], "a table has its labels in the column --target"),
        (["rows.parquet", "--memory", "1GB"], "a Parquet file needs it"),
        (["rows.parquet", "--memory", "1GB", "--target", "a", "--labels", "labels.npy"], "leave the option out"),
        (["rows.parquet", "--memory", "1GB", "--target", "z"], "no column 'z'"),
        (["rows.parquet", "--memory", "1GB", "--target", "a", "--drop", "b"], "no column is left besides the target"),
        (["rows.parquet", "--memory", "1GB", "--target", "a"], "expected numbers, got columns {'b': "),
    ],
)
def test_one_clear_line(command, data, tmp_path, arguments, message):
    X, y = data
    np.save(tmp_path / "rows.npy", X)
    np.save(tmp_path / "labels.npy", y)
    np.save(tmp_path / "short.npy", y[1:])
    np.save(tmp_path / "three.npy", np.arange(300) % 3)
    (tmp_path / "cut.npy").write_bytes((tmp_path / "rows.npy").read_bytes()[:-80])
    dump_svmlight_file(X, y, str(tmp_path / "rows.svmlight"))
    (tmp_path / "bad.svmlight").write_text("yes 1:2\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "mixed").mkdir()
    np.save(tmp_path / "mixed" / "a.npy", X)
    sparse.save_npz(tmp_path / "mixed" / "b.npz", sparse.csr_array(X))
    frame = pd.DataFrame({"a": np.tile([0, 1], 5), "b": ["x", "y"] * 5})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    before = {path.name for path in tmp_path.iterdir()}
    result = command("fit", *arguments)
    assert result.exit_code == 2, result.stderr
    assert message in result.stderr
    assert result.stderr.startswith("bayesdrop fit: ")
    assert len(result.stderr.splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} == before


def test_the_cap_sets_the_rows_of_a_block(tmp_path):
    """Twice what the rest leaves gives twice the rows, and a cap that is too small names one that is enough."""
    np.save(tmp_path / "wide.npy", np.zeros((10, 100_000), dtype=np.float32))
    base = large._BASE + 8 * large._VECTORS * 10
    row = 8 * large._COPIES * 100_000
    for count in (1, 3, 7):
        assert large._rows(base + count * row, ".npy", [tmp_path / "wide.npy"], 10, None) == (count, 1)
    # A block is large enough with eleven rows; what is left is for threads that work on others.
    assert large._rows(base + 35 * row, ".npy", [tmp_path / "wide.npy"], 10, None) == (11, 3)
    with pytest.raises(InputError, match=f"give at least {(base + row) / 2**20:,.0f} MB"):
        large._rows(base + row - 2**16, ".npy", [tmp_path / "wide.npy"], 10, None)


@pytest.mark.parametrize(
    ("text", "size"), [("4GB", 4 * 2**30), ("500mb", 500 * 2**20), ("2 GiB", 2**31), ("1024", 1024), (" 1.5K ", 1536)]
)
def test_sizes(text, size):
    assert large.parse_memory(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-4GB", "4XB", "0", "4 4"])
def test_no_sizes(text):
    with pytest.raises(InputError, match="expected a size such as 4GB"):
        large.parse_memory(text)
