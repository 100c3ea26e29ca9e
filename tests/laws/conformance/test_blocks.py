"""Blocks of rows give the products of the matrix in memory, and data that do not stand still are an error."""

import gc
import os
import threading
import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

import bayesdrop as bd
from bayesdrop.designs import Blocks, Design, as_design
from bayesdrop.designs.blocks import sources

SAME = {"rtol": 1e-12, "atol": 1e-12}


def _cases():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(23, 7)) * (rng.random((23, 7)) < 0.4)
    X[3], X[:, 2] = 0, 0
    return {
        "mixed": (X, [5, 0, 1, 17]),
        "one column": (X[:, :1], [10, 13]),
        "one row": (X[:1], [1]),
        "one-row blocks": (X, [1] * 23),
        "positive": (np.abs(X[:, [0, 1]]) + 0.5, [20, 3]),
        "binary": ((X > 0).astype(float), [12, 11]),
        "wide": (rng.normal(size=(3, 60)), [2, 1]),
    }


CASES = _cases()
STORAGES = {
    "dense": lambda block, number: block,
    "fortran": lambda block, number: np.asfortranarray(block),
    "integers": lambda block, number: block,
    "csr": lambda block, number: sparse.csr_array(block),
    "coo matrix": lambda block, number: sparse.coo_matrix(block),
    "mixed": lambda block, number: block if number % 2 else sparse.csc_array(block),
}


@pytest.fixture(params=CASES, name="case")
def _case(request):
    return CASES[request.param]


def cut(X, sizes, storage="dense"):
    return [STORAGES[storage](part, k) for k, part in enumerate(np.split(X, np.cumsum(sizes)[:-1]))]


@pytest.fixture(params=STORAGES, name="pair")
def _pair(request, case):
    X, sizes = case
    if request.param == "integers":
        X = np.round(3 * X).astype(np.int32)
    design = Blocks(cut(X, sizes, request.param))
    assert isinstance(design, Design)
    assert as_design(design) is design
    return design, X.astype(float)


def test_products(pair, check_products):
    design, X = pair
    check_products(design, X)
    total = np.zeros(X.shape)
    for where, columns, values in design.entries():
        np.add.at(total, (where, columns), values)
    np.testing.assert_array_equal(total, X)


def test_sums_of_products_and_gram_matrices_take_one_pass(pair, check_sums):
    design, X = pair
    before = design.passes
    check_sums(design, X)
    design.grams(np.ones((len(X), 2)))
    assert design.passes == before + 4


@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_smallest_entry(case, storage):
    X, sizes = case
    design = Blocks(cut(X, sizes, storage))
    assert design.minimum() == (X.min() if storage == "dense" else min(0.0, X.min()))


def test_rows_left_out_by_masks():
    X, sizes = CASES["mixed"]
    rng = np.random.default_rng(6)
    keep = rng.random(23) < 0.6
    again = rng.random(keep.sum()) < 0.6
    design = Blocks(cut(X, sizes, "mixed"))[keep][again]
    rest = X[keep][again]
    assert design.shape == rest.shape
    np.testing.assert_allclose(design.matvec(np.ones(7)), rest @ np.ones(7), **SAME)
    np.testing.assert_allclose(design.rmatvec(np.arange(1.0, len(rest) + 1)), rest.T @ np.arange(1.0, len(rest) + 1))
    design = Blocks([np.array([[-5.0], [1.0]]), np.array([[2.0]])])[np.array([False, True, True])]
    assert design.minimum() == 1.0
    for index in (slice(0, 2), np.array([0, 1]), np.ones(3, dtype=bool), (0, 1)):
        with pytest.raises(TypeError, match="boolean mask of 2 rows"):
            design[index]


def _write(folder, X):
    """The same rows in every kind of file: sources with the number of blocks and options."""
    import pyarrow
    import pyarrow.parquet as parquet

    np.save(folder / "a.npy", X[:9])
    np.save(folder / "b.npy", np.asfortranarray(X[9:]))
    for name, part in (("a.npz", X[:9]), ("b.npz", X[9:])):
        sparse.save_npz(folder / name, sparse.csr_array(part))
        sparse.save_npz(folder / f"stored {name}", sparse.csr_array(part), compressed=False)
    sparse.save_npz(folder / "columns.npz", sparse.csc_array(X), compressed=False)
    names = [f"f{d}" for d in range(X.shape[1])]
    table = pyarrow.table({"label": ["u"] * len(X)} | {name: X[:, d] for d, name in enumerate(names)})
    parquet.write_table(table, folder / "t.parquet", row_group_size=10)
    for start, name in ((0, "zero.svm"), (1, "one.svm")):
        dump_svmlight_file(X, np.ones(len(X)), str(folder / name), zero_based=not start)
    import gzip

    (folder / "zero.svm.gz").write_bytes(gzip.compress((folder / "zero.svm").read_bytes()))
    return {
        "npy": ([folder / "a.npy", folder / "b.npy"], {"rows": 4}),
        "npz": ([folder / "a.npz", str(folder / "b.npz")], {}),
        "stored npz": ([folder / "stored a.npz", folder / "stored b.npz"], {}),
        "stored columns": (folder / "columns.npz", {}),
        "both": ([folder / "a.npy", folder / "b.npz"], {}),
        "parquet": (folder / "t.parquet", {"columns": names}),
        "parquet rows": (folder / "t.parquet", {"columns": names, "rows": 3}),
        "svmlight": (folder / "zero.svm", {"rows": 6}),
        "svmlight from one": (str(folder / "one.svm"), {"rows": 6}),
        "svmlight compressed": (folder / "zero.svm.gz", {}),
    }


@pytest.mark.parametrize(
    "kind",
    ["npy", "npz", "stored npz", "stored columns", "both", "parquet", "parquet rows", "svmlight", "svmlight from one",
     "svmlight compressed"],
)  # fmt: skip
def test_files(kind, tmp_path, check_sums):
    X = CASES["mixed"][0].copy()
    X[0, 0], X[0, -1] = 1.0, 2.0
    source, options = _write(tmp_path, X)[kind]
    design = Blocks(source, **options)
    assert design.shape == X.shape
    if kind in ("npy", "parquet rows", "svmlight"):
        assert len(design._records) == {"npy": 7, "parquet rows": 8, "svmlight": 4}[kind]
    for _ in range(2):
        np.testing.assert_allclose(design.matvec(np.eye(7)), X, rtol=1e-12)
    check_sums(design, X)
    assert design.columns == options.get("columns")


def test_columns_of_parquet(tmp_path):
    import pyarrow
    import pyarrow.parquet as parquet

    parquet.write_table(pyarrow.table({"b": [1, 2], "a": [True, False], "t": ["x", "y"]}), tmp_path / "t.parquet")
    design = Blocks(tmp_path / "t.parquet", columns=["a", "b"])
    np.testing.assert_array_equal(design.matvec(np.eye(2)), [[1, 1], [0, 2]])
    for options, words in (
        ({}, r"source: .*expected numbers, got columns \{'t': 'string'\}; name the features in `columns`\.$"),
        ({"columns": ["a", "c"]}, r"columns: .* has no columns \['c'\], only \['b', 'a', 't'\]\.$"),
        ({"target": "c"}, r"target: .* has no column 'c', only \['b', 'a', 't'\]\.$"),
        ({"columns": ["a"], "target": "a"}, r"columns: expected features beside the target, got none.*at least one\.$"),
    ):
        with pytest.raises(ValueError, match=rf"^{words}"):
            Blocks(tmp_path / "t.parquet", **options)
    parquet.write_table(pyarrow.table({"b": [1.0, None]}), tmp_path / "n.parquet")
    with pytest.raises(ValueError, match="NaN or infinite entry in its row 1"):
        Blocks(tmp_path / "n.parquet")


def test_refused_sources(tmp_path):
    ones = np.ones((2, 3))
    with pytest.raises(TypeError, match=r"read only once; pass the function"):
        Blocks(iter([ones]))
    with pytest.raises(TypeError, match="expected blocks of rows, got ndarray"):
        Blocks(ones)
    with pytest.raises(ValueError, match="not one of the known kinds"):
        Blocks("table.csv")
    with pytest.raises(FileNotFoundError, match="absent.npy"):
        Blocks(tmp_path / "absent.npy")
    with pytest.raises(ValueError, match="there are no rows"):
        Blocks(lambda: iter([np.ones((0, 3))]))
    with pytest.raises(ValueError, match="has no columns"):
        Blocks([np.ones((2, 0))])
    with pytest.raises(ValueError, match="block 1 must be a matrix of real numbers"):
        Blocks([ones, ones.astype(complex)])
    with pytest.raises(ValueError, match=r"matrix of real numbers.*shape \(3,\)"):
        Blocks([ones[0]])
    with pytest.raises(ValueError, match=r"block 2 .*has 4 columns, and the blocks before it have 3"):
        Blocks([ones, ones, np.ones((2, 4))])
    with pytest.raises(ValueError, match="columns: expected 3 names"):
        Blocks([ones], columns=["a"])
    with pytest.raises(ValueError, match="rows: expected a whole number"):
        Blocks([ones], rows=0)


def test_data_that_change_between_passes():
    X = np.random.default_rng(7).normal(size=(30, 4))
    parts = [X[:10].copy(), X[10:].copy()]
    design = Blocks(lambda: iter(parts))
    design.matvec(np.ones(4))
    changes = {
        "a value": [parts[0], np.where(np.arange(80).reshape(20, 4) == 33, 0.5, parts[1])],
        "NaN": [parts[0], np.where(np.arange(80).reshape(20, 4) == 33, np.nan, parts[1])],
        "order of rows": [parts[0], parts[1][np.random.default_rng(8).permutation(20)]],
        "order of columns": [parts[0], parts[1][:, ::-1]],
        "rows": [parts[0], parts[1][:-1]],
        "width": [parts[0], parts[1][:, :3]],
    }
    good = parts
    for name, parts in changes.items():  # noqa: B007 - the source reads this name
        with pytest.raises(ValueError, match=r"block 1 \(block 1 of all\) has changed.*make bd.Blocks again"):
            design.rmatvec(np.ones(30))
    parts = good[:1]
    with pytest.raises(ValueError, match="ended after 1 of 2 blocks"):
        design.matvec(np.ones(4))
    parts = [*good, good[0]]
    with pytest.raises(ValueError, match="one block more than the 2 there were"):
        design.matvec(np.ones(4))
    parts = good
    np.testing.assert_allclose(design.matvec(np.ones(4)), X.sum(axis=1), **SAME)


def test_sparse_data_that_change():
    csr = sparse.random_array((50, 9), density=0.3, rng=np.random.default_rng(9), format="csr")
    held = [csr]
    design = Blocks(lambda: iter(held))
    design.matvec(np.ones(9))
    shuffled = csr[np.random.default_rng(10).permutation(50)]
    value = csr.copy()
    value.data[7] += 1e-6
    for other in (shuffled, value, csr[:, ::-1]):
        held = [other]
        with pytest.raises(ValueError, match="has changed"):
            design.matvec(np.ones(9))


def test_a_function_that_returns_the_same_iterator():
    one = iter([np.ones((3, 2)), np.ones((2, 2))])
    design = Blocks(lambda: one)
    with pytest.raises(ValueError, match=r"ended after 0 of 2 blocks.*fresh iterator at every call"):
        design.matvec(np.ones(2))


@pytest.mark.parametrize("kind", ["npy", "npz", "stored npz", "parquet", "svm"])
def test_truncated_files(kind, tmp_path):
    X = np.random.default_rng(11).normal(size=(200, 5))
    files = _write(tmp_path, X)
    path = (
        tmp_path
        / {
            "npy": "b.npy",
            "npz": "b.npz",
            "stored npz": "stored b.npz",
            "parquet": "t.parquet",
            "svm": "zero.svm",
        }[kind]
    )
    source, options = files[{"svm": "svmlight"}.get(kind, kind)]
    design = Blocks(source, **options)
    whole, status = path.read_bytes(), path.stat()
    one = np.ones((5, 1))
    passes = (
        lambda: design.matvec(one),
        lambda: design.product_sums(one, one[:, :0], lambda first, second: (first, second, first)),
    )
    path.write_bytes(whole[: len(whole) // 2])
    for read in passes:
        with pytest.raises(ValueError, match=f"{path.name} has changed since"):
            read()
    # The same size and time: what is read tells.
    path.write_bytes(whole[: len(whole) // 2].ljust(len(whole), b"\0"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    for read in passes:
        with pytest.raises(ValueError, match="cannot be read|has changed: |ended after|expected index:value"):
            read()
    path.write_bytes(whole[: len(whole) // 2 - 3])
    if kind != "svm":  # half a text is a text
        early = ".*the file ends early" if kind == "npy" else ""
        with pytest.raises(ValueError, match=f"{path.name} cannot be read, it may be truncated{early}"):
            Blocks(source, **options)


@pytest.mark.parametrize("part", ["data", "indices", "indptr"])
def test_stored_archives_with_other_numbers_are_refused(part, tmp_path):
    """Of the same size and time, so that the numbers alone tell; columns that are not there reach no product."""
    matrix = sparse.csr_array(np.random.default_rng(13).normal(size=(200, 5)))
    path = tmp_path / "x.npz"
    sparse.save_npz(path, matrix, compressed=False)
    design = Blocks(path)
    design.matvec(np.ones(5))
    status = path.stat()
    changed = matrix.copy()
    getattr(changed, part)[7] = {"data": 1e3, "indices": 1 << 30, "indptr": 900}[part]
    sparse.save_npz(path, changed, compressed=False)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(ValueError, match=r"has changed: the source|cannot be read|is damaged"):
        design.matvec(np.ones(5))


def test_a_file_that_is_written_to_in_the_middle_of_a_pass(tmp_path):
    X = np.random.default_rng(12).normal(size=(40, 3))
    np.save(tmp_path / "x.npy", X)
    source = sources.open_source(tmp_path / "x.npy", 10, None)
    reading, pieces = source.pieces(), [load for _, load in source.pieces()]
    next(reading)[1]()
    np.save(tmp_path / "x.npy", X[:25])
    with pytest.raises(ValueError, match="has changed since"):
        next(reading)[1]()
    for load in pieces:
        with pytest.raises(ValueError, match="has changed since"):
            load()


@pytest.mark.slow
def test_threads_end_with_their_pass():
    before = threading.active_count()
    design = Blocks([np.ones((3, 2))] * 5)
    entries = design.entries()
    next(entries)
    del entries
    gc.collect()
    design.matvec(np.ones(2))
    assert threading.active_count() == before


def test_what_needs_all_entries_says_so():
    X = Blocks([np.random.default_rng(13).normal(size=(20, 3))])
    y = np.arange(20) % 2
    for call in (
        lambda: bd.sample(bd.Model(), X, y),
        lambda: bd.variational(bd.Model(), X, y),
        lambda: np.asarray(X),
        lambda: bd.DropoutSVC().partial_fit(X, y, classes=[0, 1]),
        lambda: bd.DropoutLogisticRegression(0.1).fit(np.ones((4, 3)), [0, 1, 0, 1], unlabelled=X),
        lambda: bd.DropoutLogisticRegression(0.1).fit(X, y, unlabelled=np.ones((4, 3))),
        lambda: bd.DropoutSVCCV().fit(X, y),
        lambda: bd.RatePath(bd.DropoutSVC()).fit(X, y),
        lambda: bd.LatentDropoutSVC(0.1).fit(X, y),
    ):
        with pytest.raises(TypeError, match="Pass an array or a scipy sparse matrix|pass an array or a scipy sparse"):
            call()


def test_a_bar_for_each_long_pass(capfd, monkeypatch):
    import functools

    import tqdm

    from bayesdrop.designs.blocks import design as blocks

    bar = functools.partial(tqdm.tqdm, mininterval=0)
    monkeypatch.setattr(tqdm, "tqdm", lambda *a, delay, **k: bar(*a, **k))
    monkeypatch.setattr(blocks, "is_watched", lambda stream: True)
    design = Blocks([np.ones((3, 2))] * 4, progress=True)
    design.matvec(np.ones(2))
    shown = capfd.readouterr().err
    assert "pass 1 over the data" in shown
    assert "pass 2 over the data" in shown
    assert "4/4" in shown
    Blocks([np.ones((3, 2))] * 4).matvec(np.ones(2))
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_memory_stays_bounded():
    """A hundred blocks of 1.6 MB go by; what is held is a few blocks and vectors of length n."""
    n_blocks, rows, p = 100, 2000, 100

    def read():
        return (np.random.default_rng(k).normal(size=(rows, p)) for k in range(n_blocks))

    gc.collect()
    tracemalloc.start()
    design = Blocks(read)
    scores = design.matvec(np.ones(p))
    design.gram(np.ones(len(scores)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    block = 8 * rows * p
    assert peak < 12 * block + 4 * 8 * n_blocks * rows < 0.2 * n_blocks * block
