import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.description import attributes


class Data:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    Y = np.where(X[:, 0] + 0.8 * rng.normal(size=50) > 0, "yes", "no")
    MANY = np.array(["a", "b", "c"])[np.argmax(X + rng.normal(size=(50, 3)), axis=1)]
    NUMBERS = X @ [1.0, -0.5, 0.0] + 0.3 * rng.normal(size=50)
    COUNTS = rng.poisson(np.exp(0.5 * X[:, 1]))


@pytest.fixture(scope="session")
def data():
    return Data


@pytest.fixture(scope="session")
def post():
    """Two chains of fifty draws of a logistic model with learnt rates, made by hand."""
    import xarray as xr

    rng, both = np.random.default_rng(1), ("chain", "draw")
    parts = {
        "weight": ((*both, "feature"), rng.normal(size=(2, 50, 3))),
        "intercept": (both, rng.normal(size=(2, 50))),
        "rate": ((*both, "feature"), rng.random((2, 50, 3))),
    }
    draws = xr.Dataset(parts, {"chain": [0, 1], "draw": np.arange(50), "feature": ["x0", "x1", "x2"]})
    return bd.groups.assemble({"posterior": draws}, attributes(bd.Model(), np.array(["no", "yes"])))
