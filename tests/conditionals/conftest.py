"""Double precision, strict promotion, and the exactness that the laws of this folder ask for."""

import jax
import numpy as np
import pytest

LAW = 1e-10
"""Two statements of one number differ by rounding alone: relative to the largest term that enters either."""


@pytest.fixture(autouse=True)
def _exact_arithmetic():
    with jax.enable_x64(True), jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        yield


@pytest.fixture(scope="session")
def same():
    """``same(a, b, *terms)``: equal to the law's accuracy, relative to 1 and to the largest of all that is given."""

    def check(actual, expected, *terms):
        actual, expected = np.asarray(actual), np.asarray(expected)
        size = np.max([1.0, *(np.max(np.abs(np.asarray(term))) for term in (actual, expected, *terms))])
        assert np.all(np.isfinite(actual))
        assert np.all(np.isfinite(expected))
        worst = np.max(np.abs(actual - expected))
        assert worst <= LAW * size, f"differ by {worst:.3g} where the terms are of size {size:.3g}"

    return check
