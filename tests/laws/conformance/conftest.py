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
