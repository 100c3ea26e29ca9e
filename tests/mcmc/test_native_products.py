"""Products by loops that compiled programs call: the same numbers, and XLA's own where none can be called."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

from bayesdrop.designs.compiled.jit import available
from bayesdrop.mcmc import matrix as matrices
from bayesdrop.mcmc import native_products
from bayesdrop.mcmc.hmc.approximations import direction_factor
from bayesdrop.mcmc.hmc.approximations.direction_factor import DirectionFactor
from bayesdrop.mcmc.matrix import PaddedLines, pair_product, product, samplers_matrix, squared_product
from bayesdrop.mcmc.native_products import CompressedLines, compressed_lines, native, row_combinations, row_products

needs_numba = pytest.mark.skipif(not available(), reason="needs Numba")
# Sums of at most 30 terms, in units of what their absolute values come to.
ACCURACY = {"float32": 3e-6, "float64": 1e-14}


def lines(binary):
    """Lines of many lengths, some empty."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 21)) * (rng.random((30, 21)) < np.linspace(0, 1, 30)[:, None])
    X[:, 4] = 0.0
    return np.where(X != 0, 1.0, 0.0) if binary else X


@jax.jit
def products(matrix, dense, w, u, r):
    pair, back = jax.vjp(partial(pair_product, matrix), w, u)
    of_dense = row_products(dense, w), row_combinations(r, dense)
    return product(matrix, w), squared_product(matrix, w), *pair, *back((r, 2 * r)), *of_dense


@needs_numba
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("binary", "chains"), [(True, 3), (True, 4), (False, 1), (False, 4), (False, 7)])
def test_products_are_those_of_the_matrix(monkeypatch, binary, chains, dtype):
    monkeypatch.setattr(matrices, "_COMPRESSED", 0)
    rng, X = np.random.default_rng(chains), lines(binary)
    w, u, r = (rng.normal(size=(chains, size)).astype(dtype) for size in (21, 21, 30))
    with jax.enable_x64(dtype == "float64"):
        matrix = samplers_matrix(sparse.csr_array(X), dtype, False)
        assert isinstance(matrix.rows, CompressedLines)
        assert (matrix.rows.values is None) == binary
        found = map(np.asarray, products(matrix, jnp.asarray(X, dtype), *map(jnp.asarray, (w, u, r))))
    X, S = X.astype(dtype).astype(float), X.astype(dtype).astype(float) ** 2
    lefts, rights = (w, w, w, u, r, 2 * r, w, r), (X.T, S.T, X.T, S.T, X, S, X.T, X)
    for one, left, right in zip(found, lefts, rights, strict=True):
        size = np.abs(left) @ np.abs(right)
        assert np.all(np.abs(one - left.astype(float) @ right) <= ACCURACY[dtype] * size)


@needs_numba
def test_products_are_mapped_over_further_axes(monkeypatch):
    monkeypatch.setattr(matrices, "_COMPRESSED", 0)
    X = lines(False)

    def energy(w):
        return 0.5 * sum(jnp.sum(part**2) for part in pair_product(matrix, w[None], w[None]))

    with jax.enable_x64(True):
        matrix = samplers_matrix(sparse.csr_array(X), "float64", False)
        hessian = jax.jit(jax.jacrev(jax.grad(energy)))(jnp.ones(21))
    S = X**2
    np.testing.assert_allclose(hessian, X.T @ X + S.T @ S, rtol=1e-12, atol=1e-12)


def test_small_matrices_are_left_to_xla():
    assert isinstance(samplers_matrix(sparse.csr_array(lines(True)), "float32", False).rows, PaddedLines)


@pytest.mark.parametrize("reason", ["no Numba", "another device", "a refused handler"])
def test_products_are_left_to_xla_where_no_loop_can_be_called(monkeypatch, reason):
    if reason == "no Numba":
        monkeypatch.setattr(native_products, "available", lambda: False)
    elif reason == "another device":
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    elif available():

        def refuse(*arguments):
            raise RuntimeError("incompatible with the framework's API version")

        monkeypatch.setattr(jax.ffi, "register_ffi_target", refuse)
        monkeypatch.setattr(native_products, "_registered", native_products._registered.__wrapped__)
    else:
        pytest.skip("needs Numba")
    assert native("ones", "float32") is None
    assert compressed_lines(sparse.csr_array(lines(True)), "float32") is None
    assert row_combinations(jnp.ones((1, 2), "float32"), jnp.ones((2, 2), "float32")) is None
    assert row_products(jnp.ones((2, 2), "float32"), jnp.ones((1, 2), "float32")) is None


def test_an_unknown_precision_has_no_loop():
    assert native("rows", "float16") is None


@needs_numba
def test_lines_of_another_precision_say_so():
    found = compressed_lines(sparse.csr_array(lines(True)), "float32")
    with pytest.raises(TypeError, match="float32 or float64"):
        found.dot(jnp.ones((1, 21), "float16"), False)


@needs_numba
def test_directions_are_multiplied_alike(monkeypatch):
    rng = np.random.default_rng(6)
    with jax.enable_x64(True):
        directions = jnp.asarray(np.linalg.qr(rng.normal(size=(21, 5)))[0].T)
        p, ones = 19, jnp.ones(22)
        length, offset = jnp.asarray(rng.uniform(0.2, 2, 5)), jnp.asarray(rng.normal(size=21))
        factor = DirectionFactor(ones[:p], ones[: 21 - p], directions, length, offset, ones[:1], ones)
        z, found = jnp.asarray(rng.normal(size=(5, 22))), []
        for least in (1 << 20, 0):
            monkeypatch.setattr(direction_factor, "_LARGE", least)
            both = jax.jit(lambda z: (factor.times(z), factor.solve(z), factor.transposed_times(z)))(z)
            found.append([np.asarray(part) for part in both])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-12)
