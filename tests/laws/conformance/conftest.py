"""What every design owes, whatever its storage."""

import numpy as np
import pytest


@pytest.fixture(scope="session", name="check_normal_product")
def _check_normal_product():
    return normal_product


def normal_product(design, X, w, w2):
    """What is done with the products depends on the row, and mixes the two."""
    factor = np.arange(1.0, X.shape[0] + 1)[:, None]
    a, b, back, sq_back, total, sq_total = design.normal_product(
        w, w2, lambda rows, a, b: (factor[rows] * a + b, a - factor[rows] * b)
    )
    same = {"rtol": 1e-11, "atol": 1e-9}
    np.testing.assert_allclose(a, X @ w, **same)
    np.testing.assert_allclose(b, (X * X) @ w2, **same)
    np.testing.assert_allclose(back, X.T @ (factor * a + b), **same)
    np.testing.assert_allclose(sq_back, (X * X).T @ (a - factor * b), **same)
    np.testing.assert_allclose(total, (factor * a + b).sum(axis=0), **same)
    np.testing.assert_allclose(sq_total, (a - factor * b).sum(axis=0), **same)


@pytest.fixture(scope="session", name="check_products")
def _check_products():
    return products


def products(design, X, columns):
    """Products with the matrix and its square, both ways, of one vector (None) or of several, and pairs of them."""
    rng, same = np.random.default_rng(1), {"rtol": 1e-12, "atol": 1e-12}
    tail = () if columns is None else (columns,)
    w, w2 = rng.normal(size=(2, X.shape[1], *tail))
    r, r2 = rng.normal(size=(2, X.shape[0], *tail))
    found = [design.matvec(w), design.rmatvec(r), design.sq_matvec(w), design.sq_rmatvec(r)]
    expected = [X @ w, X.T @ r, (X * X) @ w, (X * X).T @ r]
    if columns is not None:
        found += [*design.pair_matvec(w, w2), *design.pair_rmatvec(r, r2)]
        expected += [X @ w, (X * X) @ w2, X.T @ r, (X * X).T @ r2]
        normal_product(design, X, w, w2)
    for got, true in zip(found, expected, strict=True):
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, true, **same)


@pytest.fixture(scope="session", name="check_grams")
def _check_grams():
    return grams


def grams(design, X):
    """Gram matrices, also with weights of 0, and sums over the entries of either sign."""
    rng, same = np.random.default_rng(2), {"rtol": 1e-12, "atol": 1e-12}
    omega, scale, r = rng.random(X.shape[0]), rng.random(X.shape[1]), rng.normal(size=(X.shape[0], 2))
    np.testing.assert_allclose(design.gram(omega), X.T @ (omega[:, None] * X), **same)
    omega[np.arange(X.shape[0]) % 3 > 0] = 0.0
    np.testing.assert_allclose(design.gram(omega), X.T @ (omega[:, None] * X), **same)
    weights = np.column_stack([omega, rng.random(X.shape[0])])
    np.testing.assert_allclose(design.grams(weights), np.einsum("ng,np,nq->gpq", weights, X, X), **same)
    np.testing.assert_allclose(design.outer_gram(scale), (X * scale) @ X.T, **same)
    signs = (X > 0).T.astype(float) @ r, (X < 0).T.astype(float) @ r
    for got, expected in zip(design.sign_sums(r), signs, strict=True):
        np.testing.assert_allclose(got, expected, **same)


@pytest.fixture(name="check_sampled_products")
def _check_sampled_products():
    """Both products with the matrix that is never formed equal those with it formed."""

    def check(design, X):
        rng = np.random.default_rng(4)
        (n, p), K = X.shape, 3
        left, right, square, linear = rng.normal(size=(n, K)), rng.normal(size=(p, K)), rng.random(p), rng.random(p)
        formed = (square * X**2 + linear * X) * (left @ right.T)
        forward, back = design.sampled_products(left, right, square, linear)
        np.testing.assert_allclose(forward, formed @ right, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(back, formed.T @ left, rtol=1e-11, atol=1e-11)

    return check


@pytest.fixture(scope="session", name="check_product_sums")
def _check_product_sums():
    return product_sums


def _of_rows(first, second, factor, label):
    """Slopes that depend on the row and mix the products; of two vectors over the rows."""
    factor, both = factor[:, None], second[:, :1] if second.shape[1] else 0.0
    return factor * first + both, label[:, None] * second, np.concatenate([first * first, factor], axis=1)


def product_sums(design, X):
    """Sums over the rows of what a function makes of their products, with and without squares."""
    rng = np.random.default_rng(7)
    (n, p), same = X.shape, {"rtol": 1e-11, "atol": 1e-9}
    w, w2, factor, label = rng.normal(size=(p, 3)), rng.normal(size=(p, 2)), rng.random(n), rng.integers(2, size=n)
    for squares in (w2, w2[:, :0]):
        r, s, t = _of_rows(X @ w, (X * X) @ squares, factor, label)
        expected = X.T @ r, (X * X).T @ s, r.sum(axis=0), s.sum(axis=0), t.sum(axis=0)
        for got, true in zip(design.product_sums(w, squares, _of_rows, factor, label), expected, strict=True):
            np.testing.assert_allclose(got, true, **same)


@pytest.fixture(scope="session", name="check_each_block")
def _check_each_block():
    return each_block


def _weighted(matrix, weight):
    assert matrix.shape[0] == len(weight) > 0
    return matrix.T @ weight, len(weight)


def each_block(design, X):
    """Every row is in one block, in order, with its part of a vector."""
    weight = np.arange(1.0, len(X) + 1)
    parts = design.each_block(_weighted, weight)
    np.testing.assert_allclose(sum(part for part, _ in parts), X.T @ weight, rtol=1e-11, atol=1e-9)
    assert sum(count for _, count in parts) == len(X)
