"""The pictures show the numbers they were given."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

import bayesdrop as bd
from bayesdrop.plots.latent import active_columns, singular_values


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_singular_values():
    X = np.diag([3.0, 2.0, 0.1])
    ax = plt.subplots()[1]
    model = bd.DropoutMatrixFactorization().fit(X)
    assert singular_values(model, ax=ax) is ax
    before, after, threshold = ax.lines
    np.testing.assert_allclose(before.get_ydata(), [3, 2, 0.1])
    np.testing.assert_allclose(after.get_ydata(), np.array([3, 2]) - model.shrinkage_)
    np.testing.assert_allclose(threshold.get_ydata(), model.shrinkage_)
    iterated = bd.DropoutMatrixFactorization(solver="deterministic", random_state=0).fit(X)
    assert len(singular_values(iterated).lines) == 2
    with pytest.raises(ValueError, match="call fit first"):
        singular_values(bd.DropoutMatrixFactorization())


def test_active_columns():
    draws = xr.Dataset({"n_active": (("chain", "draw"), np.array([[1, 3], [3, 3]]))})
    ax = active_columns(bd.groups.assemble({"posterior": draws}))
    assert [(bar.get_x() + 0.4, bar.get_height()) for bar in ax.patches] == [(1, 0.25), (3, 0.75)]
    with pytest.raises(ValueError, match=r"n_active in the posterior, got \['rate'\]"):
        active_columns(bd.groups.assemble({"posterior": draws.rename(n_active="rate")}))
