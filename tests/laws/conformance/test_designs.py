"""Every storage of a matrix gives the products of the plain dense one."""

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import ThreadpoolController

from bayesdrop.designs import DenseDesign, Design, SparseDesign, as_design, dense, threads
from bayesdrop.designs import sparse as sparse_storage
from bayesdrop.designs.sparse import ShiftedSparseDesign


def _cases():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(23, 7)) * (rng.random((23, 7)) < 0.4)
    X[3] = 0  # an empty row
    X[:, 2] = 0  # an empty column
    tall, wide = rng.normal(size=(300, 3)), rng.normal(size=(3, 60)) * (rng.random((3, 60)) < 0.5)
    cases = {"mixed": X, "one column": X[:, :1], "one row": X[:1], "binary": (X > 0).astype(float)}
    # So that a centre is added and subtracted without rounding.
    return {name: np.round(case * 2**20) / 2**20 for name, case in (cases | {"tall": tall, "wide": wide}).items()}


def _int64(X):
    csr = sparse.csr_array(X)
    return sparse.csr_array((csr.data, csr.indices.astype(np.int64), csr.indptr.astype(np.int64)), shape=csr.shape)


def _explicit_zeros(X):
    csr = sparse.csr_array(X)
    coo = csr.tocoo()
    empty = np.argwhere(X == 0)[:2]
    return sparse.coo_array(
        (
            np.concatenate([coo.data, np.zeros(len(empty))]),
            (np.concatenate([coo.row, empty[:, 0]]), np.concatenate([coo.col, empty[:, 1]])),
        ),
        shape=X.shape,
    ).tocsr()


def _about(X, storage):
    """What is the matrix itself once a centre is subtracted, which is mostly stored or mostly not."""
    centre = np.where(np.arange(X.shape[1]) % 3 == 1, 0.0, np.linspace(-2.0, 3.0, X.shape[1]).round())
    return storage(X + centre), centre


STORAGES = {
    "dense": lambda X: X,
    "fortran": np.asfortranarray,
    "csr array": sparse.csr_array,
    "csr matrix": sparse.csr_matrix,
    "csc array": sparse.csc_array,
    "coo matrix": sparse.coo_matrix,
    "int64 indices": _int64,
    "explicit zeros": _explicit_zeros,
    "dense about a centre": lambda X: DenseDesign(_about(X, np.asarray)[0]).shifted(_about(X, len)[1]),
    "sparse about a centre": lambda X: SparseDesign(_about(X, sparse.csr_array)[0]).shifted(_about(X, len)[1]),
    "sparse and not filled": lambda X: ShiftedSparseDesign(*_about(X, sparse.csr_array)),
}
CASES = _cases()


@pytest.fixture(params=CASES, name="X")
def _matrix(request):
    return CASES[request.param]


@pytest.fixture(params=STORAGES, name="design")
def _design(request, X, monkeypatch):
    design = as_design(STORAGES[request.param](X))
    assert isinstance(design, Design)
    return design


def test_products(design, X, check_products, check_sums):
    check_products(design, X)
    check_sums(design, X)
    assert design.minimum() == min(0.0, X.min()) if isinstance(design, SparseDesign) else design.minimum() == X.min()


@pytest.mark.parametrize("block", [1, 7, 1 << 17])
def test_entries(design, X, block, monkeypatch):
    """Blocks of whole, ascending rows hold every non-zero entry once, and little more than the block size."""
    for module in (dense, sparse_storage):
        monkeypatch.setattr(module, "LIMITS", threads.Limits(cached=block))
    total, last = np.zeros(X.shape), -1
    for rows, columns, values in design.entries():
        assert len(rows) == len(columns) == len(values)
        assert np.all(values != 0)
        assert rows[0] > last
        assert np.all(np.diff(rows) >= 0)
        assert len(rows) <= block or rows[0] == rows[-1]
        last = rows[-1]
        np.add.at(total, (rows, columns), values)
    np.testing.assert_array_equal(total, X)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("share", [0.2, 1.0])
def test_large_matrices_go_by_blocks_or_by_compressed_rows(monkeypatch, dtype, share, check_products, check_sums):
    """Single precision stays, and sums are in double precision."""
    monkeypatch.setattr(dense, "LIMITS", threads.Limits(small=0, cached=40))
    rng = np.random.default_rng(3)
    X = (rng.normal(size=(41, 6)) * (rng.random((41, 6)) < share)).astype(dtype)
    design = DenseDesign(X)
    assert design.matrix() is X
    assert design.is_mostly_zero == (share < 1)
    check_products(design, X.astype(float))
    check_sums(design, X.astype(float))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("share", [0.2, 1.0])
def test_rows_about_a_centre(monkeypatch, dtype, share, check_products):
    """Products, Gram matrices and counts are those of the matrix itself."""
    monkeypatch.setattr(dense, "LIMITS", threads.Limits(small=0, cached=40))
    monkeypatch.setattr(dense, "BLOCK", 8 * 40)
    rng = np.random.default_rng(8)
    X = (rng.normal(size=(31, 7)) * (rng.random((31, 7)) < share)).astype(dtype)
    X[:, 2] = 5.0
    centre = np.array([0.0, 0.0, 5.0, 0.0, 1.5, 0.0, 0.0])
    whole = (X - centre).astype(dtype).astype(np.float64)
    design, same = DenseDesign(X).shifted(centre), {"rtol": 1e-12, "atol": 1e-12}
    assert design.is_mostly_zero == (share < 1)
    check_products(design, whole)
    np.testing.assert_allclose(design[3:9].matrix(), whole[3:9], **same)
    np.testing.assert_allclose(design.matvec(np.ones(7)), whole.sum(axis=1), **same)
    np.testing.assert_array_equal(design.matrix(), (X - centre).astype(dtype))
    np.testing.assert_array_equal(design.shifted(-centre).matrix(), (design.matrix() + centre).astype(dtype))


def test_blas_has_one_thread_within_calls_that_hold_it():
    controller = ThreadpoolController().select(user_api="blas")

    def found():
        return [library["num_threads"] for library in controller.info()]

    before = found()
    with threads.one_blas_thread():
        assert set(found()) == {1}
        with threads.one_blas_thread():
            assert set(found()) == {1}
        # The first to come is still there.
        assert set(found()) == {1}
    assert found() == before
    with pytest.raises(ZeroDivisionError), threads.one_blas_thread():
        1 / 0  # noqa: B018
    assert found() == before


def test_sparse_leaves_the_callers_matrix_alone():
    matrix = _explicit_zeros(CASES["mixed"])
    before = matrix.copy()
    SparseDesign(matrix).matvec(np.ones(matrix.shape[1]))
    np.testing.assert_array_equal(matrix.data, before.data)
    np.testing.assert_array_equal(matrix.indices, before.indices)


@pytest.mark.parametrize("n", [1, 7, 8, 25])
def test_functions_over_the_rows_may_be_taken_in_pieces(n, monkeypatch):
    monkeypatch.setattr(threads, "LIMITS", threads.Limits(piece=24, threaded=50))
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(n, 3)), rng.normal(size=(n, 1))
    design = as_design(np.ones((n, 2)))
    np.testing.assert_array_equal(design.rowwise(np.add, a, b), a + b)
    both, narrow = design.rowwise(lambda x, y: (x * y, y + 1), a, b, widths=(3, 1))
    np.testing.assert_array_equal(both, a * b)
    np.testing.assert_array_equal(narrow, b + 1)
