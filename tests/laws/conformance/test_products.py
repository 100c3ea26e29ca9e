"""Compiled products of a sparse matrix equal scipy's, for every width, 0/1 and real data, both precisions."""

from functools import partial

import numpy as np
import pytest
from scipy import sparse

from bayesdrop.designs import SparseDesign, kernels, threads
from bayesdrop.designs import products as products_module
from bayesdrop.designs import sparse as sparse_module
from bayesdrop.designs.kernels import available
from bayesdrop.designs.products import CompiledProducts, ScipyProducts, compress

N, P = 23, 9
IN_PARTS = threads.Limits(products=0, worth=0)

needs_numba = pytest.mark.skipif(not available(), reason="needs Numba")


def matrix(kind, dtype, index):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P)) * (rng.random((N, P)) < 0.4)
    X[3], X[:, 2] = 0, 0
    if kind == "binary":
        X = (X != 0).astype(float)
    csr = sparse.csr_array(X.astype(dtype))
    return sparse.csr_array((csr.data, csr.indices.astype(index), csr.indptr.astype(index)), shape=csr.shape)


@needs_numba
@pytest.mark.slow_cases("float32-int64")
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["binary", "real"])
@pytest.mark.parametrize(
    "widths", [(1, 0), (0, 1), (1, 1), (2, 0), (0, 2), (3, 2), (0, 3), (0, 0), (2, 2), (5, 5), (11, 0), (9, 9)]
)
@pytest.mark.parametrize("limits", [IN_PARTS, threads.LIMITS], ids=["in parts", "at once"])
def test_compiled_equals_scipy(kind, dtype, index, widths, limits):
    csr = matrix(kind, dtype, index)
    fast, plain = CompiledProducts(csr, kind == "binary", limits), ScipyProducts(csr, kind == "binary")
    rng = np.random.default_rng(1)
    for name, size in (("forward", P), ("backward", N)):
        first, second = rng.normal(size=(size, widths[0])), rng.normal(size=(size, widths[1]))
        for got, expected in zip(getattr(fast, name)(first, second), getattr(plain, name)(first, second), strict=True):
            assert got.dtype == np.float64
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)
    omega = rng.random(N)
    omega[2] = 0.0
    np.testing.assert_allclose(fast.gram(omega), plain.gram(omega), rtol=1e-12, atol=1e-13)


@needs_numba
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_compiled_sampled_products_equal_scipys(dtype, monkeypatch):
    monkeypatch.setattr(products_module, "BLOCK", 10)  # in several pieces
    csr = matrix("real", dtype, np.int32)
    rng = np.random.default_rng(5)
    given = rng.normal(size=(N, 4)), rng.normal(size=(P, 4)), rng.random(P), rng.normal(size=P)
    expected = ScipyProducts(csr, False).sampled(*given)
    for got, wanted in zip(CompiledProducts(csr, False).sampled(*given), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-11, atol=1e-11)


def test_the_loops_are_python_too():
    """What a reader reads is what runs."""
    csr = matrix("real", np.float64, np.int32)
    dense, block = csr.toarray(), np.random.default_rng(2).normal(size=(P, 2))
    result = np.empty((N, 2))
    kernels.gather_two(csr.indptr, csr.indices, csr.data, block, (False, True), result)
    np.testing.assert_allclose(result, np.column_stack([dense @ block[:, 0], dense**2 @ block[:, 1]]), atol=1e-12)


@needs_numba
@pytest.mark.parametrize("kind", ["real", "binary"])
@pytest.mark.parametrize("widths", [(1, 0), (1, 1), (4, 0), (5, 5)])
def test_threads_change_no_bit(monkeypatch, widths, kind):
    rng, csr = np.random.default_rng(5), matrix(kind, np.float64, np.int32)
    products = CompiledProducts(csr, kind == "binary", IN_PARTS)
    w, r = ([rng.normal(size=(size, width)) for width in widths] for size in (P, N))
    found = []
    # Five cores are more than half of the columns.
    for count in (1, 2, 5):
        for module in (products_module, threads):
            monkeypatch.setattr(module, "cores", lambda count=count: count)
        found.append((*products.forward(*w), *products.backward(*r), products.gram(r[0][:, 0] ** 2)))
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@needs_numba
@pytest.mark.parametrize("count", [1, 3])
def test_dense_rows_are_compressed_as_scipy_does(monkeypatch, count):
    monkeypatch.setattr(products_module, "BLOCK", 4 * P)
    monkeypatch.setattr(threads, "cores", lambda: count)
    whole = matrix("real", np.float64, np.int32).toarray()
    for X in (whole, whole[:, 2:3]):
        expected, found = sparse.csr_array(X), compress(X)
        for part in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(found, part), getattr(expected, part))
    assert compress(whole, most=3) is None


def test_calls_side_by_side_are_all_made_and_an_error_is_raised(monkeypatch):
    monkeypatch.setattr(threads, "cores", lambda: 3)
    made: list[int] = []

    def call(number):
        made.append(number)
        if number == 5:
            raise IndexError("the sixth")

    with pytest.raises(IndexError, match="the sixth"):
        threads.side_by_side([partial(call, number) for number in range(20)])
    # The thread that failed makes no more; the others make those that are left.
    assert sorted(made) == list(range(20))


def test_a_worker_keeps_to_its_share_of_the_cores(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    whole = threads.cores()
    for asked, expected in (("1", 1), ("100000", whole), ("0", 1), ("2,4", whole)):
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
        assert threads.cores() == expected


@needs_numba
def test_large_matrices_take_the_compiled_products(monkeypatch):
    csr = matrix("real", np.float32, np.int64)
    assert isinstance(SparseDesign(csr)._products, ScipyProducts)
    monkeypatch.setattr(sparse_module, "LIMITS", threads.Limits(compiled=0))
    design, dense = SparseDesign(csr), csr.toarray().astype(float)
    assert isinstance(design._products, CompiledProducts)
    w = np.random.default_rng(3).normal(size=P)
    np.testing.assert_allclose(design.sq_matvec(w), dense**2 @ w, rtol=1e-12, atol=1e-12)
    above, below = design.sign_sums(np.ones((N, 1)))
    np.testing.assert_allclose(above[:, 0], (dense > 0).sum(axis=0))
    np.testing.assert_allclose(below[:, 0], (dense < 0).sum(axis=0))
    monkeypatch.setattr(sparse_module, "available", lambda: False)
    assert isinstance(SparseDesign(csr)._products, ScipyProducts)
