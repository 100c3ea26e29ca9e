"""Rows of the logistic loss in one compiled loop: the sums of the route by NumPy, and where each is taken."""

import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.designs import dense
from bayesdrop.designs.blocks import design as blocks
from bayesdrop.designs.compiled.jit import available
from bayesdrop.designs.dense import DenseDesign
from bayesdrop.mcmc.hmc.density import Density
from bayesdrop.mcmc.hmc.streamed.density import RowCosts
from bayesdrop.mcmc.hmc.streamed.logistic_rows import logistic_sums

pytestmark = pytest.mark.skipif(not available(), reason="needs Numba")


def density(loss=None, variance=False):
    return Density(loss or bd.Logistic(), bd.Dropout(), True, 0, False, variance, False, False, False, "feature")


def problem(n, p, C, dtype=np.float32):
    rng = np.random.default_rng(n)
    X, y = rng.normal(size=(n, p)).astype(dtype), rng.choice([-1.0, 1.0], size=n)
    return X, rng.normal(size=(p, C)), rng.normal(size=C), y, rng.integers(3, size=n) / 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1, 1), (33, 3, 4), (64, 7, 2), (70, 9, 5)])
def test_sums_are_those_of_numpy(shape, dtype):
    """To 1e-13 of the sum of absolute values, with an offset and without; some rows have weight zero."""
    X, w, level, y, weight = problem(*shape, dtype)
    offset = np.linspace(-2, 3, len(y))
    wide = X.astype(float)
    for names, others in (((), ()), (("offset",), (offset,))):
        slope, _, cost = RowCosts(density(), names, level, 0 * level, 1.0)(wide @ w, wide[:, :0], y, weight, *others)
        back, total, costs = logistic_sums(X, w, level, y, weight, *others)
        np.testing.assert_allclose(back, wide.T @ slope, rtol=0, atol=1e-13 * max(1, np.abs(wide).sum()))
        np.testing.assert_allclose(total, slope.sum(axis=0), rtol=0, atol=1e-13 * len(y))
        np.testing.assert_allclose(costs, cost.sum(axis=0), rtol=1e-13)


def test_a_row_costs_what_it_costs_by_numpy():
    """Cost and slope to 1e-14 of themselves, from scores of 1e-9 to those beyond the exponential's range."""
    score = np.concatenate([np.linspace(-40, 40, 201), [1e-9, -1e-9, 0.881, 0.882, 300.0, -300.0, -900.0, 0.0]])
    cost, slope = bd.Logistic().plain_value_and_slope(np.ones_like(score), score)
    one, nothing = np.ones((1, 1)), np.zeros(1)
    for s, c, r in zip(score, cost, slope, strict=True):
        back, total, costs = logistic_sums(np.full((1, 1), s), one, nothing, np.ones(1), np.ones(1))
        np.testing.assert_allclose([costs[0], total[0], back[0, 0]], [c, r, s * r], rtol=1e-14)


def test_what_is_not_finite_stays_so():
    for entry, weight, expected in ((np.nan, 1.0, np.nan), (1e308, -10.0, np.inf)):
        X, y = np.array([[1.0], [entry]]), np.ones(2)
        cost = logistic_sums(X, np.full((1, 1), weight), np.zeros(1), y, y)[2][0]
        assert cost == pytest.approx(expected, nan_ok=True)


def test_where_the_loop_is_taken(monkeypatch):
    """By rows in memory that are worth it, of the logistic loss alone; whichever is, the sums are the same."""
    X, w, level, y, weight = problem(50, 3, 2)
    function, found = RowCosts(density(), (), level, 0 * level, 1.0), []
    for least in (0, 1 << 40):
        monkeypatch.setattr(dense, "_COMPILED", least)
        found.append(DenseDesign(X).product_sums(w, w[:, :0], function, y, weight))
    for one, other in zip(*found, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    assert not all(np.array_equal(one, other) for one, other in zip(*found, strict=True))  # another order of sums
    for other in (density(bd.Hinge()), density(bd.Squared()), density(variance=True)):
        assert RowCosts(other, (), level, level, 1.0).of_dense is None
    assert RowCosts(density(), ("width",), level, level, 1.0).of_dense is None


@pytest.mark.parametrize("kind", ["function", "file"])
def test_threads_change_no_bit(monkeypatch, tmp_path, kind):
    """A block is one thread's, and blocks are added in the order of the rows."""
    X, w, level, y, weight = problem(97, 4, 3)
    np.save(tmp_path / "x.npy", X)
    monkeypatch.setattr(dense, "_COMPILED", 0)
    function, found = RowCosts(density(), (), level, 0 * level, 1.0), []
    for count in (1, 4):
        monkeypatch.setattr(blocks, "cores", lambda count=count: count)
        parts = {"function": lambda: iter(np.split(X, [40, 41, 80])), "file": tmp_path / "x.npy"}
        design = bd.Blocks(parts[kind], rows=9 if kind == "file" else None)
        found.append(design.product_sums(w, w[:, :0], function, y, weight))
    for one, several in zip(*found, strict=True):
        np.testing.assert_array_equal(one, several)
