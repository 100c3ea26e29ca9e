"""What every design owes, whatever its storage."""

import numpy as np
import pytest


@pytest.fixture(scope="session", name="check_there_and_back")
def _check_there_and_back():
    return there_and_back


def there_and_back(design, X, w, w2):
    """What is done with the products depends on the row, and mixes the two."""
    factor = np.arange(1.0, X.shape[0] + 1)[:, None]
    a, b, back, sq_back, total, sq_total = design.there_and_back(
        w, w2, lambda rows, a, b: (factor[rows] * a + b, a - factor[rows] * b)
    )
    same = {"rtol": 1e-11, "atol": 1e-9}
    np.testing.assert_allclose(a, X @ w, **same)
    np.testing.assert_allclose(b, (X * X) @ w2, **same)
    np.testing.assert_allclose(back, X.T @ (factor * a + b), **same)
    np.testing.assert_allclose(sq_back, (X * X).T @ (a - factor * b), **same)
    np.testing.assert_allclose(total, (factor * a + b).sum(axis=0), **same)
    np.testing.assert_allclose(sq_total, (a - factor * b).sum(axis=0), **same)
