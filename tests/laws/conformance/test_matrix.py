"""The samplers' matrix, whatever its storage, gives the products of the plain dense one, and so do their gradients.

In double precision to 1e-12 of the sum of sizes, which is what bounds rounding; in single precision to twenty units of
round-off of that sum, for sums of at most a few dozen terms.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

from bayesdrop.sampling.matrix import backward_product, product, samplers_matrix, squared_product

CHAINS = 3
FEW_AND_MANY = (1, 2, 3, 8, 9)  # dense backward products go chain by chain or together
ACCURACY = {"float64": 1e-12, "float32": 20 * np.finfo(np.float32).eps}


def _cases():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(23, 7)) * (rng.random((23, 7)) < 0.4)
    X[3] = 0  # an empty row
    X[:, 2] = 0  # an empty column
    uneven = rng.normal(size=(12, 9)) * (rng.random((12, 9)) < np.linspace(0.05, 1, 12)[:, None])
    return {
        "mixed": X,
        "one column": X[:, :1],
        "one row": X[:1],
        "one entry": np.eye(5, 4, k=-2) * (np.arange(5) == 3)[:, None],
        "no entry": np.zeros((4, 3)),
        "lines of every length": uneven,
    }


def _int64(X):
    csr = sparse.csr_array(X)
    return sparse.csr_array((csr.data, csr.indices.astype(np.int64), csr.indptr.astype(np.int64)), shape=csr.shape)


def _unsorted_with_duplicates_and_zeros(X):
    """Every entry in two halves, the columns in descending order, and zeros that are stored."""
    rows, columns = np.nonzero(np.ones_like(X))
    order = np.lexsort((-columns, rows))
    rows, columns = rows[order], columns[order]
    halves = np.repeat(X[rows, columns] / 2, 2)
    start = np.searchsorted(rows, np.arange(X.shape[0] + 1)) * 2
    return sparse.csr_array((halves, np.repeat(columns, 2), start), shape=X.shape)


STORAGES = {
    "dense": lambda X: X,
    "fortran": np.asfortranarray,
    "single": lambda X: X.astype(np.float32),
    "csr array": sparse.csr_array,
    "csr matrix": sparse.csr_matrix,
    "csc array": sparse.csc_array,
    "int64 indices": _int64,
    "single, sparse": lambda X: sparse.csr_array(X.astype(np.float32)),
    "unsorted": _unsorted_with_duplicates_and_zeros,
}
CASES = _cases()


def _near(actual, expected, terms, dtype):
    assert actual.dtype == dtype
    actual = np.asarray(actual, dtype=float)
    assert actual.shape == expected.shape
    assert np.all(np.abs(actual - expected) <= ACCURACY[dtype] * terms)


# Every storage of the mixed matrix, and both kinds of the others; only a dense matrix keeps its square.
PAIRS = [("mixed", storage, False, "float64") for storage in STORAGES]
PAIRS += [("mixed", storage, square, "float32") for storage, square in (("dense", True), ("single, sparse", False))]
PAIRS += [(case, kind, kind == "dense", "float64") for case in list(CASES)[1:] for kind in ("dense", "csr array")]


QUICK = [("mixed", "dense"), ("mixed", "csr array"), ("mixed", "single, sparse"), ("one column", "dense")]
QUICK += [("no entry", "csr array"), ("lines of every length", "csr array")]
PAIRS = [pytest.param(*pair, marks=[] if pair[:2] in QUICK else [pytest.mark.slow]) for pair in PAIRS]


@pytest.mark.parametrize(("case", "storage", "square", "dtype"), PAIRS)
def test_products_and_their_gradients(case, storage, square, dtype):
    with jax.enable_x64(dtype == "float64"):
        _check_products(CASES[case], storage, square, dtype)


@pytest.mark.parametrize("storage", [name for name in STORAGES if name not in ("dense", "csr array", "single")])
def test_every_storage_of_a_matrix_is_the_same_matrix(storage):
    """To the bit: its products are those of the plain one."""
    with jax.enable_x64(True):
        stored = STORAGES[storage](CASES["mixed"])
        plain = sparse.csr_array(stored.toarray()) if sparse.issparse(stored) else CASES["mixed"]
        found, expected = (samplers_matrix(matrix, "float64", False) for matrix in (stored, plain))
        assert jax.tree.structure(found) == jax.tree.structure(expected)
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.slow_cases("-2", "-3", "-8")
@pytest.mark.parametrize("chains", FEW_AND_MANY)
@pytest.mark.parametrize(("storage", "dtype"), [("dense", "float64"), ("dense", "float32"), ("csr array", "float64")])
def test_products_of_few_and_many_chains(chains, storage, dtype):
    with jax.enable_x64(dtype == "float64"):
        _check_products(CASES["mixed"], storage, False, dtype, chains)


@partial(jax.jit, static_argnums=0)
def _forward_and_slope(function, matrix, w, r):
    return function(matrix, w), jax.grad(lambda v: jnp.sum(function(matrix, v) * r))(w)


@jax.jit
def _pairs_and_back(matrix, w, r):
    both, pull_back = jax.vjp(lambda v, u: (product(matrix, v), squared_product(matrix, u)), w, -w)
    return both, (*pull_back((r, 2 * r)), backward_product(matrix, r))


def _check_products(X, storage, square, dtype, chains=CHAINS):
    stored = STORAGES[storage](X)
    wide = np.asarray(stored.toarray() if sparse.issparse(stored) else stored, dtype=float)
    matrix = samplers_matrix(stored, dtype, square)
    rng = np.random.default_rng(1)
    # Of eight significant bits, so that both precisions start from the same numbers.
    w, r = (np.round(16 * rng.normal(size=(chains, size))) / 16 for size in X.shape[::-1])
    narrow = [jnp.asarray(part, dtype=dtype) for part in (w, r)]
    for function, dense in ((product, wide), (squared_product, wide * wide)):
        forward, slope = _forward_and_slope(function, matrix, *narrow)
        _near(forward, w @ dense.T, np.abs(w) @ np.abs(dense).T, dtype)
        _near(slope, r @ dense, np.abs(r) @ np.abs(dense), dtype)
        # <Xw, r> = <w, X'r>, chain by chain.
        left = np.sum(np.asarray(forward, float) * r, axis=1)
        right = np.sum(w * np.asarray(slope, float), axis=1)
        size = np.sum(np.abs(r) * (np.abs(w) @ np.abs(dense).T), axis=1)
        assert np.all(np.abs(left - right) <= 2 * ACCURACY[dtype] * size)
    both, turned = _pairs_and_back(matrix, *narrow)
    for found, part, dense in zip(both, (w, -w), (wide, wide * wide), strict=True):
        _near(found, part @ dense.T, np.abs(part) @ np.abs(dense).T, dtype)
    for found, part, dense in zip(turned, (r, 2 * r, r), (wide, wide * wide, wide), strict=True):
        _near(found, part @ dense, np.abs(part) @ np.abs(dense), dtype)


def test_curvature_follows_from_the_gradient():
    """A second derivative goes through the backward products: of ``½(‖Xw‖² + ‖X²w‖²)`` it is ``XᵀX + X²ᵀX²``."""
    X = CASES["mixed"]
    with jax.enable_x64(True):
        matrix = samplers_matrix(sparse.csr_array(X), "float64", False)
        both = (product, squared_product)
        slope = jax.grad(lambda w: 0.5 * sum(jnp.sum(one(matrix, w[None]) ** 2) for one in both))
        hessian = jax.jit(jax.jacrev(slope))(jnp.ones(X.shape[1]))
        np.testing.assert_allclose(hessian, X.T @ X + (X**2).T @ X**2, rtol=1e-12, atol=1e-12)


def test_lines_are_padded_to_less_than_twice_their_length():
    X = CASES["lines of every length"]
    with jax.enable_x64(True):
        matrix = samplers_matrix(sparse.csr_array(X), "float64", False)
    for lines in (matrix.rows, matrix.columns):
        for values in lines.values:
            length = np.sum(np.asarray(values) != 0, axis=0)
            assert np.all(len(values) < 2 * np.maximum(length, 1))
        assert sum(np.count_nonzero(values) for values in lines.values) == np.count_nonzero(X)


def test_the_callers_matrix_is_left_alone():
    matrix = _unsorted_with_duplicates_and_zeros(CASES["mixed"])
    before = matrix.copy()
    samplers_matrix(matrix, "float32", True)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(matrix, name), getattr(before, name))


def test_sparse_stays_sparse():
    with jax.enable_x64(True):
        matrix = samplers_matrix(sparse.csr_array((10**6, 10**5)), "float64", True)
        assert matrix.dense is None
        assert matrix.square is None
        assert sum(leaf.size for leaf in jax.tree.leaves(matrix)) < 10**7
