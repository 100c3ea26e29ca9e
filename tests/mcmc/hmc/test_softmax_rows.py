"""Rows of the softmax loss in one compiled loop: the sums of the route by NumPy, and where each is taken."""

import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.designs import dense
from bayesdrop.designs.blocks import design as blocks
from bayesdrop.designs.compiled.jit import available
from bayesdrop.designs.dense import DenseDesign
from bayesdrop.mcmc.hmc.classes.costs import ClassCosts
from bayesdrop.mcmc.hmc.classes.density import ClassDensity, contrasts
from bayesdrop.mcmc.hmc.classes.softmax_rows import softmax_sums

pytestmark = pytest.mark.skipif(not available(), reason="needs Numba")


def costs(K, level, variance=False):
    return ClassCosts(
        ClassDensity(bd.Softmax(), bd.Dropout(), K, True, variance, False, False, False), (), level, 0 * level
    )


def problem(n, p, C, K, dtype=np.float32):
    """Some rows have weight zero, and some classes no row."""
    rng = np.random.default_rng(n)
    X, columns = rng.normal(size=(n, p)).astype(dtype), C * (K - 1)
    y, weight = rng.integers(K, size=n), rng.integers(3, size=n) / 2
    return X, rng.normal(size=(p, columns)), rng.normal(size=columns), y, weight


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1, 1, 2), (33, 3, 4, 3), (64, 7, 2, 6), (70, 9, 5, 4)])
def test_sums_are_those_of_numpy(shape, dtype):
    """To 1e-13 of the sum of absolute values."""
    K = shape[3]
    X, w, level, y, weight = problem(*shape, dtype)
    wide = X.astype(float)
    slope, _, cost = costs(K, level)(wide @ w, wide[:, :0], y, weight)
    back, total, summed = softmax_sums(X, w, level, contrasts(K), y, weight)
    np.testing.assert_allclose(back, wide.T @ slope, rtol=0, atol=1e-13 * max(1, np.abs(wide).sum()))
    np.testing.assert_allclose(total, slope.sum(axis=0), rtol=0, atol=1e-13 * len(y))
    np.testing.assert_allclose(summed, cost.sum(axis=0), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("K", [2, 3, 40])
def test_a_row_costs_what_it_costs_by_numpy(K):
    """Cost to 1e-14 of itself and the scores, the chances to 1e-14, beyond the exponential's range too."""
    rng, basis, one = np.random.default_rng(K), contrasts(K), np.ones(1)
    for scale in (0.0, 1e-9, 1.0, 30.0, 800.0):
        score = scale * rng.normal(size=K)
        contrast, own = basis.T @ score, rng.integers(K)
        centred = basis @ contrast
        chance = np.exp(centred - centred.max())
        cost = np.log(chance.sum()) + centred.max() - centred[own]
        expected = basis.T @ (chance / chance.sum() - (np.arange(K) == own))
        nothing = np.zeros((1, K - 1))
        back, total, found = softmax_sums(2 * one[:, None], nothing, contrast, basis, np.array([own]), one)
        np.testing.assert_allclose(found[0], cost, rtol=1e-14, atol=1e-14 * max(1, np.abs(centred).max()))
        np.testing.assert_allclose(total, expected, rtol=0, atol=1e-14)
        np.testing.assert_allclose(back[0], 2 * total, rtol=1e-14, atol=1e-14)


def test_what_is_not_finite_stays_so():
    """Of a row with NaN whichever its class, and of one whose class all others leave behind without end."""
    basis = contrasts(3)
    for own in range(3):
        y = np.array([0, own])
        for weight in ([1.0, 0.0], [0.0, 1.0]):
            X = np.array([[1.0], [np.nan]])
            assert np.isnan(softmax_sums(X, np.array([weight]), np.zeros(2), basis, y, np.ones(2))[2][0])
        to_own = basis.T @ (np.arange(3) == own)
        w, X = -10 * to_own[None], np.array([[1.0], [1e308]])
        assert not np.isfinite(softmax_sums(X, w, np.zeros(2), basis, y, np.ones(2))[2][0])


def test_where_the_loop_is_taken(monkeypatch):
    """By rows in memory that are worth it, without noise; whichever is, the sums are the same."""
    X, w, level, y, weight = problem(50, 3, 2, 4)
    found = []
    for least in (0, 1 << 40):
        monkeypatch.setattr(dense, "_COMPILED", least)
        found.append(DenseDesign(X).product_sums(w, w[:, :0], costs(4, level), y, weight))
    for one, other in zip(*found, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    assert not all(np.array_equal(one, other) for one, other in zip(*found, strict=True))  # another order of sums
    assert costs(4, level, variance=True).of_dense is None


def test_threads_change_no_bit(monkeypatch, tmp_path):
    """A block is one thread's, and blocks are added in the order of the rows."""
    X, w, level, y, weight = problem(97, 4, 3, 5)
    np.save(tmp_path / "x.npy", X)
    monkeypatch.setattr(dense, "_COMPILED", 0)
    found = []
    for count in (1, 4):
        monkeypatch.setattr(blocks, "cores", lambda count=count: count)
        design = bd.Blocks(tmp_path / "x.npy", rows=9)
        found.append(design.product_sums(w, w[:, :0], costs(5, level), y, weight))
    for one, several in zip(*found, strict=True):
        np.testing.assert_array_equal(one, several)
