"""The dual without noise: the interval is the loss, the gap a bound, the optimum that of Newton's method."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

import bayesdrop as bd
from bayesdrop.designs import as_design
from bayesdrop.designs.kernels import compiled
from bayesdrop.fitting.objective.energy import Energy
from bayesdrop.fitting.solvers import choices, coordinates, newton
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


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_dual_and_newton_have_one_optimum(loss, monkeypatch):
    """Without a compiler there is Newton's method alone, which smooths the kink; it also ends what the dual leaves."""
    X, y = data(loss)
    model = bd.Model(loss, rates=bd.Fixed(0.0), C=0.6, weight_prior=bd.Normal(0.8))
    weight = np.random.default_rng(3).integers(0, 3, size=len(y))
    method = bd.Newton(tol=1e-12)
    here = bd.fit(model, sparse.csr_array(X), y, sample_weight=weight, method=method)
    dense = bd.fit(model, X, y, sample_weight=weight, method=method)
    assert here.n_iter == dense.n_iter == 1
    solve, short = choices.solve_dual, DualLimits(passes=(5, 5), multiplications=0.0)
    monkeypatch.setattr(newton, "solve_dual", lambda *given: solve(*given[:3], False, short))
    left = bd.fit(model, sparse.csr_array(X), y, sample_weight=weight, method=method)
    monkeypatch.setattr(newton, "solve_dual", lambda *given: None)
    there = bd.fit(model, X, y, sample_weight=weight, method=method)
    assert there.n_iter > 1
    assert left.n_iter > 1
    best = there.objective_trace[-1]
    for fit in (here, dense, left):
        assert fit.objective_trace[-1] == pytest.approx(best, rel=1e-8)
        # Strong convexity, of precision 1/0.64: a relative gap of 1e-8 bounds the distance of the weights.
        assert np.linalg.norm(fit.weight - there.weight) < 2 * np.sqrt(2 * 1e-8 * best * 0.64)


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


@pytest.mark.parametrize("loss", [*LOSSES, bd.EpsilonInsensitive(0.0)], ids=repr)
@pytest.mark.parametrize(("rate", "unbiased"), [(1e-4, False), (0.3, True), (0.9, False)])
def test_noise_has_the_optimum_of_quasi_newton(loss, rate, unbiased):
    """The energy written out anew, and minimised by scipy, which knows neither duals nor majorisers."""
    X, y = data(loss)
    C, weight = 0.6, np.random.default_rng(3).random(len(y)) + 0.2
    gain, quadratic = (1, rate / (1 - rate)) if unbiased else (1 - rate, rate * (1 - rate))

    def energy(w):
        score, var = X @ (gain * w[:-1]) + w[-1], X**2 @ (quadratic * w[:-1] ** 2) + 1e-18
        kinks = {
            "Hinge": lambda: [(-y, 0.7 - y * score, 1.0)],
            "EpsilonInsensitive": lambda: [(-1, y - score - loss.epsilon, 1.0), (1, score - y - loss.epsilon, 1.0)],
            "Quantile": lambda: [(-1, y - score, 0.8), (1, score - y, 0.2)],
        }[type(loss).__name__]()
        value, slope = 0.5 * w[:-1] @ w[:-1], np.append(w[:-1], 0.0)
        for sign, slack, share in kinks:
            root = np.sqrt(slack**2 + var)
            c = C * weight * share
            value += 0.5 * c @ (slack + root)
            pull = 0.5 * c * (1 + slack / root) * sign
            slope[:-1] += gain * (X.T @ pull) + quadratic * w[:-1] * (X.T**2 @ (0.5 * c / root))
            slope[-1] += pull.sum()
        return value, slope

    model = bd.Model(loss, rates=bd.Fixed(rate), C=C, noise=bd.Dropout(unbiased=unbiased))
    fit = bd.fit(model, sparse.csr_array(X), y, sample_weight=weight, method=bd.Newton(tol=1e-8))
    here = np.append(fit.weight, fit.intercept)
    assert energy(here)[0] == pytest.approx(fit.objective_trace[-1], rel=1e-8)
    options = {"maxiter": 20_000, "maxfun": 100_000, "maxcor": 50, "ftol": 1e-16, "gtol": 1e-10}
    best = min(minimize(energy, start, jac=True, method="L-BFGS-B", options=options).fun for start in (here, 0 * here))
    assert energy(here)[0] <= best * (1 + 1e-8)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_pulls_of_the_rows_make_the_weights(loss):
    """``Pw = Xᵀ dual``, rows on a kink included, whose slopes their scores alone do not tell."""
    X, y = data(loss)
    model = bd.Model(loss, rates=bd.Fixed(0.0), C=0.6)
    fit = bd.fit(model, sparse.csr_array(X), y, method=bd.Newton(tol=1e-12))
    assert fit.n_iter == 1
    np.testing.assert_allclose(X.T @ fit.auxiliary.dual, fit.weight, atol=1e-4)
    assert abs(fit.auxiliary.dual.sum()) < 1e-4
