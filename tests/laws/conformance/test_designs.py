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


@pytest.mark.parametrize("columns", [None, 1, 3])
def test_products(design, X, columns, check_normal_product):
    rng = np.random.default_rng(1)
    tail = () if columns is None else (columns,)
    w, w2 = rng.normal(size=(2, X.shape[1], *tail))
    r, r2 = rng.normal(size=(2, X.shape[0], *tail))
    same = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(design.matvec(w), X @ w, **same)
    np.testing.assert_allclose(design.rmatvec(r), X.T @ r, **same)
    np.testing.assert_allclose(design.sq_matvec(w), (X * X) @ w, **same)
    np.testing.assert_allclose(design.sq_rmatvec(r), (X * X).T @ r, **same)
    if columns is not None:
        first, second = design.pair_matvec(w, w2)
        np.testing.assert_allclose(first, X @ w, **same)
        np.testing.assert_allclose(second, (X * X) @ w2, **same)
        first, second = design.pair_rmatvec(r, r2)
        np.testing.assert_allclose(first, X.T @ r, **same)
        np.testing.assert_allclose(second, (X * X).T @ r2, **same)
        check_normal_product(design, X, w, w2)


def test_sampled_products(design, X, check_sampled_products):
    check_sampled_products(design, X)


def test_sums_of_products_and_blocks(design, X, check_product_sums, check_each_block):
    check_product_sums(design, X)
    check_each_block(design, X)


def test_grams_and_counts(design, X):
    rng = np.random.default_rng(2)
    omega, scale = rng.random(X.shape[0]), rng.random(X.shape[1])
    same = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(design.gram(omega), X.T @ (omega[:, None] * X), **same)
    omega[np.arange(X.shape[0]) % 3 > 0] = 0.0
    np.testing.assert_allclose(design.gram(omega), X.T @ (omega[:, None] * X), **same)
    weights = np.column_stack([omega, rng.random(X.shape[0])])
    np.testing.assert_allclose(design.grams(weights), np.einsum("ng,np,nq->gpq", weights, X, X), **same)
    np.testing.assert_allclose(design.outer_gram(scale), (X * scale) @ X.T, **same)
    r = rng.normal(size=(X.shape[0], 2))
    above, below = design.sign_sums(r)
    np.testing.assert_allclose(above, (X > 0).T.astype(float) @ r, **same)
    np.testing.assert_allclose(below, (X < 0).T.astype(float) @ r, **same)
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


def test_blocks_of_rows_equal_one_block(monkeypatch):
    """Those of large matrices."""
    monkeypatch.setattr(dense, "LIMITS", threads.Limits(small=0, cached=40))
    rng = np.random.default_rng(3)
    X = rng.normal(size=(41, 6))
    design = DenseDesign(X)
    w, r = rng.normal(size=(6, 2)), rng.normal(size=(41, 2))
    np.testing.assert_allclose(design.sq_matvec(w), (X * X) @ w, rtol=1e-12)
    np.testing.assert_allclose(design.sq_rmatvec(r), (X * X).T @ r, rtol=1e-12, atol=1e-13)
    for got, expected in zip(design.pair_matvec(w, w), (X @ w, (X * X) @ w), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13)
    for got, expected in zip(design.pair_rmatvec(r, r), (X.T @ r, (X * X).T @ r), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("columns", [None, 2])
def test_single_precision_stays_and_sums_in_double(monkeypatch, columns):
    monkeypatch.setattr(dense, "LIMITS", threads.Limits(small=0, cached=40))
    X = np.random.default_rng(3).normal(size=(41, 6)).astype(np.float32)
    design, wide = DenseDesign(X), X.astype(np.float64)
    assert design._x is X
    tail = () if columns is None else (columns,)
    w, r = np.random.default_rng(4).normal(size=(6, *tail)), np.random.default_rng(5).normal(size=(41, *tail))
    same = {"rtol": 1e-12, "atol": 1e-13}
    np.testing.assert_allclose(design.matvec(w), wide @ w, **same)
    np.testing.assert_allclose(design.rmatvec(r), wide.T @ r, **same)
    np.testing.assert_allclose(design.sq_rmatvec(r), (wide * wide).T @ r, **same)
    np.testing.assert_allclose(design.gram(np.ones(41)), wide.T @ wide, **same)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_dense_matrix_of_mostly_zeros_takes_compiled_products(monkeypatch, dtype):
    monkeypatch.setattr(dense, "LIMITS", threads.Limits(small=0))
    rng = np.random.default_rng(6)
    X = (rng.normal(size=(31, 7)) * (rng.random((31, 7)) < 0.2)).astype(dtype)
    X[4] = 0
    design, wide = DenseDesign(X), X.astype(np.float64)
    assert design._products is not None
    assert DenseDesign(np.ones((30, 7)))._products is None
    w, w2, r, r2 = rng.normal(size=7), rng.normal(size=(7, 3)), rng.normal(size=31), rng.normal(size=(31, 2))
    same = {"rtol": 1e-12, "atol": 1e-13}
    np.testing.assert_allclose(design.matvec(w), wide @ w, **same)
    np.testing.assert_allclose(design.rmatvec(r2), wide.T @ r2, **same)
    np.testing.assert_allclose(design.sq_matvec(w2), wide**2 @ w2, **same)
    np.testing.assert_allclose(design.sq_rmatvec(r), (wide**2).T @ r, **same)
    for got, expected in zip(design.pair_matvec(w2, w2), (wide @ w2, wide**2 @ w2), strict=True):
        np.testing.assert_allclose(got, expected, **same)
    for got, expected in zip(design.pair_rmatvec(r2, r2), (wide.T @ r2, (wide**2).T @ r2), strict=True):
        np.testing.assert_allclose(got, expected, **same)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("share", [0.2, 1.0])
def test_rows_about_a_centre(monkeypatch, dtype, share, check_normal_product):
    """Products, Gram matrices and counts are those of the matrix itself."""
    monkeypatch.setattr(dense, "LIMITS", threads.Limits(small=0, cached=40))
    monkeypatch.setattr(dense, "BLOCK", 8 * 40)
    rng = np.random.default_rng(8)
    X = (rng.normal(size=(31, 7)) * (rng.random((31, 7)) < share)).astype(dtype)
    X[:, 2] = 5.0
    centre = np.array([0.0, 0.0, 5.0, 0.0, 1.5, 0.0, 0.0])
    whole = (X - centre).astype(dtype).astype(np.float64)
    design, omega, r = DenseDesign(X).shifted(centre), rng.random(31), rng.normal(size=(31, 2))
    omega[::2] = 0.0
    same = {"rtol": 1e-12, "atol": 1e-12}
    if share < 1:
        assert design.is_mostly_zero
        check_normal_product(design, whole, rng.normal(size=(7, 2)), rng.normal(size=(7, 2)))
        np.testing.assert_allclose(design.gram(omega), whole.T @ (omega[:, None] * whole), **same)
        np.testing.assert_allclose(design.sign_sums(r)[0], (whole > 0).T @ r, **same)
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
    SparseDesign(matrix)
    np.testing.assert_array_equal(matrix.data, before.data)
    np.testing.assert_array_equal(matrix.indices, before.indices)


def test_float32_is_promoted():
    X = CASES["mixed"].astype(np.float32)
    for design in (as_design(X), as_design(sparse.csr_array(X))):
        assert design.matvec(np.ones(7)).dtype == np.float64


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
