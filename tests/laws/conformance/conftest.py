"""What every design owes, whatever its storage."""

import numpy as np
import pytest

SAME = {"rtol": 1e-11, "atol": 1e-9}


def equal(found, expected, **tolerance):
    for got, true in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, true, **(tolerance or SAME))


@pytest.fixture(scope="session", name="check_products")
def _check_products():
    return products


def products(design, X, *, has_outer_gram=True):
    """All products, sums and counts of a design are those of the matrix."""
    assert design.shape == X.shape
    rng, exact, (n, p) = np.random.default_rng(1), {"rtol": 1e-12, "atol": 1e-12}, X.shape
    square = X * X
    for tail in ((), (1,), (3,)):
        w, r = rng.normal(size=(p, *tail)), rng.normal(size=(n, *tail))
        found = design.matvec(w), design.rmatvec(r), design.sq_matvec(w), design.sq_rmatvec(r)
        equal(found, (X @ w, X.T @ r, square @ w, square.T @ r), **exact)
    for K, L in ((1, 1), (3, 2)):
        w, w2, r, r2 = (rng.normal(size=(size, width)) for size in (p, n) for width in (K, L))
        equal(design.pair_matvec(w, w2), (X @ w, square @ w2), **exact)
        equal(design.pair_rmatvec(r, r2), (X.T @ r, square.T @ r2), **exact)
    normal_product(design, X, w, w2[:, [0, 1, 0]])
    sampled_products(design, X)
    omega, scale, r = rng.random(n), rng.random(p), rng.normal(size=(n, 2))
    sparse_rows = np.where(np.arange(n) % 3 > 0, 0.0, omega)
    for weight in (omega, sparse_rows):
        np.testing.assert_allclose(design.gram(weight), X.T @ (weight[:, None] * X), **exact)
    weights = np.column_stack([omega, sparse_rows])
    np.testing.assert_allclose(design.grams(weights), np.einsum("ng,np,nq->gpq", weights, X, X), **exact)
    if has_outer_gram:
        np.testing.assert_allclose(design.outer_gram(scale), (X * scale) @ X.T, **exact)
    equal(design.sign_sums(r), ((X > 0).T.astype(float) @ r, (X < 0).T.astype(float) @ r), **exact)


def normal_product(design, X, w, w2):
    """What is done with the products depends on the row, and mixes the two."""
    factor = np.arange(1.0, X.shape[0] + 1)[:, None]
    a, b = X @ w, (X * X) @ w2
    r, s = factor * a + b, a - factor * b
    found = design.normal_product(w, w2, lambda rows, a, b: (factor[rows] * a + b, a - factor[rows] * b))
    equal(found, (a, b, X.T @ r, (X * X).T @ s, r.sum(axis=0), s.sum(axis=0)))


def sampled_products(design, X):
    """Both products with the matrix that is never formed equal those with it formed."""
    rng = np.random.default_rng(4)
    (n, p), K = X.shape, 3
    left, right, square, linear = rng.normal(size=(n, K)), rng.normal(size=(p, K)), rng.random(p), rng.random(p)
    formed = (square * X**2 + linear * X) * (left @ right.T)
    stored = design.persist(design.zeros(K) + left)[0]
    equal(design.sampled_products(stored, right, square, linear), (formed @ right, formed.T @ left))


@pytest.fixture(scope="session", name="check_sums")
def _check_sums():
    return sums


def _of_rows(first, second, factor, label):
    """Slopes that depend on the row and mix the products; of two vectors over the rows."""
    factor, both = factor[:, None], second[:, :1] if second.shape[1] else 0.0
    return factor * first + both, label[:, None] * second, np.concatenate([first * first, factor], axis=1)


def _weighted(matrix, weight):
    assert matrix.shape[0] == len(weight) > 0
    return matrix.T @ weight, len(weight)


def sums(design, X):
    """Sums of what a function makes of products, with and without squares; every row is in one block, in order."""
    rng = np.random.default_rng(7)
    n, p = X.shape
    w, w2, factor, label = rng.normal(size=(p, 3)), rng.normal(size=(p, 2)), rng.random(n), rng.integers(2, size=n)
    for squares in (w2, w2[:, :0]):
        r, s, t = _of_rows(X @ w, (X * X) @ squares, factor, label)
        expected = X.T @ r, (X * X).T @ s, r.sum(axis=0), s.sum(axis=0), t.sum(axis=0)
        equal(design.product_sums(w, squares, _of_rows, factor, label), expected)
    weight = np.arange(1.0, n + 1)
    parts = design.each_block(_weighted, weight)
    np.testing.assert_allclose(sum(part for part, _ in parts), X.T @ weight, **SAME)
    assert sum(count for _, count in parts) == n
