"""Products of a sampler's sparse matrix, and their derivatives, against those of the dense one."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

from bayesdrop.sampling.matrix import product, samplers_matrix, squared_product

# Sums of at most 30 terms, in units of what their absolute values come to.
ACCURACY = {"float32": 3e-6, "float64": 1e-14}


def lines(binary):
    """Lines of many lengths, some empty."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 21)) * (rng.random((30, 21)) < np.linspace(0, 1, 30)[:, None])
    X[:, 4] = 0.0
    return np.where(X != 0, 1.0, 0.0) if binary else X


def both(matrix, w, u):
    return product(matrix, w), squared_product(matrix, u)


@jax.jit
def products(matrix, w, u, r):
    pair, back = jax.vjp(partial(both, matrix), w, u)
    return product(matrix, w), squared_product(matrix, w), *pair, *back((r, 2 * r))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("binary", "chains"), [(True, 3), (True, 4), (False, 1), (False, 4), (False, 7)])
def test_products_are_those_of_the_matrix(binary, chains, dtype):
    rng, X = np.random.default_rng(chains), lines(binary)
    w, u, r = (rng.normal(size=(chains, size)).astype(dtype) for size in (21, 21, 30))
    with jax.enable_x64(dtype == "float64"):
        matrix = samplers_matrix(sparse.csr_array(X), dtype, False)
        found = map(np.asarray, products(matrix, *map(jnp.asarray, (w, u, r))))
    X, S = X.astype(dtype).astype(float), X.astype(dtype).astype(float) ** 2
    lefts, rights = (w, w, w, u, r, 2 * r), (X.T, S.T, X.T, S.T, X, S)
    for one, left, right in zip(found, lefts, rights, strict=True):
        size = np.abs(left) @ np.abs(right)
        assert np.all(np.abs(one - left.astype(float) @ right) <= ACCURACY[dtype] * size)


def test_products_are_mapped_over_further_axes():
    X = lines(False)

    def energy(w):
        return 0.5 * sum(jnp.sum(part**2) for part in both(matrix, w[None], w[None]))

    with jax.enable_x64(True):
        matrix = samplers_matrix(sparse.csr_array(X), "float64", False)
        hessian = jax.jit(jax.jacrev(jax.grad(energy)))(jnp.ones(21))
    S = X**2
    np.testing.assert_allclose(hessian, X.T @ X + S.T @ S, rtol=1e-12, atol=1e-12)


def test_a_matrix_without_entries_gives_zeros():
    matrix = samplers_matrix(sparse.csr_array((3, 2)), "float32", False)
    np.testing.assert_array_equal(product(matrix, jnp.ones((2, 2))), np.zeros((2, 3)))
