"""Strictness for the whole suite: no implicit promotion of dtypes or ranks.

The examples of docstrings run after it, as users run them, for NumPyro's own samplers promote.
"""

import itertools
import os
from pathlib import Path

import pytest

os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.fixture(scope="module", autouse=True)
def _strict_jax():
    import jax

    jax.config.update("jax_numpy_dtype_promotion", "strict")
    jax.config.update("jax_numpy_rank_promotion", "raise")
    yield
    jax.config.update("jax_numpy_dtype_promotion", "standard")
    jax.config.update("jax_numpy_rank_promotion", "allow")


_MAPS, _MOST_MAPS, _TESTS = Path("/proc/self/maps"), 40_000, itertools.count(1)


@pytest.fixture(autouse=True)
def _few_compiled_programs():
    """Compiled programs are dropped before their memory maps reach Linux's usual limit, 65,530, and XLA crashes."""
    yield
    if next(_TESTS) % 10 == 0 and _MAPS.exists():
        with _MAPS.open("rb") as maps:
            if sum(1 for _ in maps) > _MOST_MAPS:
                import jax

                jax.clear_caches()


@pytest.fixture(scope="session")
def breast_cancer():
    """Standardised bundled data: X (569, 30), y (569,)."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import StandardScaler

    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y
