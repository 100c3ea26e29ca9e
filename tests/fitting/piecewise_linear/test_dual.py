"""The dual without noise: the interval is the loss, the gap a bound, the optimum that of Newton's method."""

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.designs import as_design
from bayesdrop.designs.kernels import compiled
from bayesdrop.fitting.objective.energy import Energy
from bayesdrop.fitting.solvers import choices, coordinates
from bayesdrop.fitting.solvers.dual_problem import DualLimits
from bayesdrop.moments import ScoreMoments

pytest.importorskip("numba")
LOSSES = [bd.Hinge(margin=0.7), bd.EpsilonInsensitive(0.3), bd.Quantile(0.8)]


def data(loss, n=80, p=30):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.2)
    X[3] = 0.0
    y = X @ rng.normal(size=p) + rng.normal(size=n) + 0.5
    return X, np.where(y > 0, 1.0, -1.0) if loss.binary else y


def problem(loss, fit_intercept=True, noisy=False):
    X, y = data(loss)
    rate = np.linspace(0.0, 0.6, 30)[:, None]
    moments = ScoreMoments(as_design(sparse.csr_array(X)), bd.Dropout(), rate, fit_intercept)
    if not noisy:
        # The mean of the noise without its variance: the weights that meet the rows are shrunk.
        moments = moments.without_variance()
    weight = np.random.default_rng(2).random((80, 1)) + 0.5
    return Energy(moments, loss, y[:, None], weight, np.append(np.linspace(0.5, 2, 30), 0.0)[:, None])


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_loss_is_the_maximum_over_its_interval(loss):
    rng = np.random.default_rng(0)
    score, weight = rng.normal(size=50) * 2, rng.random(50) + 0.1
    y = np.where(rng.random(50) < 0.5, -1.0, 1.0) if loss.binary else rng.normal(size=50)
    centre, low, high, width = loss.interval(y, weight)
    ends = [beta * (centre - score) - width * np.abs(beta) for beta in (low, 0 * low, high)]
    np.testing.assert_allclose(np.max(ends, axis=0), weight * loss.plain_value_and_slope(y, score)[0], atol=1e-14)


WAYS = {
    "coordinates": (False, DualLimits(multiplications=0.0)),
    "interior": (True, DualLimits()),
    "both": (False, DualLimits(passes=(5, 5))),
}


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "none"])
@pytest.mark.parametrize("way", WAYS)
def test_the_gap_bounds_what_is_missing(loss, fit_intercept, way):
    energy, start = problem(loss, fit_intercept), np.zeros((31, 1))
    tols = 1e-12, 1e-1, 1e-3, 1e-6

    def value(weights):
        mean, var = energy.moments.scores(weights)
        return energy.value(weights, mean, var, np.zeros(1))[0]

    found = [choices.solve_dual(energy, start, tol, *WAYS[way]) for tol in tols]
    best = value(found[0][0])
    for tol, (weights, gap, _) in zip(tols, found, strict=True):
        assert gap[0] <= tol * value(weights)
        # Both values are above the minimum, by no more than their gaps.
        assert -1e-12 * best <= value(weights) - best <= gap[0] + 1e-12 * best


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("coordinates", ["solve_by_coordinates"]),
        ("interior", ["solve_interior"]),
        ("both", ["solve_by_coordinates", "solve_interior"]),
    ],
)
def test_what_one_way_leaves_the_other_ends(way, expected, monkeypatch):
    seen = []
    for name in ("solve_interior", "solve_by_coordinates"):
        real = getattr(choices, name)
        monkeypatch.setattr(choices, name, lambda *given, real=real, name=name: seen.append(name) or real(*given))
    choices.solve_dual(problem(LOSSES[0]), np.zeros((31, 1)), 1e-9, *WAYS[way])
    assert seen == expected


def test_noise_has_no_dual():
    assert choices.solve_dual(problem(LOSSES[0], noisy=True), np.zeros((31, 1)), 1e-6) is None


@pytest.mark.parametrize("kinks", [1, 2])
def test_a_pass_takes_one_coordinate_after_the_other(kinks):
    """By products of whole rows, in the order that is given."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 25)) * (rng.random((60, 25)) < 0.3)
    X[4] = 0.0
    csr = sparse.csr_array(X)
    centre, low, high = rng.normal(size=(60, kinks)), -rng.random((60, kinks)), rng.random((60, kinks))
    beta, gain, w, b, stiffness = low + 0.5 * (high - low), rng.random(25) + 0.5, rng.normal(size=25), 0.3, 0.7
    size, order = np.maximum(X**2 @ gain, 1e-100), rng.permutation(60)
    slopes, weights = beta.copy(), w.copy()
    rows = csr.indptr.astype(np.uint64), csr.indices.astype(np.uint32), csr.data
    given = centre, low, high, slopes, size, stiffness, gain, weights, b, order[None].astype(np.uint64), 0.3
    bias = compiled(coordinates._passes)(*rows, *given)
    for i in order:
        for k in range(kinks):
            q = size[i] + stiffness
            new = np.clip(beta[i, k] + (centre[i, k] - X[i] @ w - b) / q, low[i, k], high[i, k])
            change, beta[i, k] = new - beta[i, k], new
            w, b = w + change * X[i] * gain, b + change * stiffness
    for found, wanted in ((slopes, beta), (weights, w), (bias, b)):
        np.testing.assert_allclose(found, wanted, atol=1e-10)
