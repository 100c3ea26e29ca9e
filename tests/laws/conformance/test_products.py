"""Compiled products of a sparse matrix equal scipy's, for every width, 0/1 and real data, both precisions."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from scipy import sparse

from bayesdrop.designs import SparseDesign, block_threads
from bayesdrop.designs import _scipy as products
from bayesdrop.designs import sparse as sparse_module
from bayesdrop.designs.compiled import entries, parts, wide
from bayesdrop.designs.compiled import products as compiled
from bayesdrop.designs.compiled.jit import available

N, P = 23, 9


def matrix(kind, dtype, index):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P)) * (rng.random((N, P)) < 0.4)
    X[3], X[:, 2] = 0, 0
    if kind == "binary":
        X = (X != 0).astype(float)
    csr = sparse.csr_array(X.astype(dtype))
    return sparse.csr_array((csr.data, csr.indices.astype(index), csr.indptr.astype(index)), shape=csr.shape)


@pytest.mark.slow_cases("float32-int64")
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["binary", "real"])
@pytest.mark.parametrize(
    "widths", [(1, 0), (0, 1), (1, 1), (2, 0), (3, 2), (0, 3), (0, 0), (2, 2), (3, 3), (5, 5), (11, 0), (0, 9), (9, 9)]
)
@pytest.mark.parametrize("narrow", [0, P])
def test_compiled_equals_scipy(kind, dtype, index, widths, narrow, monkeypatch):
    monkeypatch.setattr(wide, "_NARROW", narrow)
    csr = matrix(kind, dtype, index)
    fast, plain = (kind_(csr, kind == "binary") for kind_ in (compiled.CompiledProducts, products.ScipyProducts))
    rng = np.random.default_rng(1)
    for name, size in (("forward", P), ("backward", N)):
        first, second = rng.normal(size=(size, widths[0])), rng.normal(size=(size, widths[1]))
        for got, expected in zip(getattr(fast, name)(first, second), getattr(plain, name)(first, second), strict=True):
            assert got.dtype == np.float64
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_compiled_sampled_products_equal_scipys_and_the_loops(dtype, monkeypatch):
    monkeypatch.setattr(products, "_GATHERED", 10)  # in several pieces
    csr = matrix("real", dtype, np.int32)
    rng = np.random.default_rng(5)
    given = rng.normal(size=(N, 4)), rng.normal(size=(P, 4)), rng.random(P), rng.normal(size=P)
    expected = products.ScipyProducts(csr, False).sampled(*given)
    loops = np.zeros((N, 4)), np.zeros((P, 4))
    csc = csr.tocsc()
    compiled.sampled(csc.indptr, csc.indices, csc.data, *given, *loops)
    for found in (compiled.CompiledProducts(csr, False).sampled(*given), loops):
        for got, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-11, atol=1e-11)


def test_the_kernels_are_python_too():
    """The loops themselves, not compiled: what a reader reads is what runs."""
    csr = matrix("real", np.float64, np.int32)
    dense, block = csr.toarray(), np.random.default_rng(2).normal(size=(P, 2))
    result = np.empty((N, 2))
    compiled.REAL.gather(csr.indptr, csr.indices, csr.data, block, 1, result)
    np.testing.assert_allclose(result, np.column_stack([dense @ block[:, 0], dense**2 @ block[:, 1]]), atol=1e-12)


@pytest.mark.skipif(not available(), reason="needs Numba")
@pytest.mark.parametrize(("kind", "dtype"), [("real", np.float64), ("real", np.float32), ("binary", np.float64)])
@pytest.mark.parametrize("index", [np.uint32, np.uint64])
@pytest.mark.parametrize("width", [2, 3, 4, 7, 8, 19])
def test_vectors_side_by_side_equal_dense_products(kind, dtype, index, width):
    from bayesdrop.designs.compiled.lines import gather_wide, scatter_eight

    csr, rng = matrix(kind, dtype, np.int32), np.random.default_rng(4)
    dense = csr.toarray().astype(np.float64)
    lines = csr.indptr.astype(np.uint64), csr.indices.astype(index), csr.data
    w, r, r_sq = (rng.normal(size=(size, width)) for size in (P, N, N))
    for squared in (False, True):
        sums = np.full((N, width), np.nan)
        for start, stop in ((0, 5), (5, N)):
            gather_wide(*lines, kind == "binary", squared, w, sums, start, stop)
        np.testing.assert_allclose(sums, (dense**2 if squared else dense) @ w, atol=1e-12)
    # Four and four, and eight of one kind.
    for squares, second, share in (((False, True), r_sq, 4), ((True, True), r_sq[:, :0], 8)):
        back = np.full((2, -(-width // share), P, 8), np.nan)
        for start, stop, part in ((0, 5, back[0]), (5, N, back[1])):
            scatter_eight(*lines, kind == "binary", *squares, r, second, part, start, stop)
        total = back.sum(axis=0)
        for half, block, square in ((total[..., :share], r, squares[0]), (total[..., share:], second, squares[1])):
            got = half.transpose(1, 0, 2).reshape(P, -1)
            columns = np.zeros((N, got.shape[1]))
            columns[:, : block.shape[1]] = block
            np.testing.assert_allclose(got, (dense**2 if square else dense).T @ columns, atol=1e-12)


@pytest.mark.skipif(not available(), reason="needs Numba")
@pytest.mark.parametrize("widths", [(4, 0), (0, 3), (5, 5)])
@pytest.mark.parametrize("narrow", [0, P])
def test_threads_change_no_bit_of_wide_products(monkeypatch, widths, narrow):
    monkeypatch.setattr(wide, "_THREADED", 0)
    monkeypatch.setattr(wide, "_NARROW", narrow)
    products, rng = compiled.CompiledProducts(matrix("real", np.float64, np.int32), False), np.random.default_rng(5)
    w, r = ([rng.normal(size=(size, width)) for width in widths] for size in (P, N))
    found = []
    # Five cores are more than half of the columns.
    for count in (1, 2, 5):
        monkeypatch.setattr(wide, "cores", lambda count=count: count)
        found.append((*products.forward(*w), *products.backward(*r)))
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.skipif(not available(), reason="needs Numba")
@pytest.mark.parametrize("kind", ["real", "binary"])
@pytest.mark.parametrize("widths", [(1, 0), (0, 1), (1, 1), (2, 0), (3, 1)])
def test_threads_change_no_bit_of_narrow_products(monkeypatch, widths, kind):
    monkeypatch.setattr(parts, "_THREADED", 0)
    monkeypatch.setattr(parts, "_PER_COLUMN", 0)
    csr, rng = matrix(kind, np.float64, np.int32), np.random.default_rng(6)
    products, dense = compiled.CompiledProducts(csr, kind == "binary"), csr.toarray()
    w, r = ([rng.normal(size=(size, width)) for width in widths] for size in (P, N))
    found = []
    for count in (1, 2, 5):
        for module in (parts, block_threads):
            monkeypatch.setattr(module, "cores", lambda count=count: count)
        found.append((*products.forward(*w), *products.backward(*r)))
    for got, expected in zip(
        found[0], (dense @ w[0], dense**2 @ w[1], dense.T @ r[0], (dense**2).T @ r[1]), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.skipif(not available(), reason="needs Numba")
@pytest.mark.parametrize("count", [1, 3])
def test_dense_rows_are_compressed_as_scipy_does(monkeypatch, count):
    monkeypatch.setattr(entries, "_PART", 4 * P)
    monkeypatch.setattr(block_threads, "cores", lambda: count)
    whole = matrix("real", np.float64, np.int32).toarray()
    for X, centre in (
        (whole, np.zeros(P)),
        (whole, np.where(np.arange(P) % 3, 0.0, whole[0])),
        (whole[:, 2:3], np.zeros(1)),
    ):
        expected = sparse.csr_array(X - centre)
        found = entries.compress(X, centre, entries.row_counts(X, centre))
        for part in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(found, part), getattr(expected, part))


def test_calls_side_by_side_are_all_made_and_an_error_is_raised(monkeypatch):
    monkeypatch.setattr(block_threads, "cores", lambda: 3)
    made: list[int] = []

    def call(number):
        made.append(number)
        if number == 5:
            raise IndexError("the sixth")

    with pytest.raises(IndexError, match="the sixth"):
        block_threads.side_by_side([partial(call, number) for number in range(20)])
    # The thread that failed makes no more; the others make those that are left.
    assert sorted(made) == list(range(20))


def test_a_worker_keeps_to_its_share_of_the_cores(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    whole = block_threads.cores()
    for asked, expected in (("1", 1), ("100000", whole), ("0", 1), ("2,4", whole)):
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
        assert block_threads.cores() == expected


@pytest.mark.skipif(not available(), reason="needs Numba")
def test_a_thread_of_several_takes_a_wide_product_alone(monkeypatch):
    monkeypatch.setattr(wide, "_THREADED", 0)
    monkeypatch.setattr(wide, "cores", lambda: pytest.fail("asked for threads within a thread"))
    products = compiled.CompiledProducts(matrix("real", np.float64, np.int32), False)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(products.forward, np.ones((P, 4)), np.ones((P, 0))).result()


def test_large_matrices_take_the_compiled_products(monkeypatch):
    csr = matrix("real", np.float32, np.int64)
    assert isinstance(SparseDesign(csr)._products, products.ScipyProducts)
    monkeypatch.setattr(sparse_module, "_COMPILED_FROM", 0)
    design, dense = SparseDesign(csr), csr.toarray().astype(float)
    assert isinstance(design._products, compiled.CompiledProducts)
    w = np.random.default_rng(3).normal(size=P)
    np.testing.assert_allclose(design.sq_matvec(w), dense**2 @ w, rtol=1e-12, atol=1e-12)
    above, below = design.sign_sums(np.ones((N, 1)))
    np.testing.assert_allclose(above[:, 0], (dense > 0).sum(axis=0))
    np.testing.assert_allclose(below[:, 0], (dense < 0).sum(axis=0))
    monkeypatch.setattr(sparse_module, "available", lambda: False)
    assert isinstance(SparseDesign(csr)._products, products.ScipyProducts)
