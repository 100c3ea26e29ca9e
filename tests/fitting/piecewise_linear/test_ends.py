"""Where fits of piecewise-linear losses end: never above where they began, and not at a step that led nowhere."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm

import bayesdrop as bd


def rows(seed, n, p, share=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * (rng.random((n, p)) < share)
    return X, np.where(X[:, 0] + rng.normal(size=n) > 0, 1, -1)


@pytest.mark.slow
@pytest.mark.parametrize("method", [bd.Newton, bd.EM])
@pytest.mark.parametrize("loss", [bd.Hinge(), bd.EpsilonInsensitive(0.1), bd.Quantile(0.3)], ids=str)
@pytest.mark.parametrize("seeds", [(0,), (1, 2, 3, 4, 5)], ids=str)
def test_a_tolerance_beyond_double_precision_costs_no_accuracy(loss, method, seeds):
    """Without noise: a fit of a tighter tolerance is no worse, takes no long way, and says how it ended."""
    for seed in seeds:
        X, y = rows(seed, 73, 50, 0.5)
        response = y if loss.binary else X[:, 0] + 0.1 * y
        model = bd.Model(loss, rates=bd.Fixed(0.0), C=100.0)
        ends = {tol: bd.fit(model, X, response, method=method(tol=tol)) for tol in (1e-9, 1e-11, 1e-14)}
        least = min(float(fit.objective_trace[-1]) for fit in ends.values())
        for tol, fit in ends.items():
            assert fit.status.name in (("CONVERGED",) if tol == 1e-9 else ("CONVERGED", "ROUND_OFF"))
            assert fit.objective_trace[-1] <= least * (1 + 1e-9)


@pytest.mark.default_cases("0.0")
@pytest.mark.parametrize("rate", [0.0, 0.05, 0.4])
def test_a_warm_start_never_ends_above_where_it_began(rate):
    for seed in range(8):
        X, y = rows(100 + seed, 60, 12)
        for tol in (1e-8, 1e-13):
            model = bd.DropoutSVC(rate, warm_start=True, tol=tol, C=10.0).fit(X, y)
            before = model.objective_trace_[-1]
            again = model.fit(X, y).objective_trace_[-1]
            assert again <= before * (1 + 1e-9)


def gaussian_hinge(w, X, y, rate, C):
    mean, var = (1 - rate) * X @ w[:-1] + w[-1], rate * (1 - rate) * X**2 @ w[:-1] ** 2 + 1e-300
    z = (1 - y * mean) / np.sqrt(var)
    return 0.5 * w[:-1] @ w[:-1] + C * np.sum((1 - y * mean) * norm.cdf(z) + np.sqrt(var) * norm.pdf(z))


@pytest.mark.parametrize(("seed", "n", "p", "C"), [(703, 187, 50, 1e-3), (1843, 73, 26, 1e-4), (2119, 121, 45, 1e-5)])
def test_steps_where_the_energy_is_all_but_flat(seed, n, p, C):
    """Of small scores with little noise no row is near its kink, and a direction is 10¹³ times too long."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, p)), np.where(np.arange(n) % 2, 1, -1)
    model = bd.Model(bd.Hinge(expectation="gaussian"), rates=bd.Fixed(0.1), C=C)
    fit = bd.fit(model, X, y)
    assert fit.status.name == "CONVERGED"
    w = np.append(fit.weight, fit.intercept)
    found = gaussian_hinge(w, X, y, 0.1, C)
    best = minimize(gaussian_hinge, w + 1e-3, args=(X, y, 0.1, C), options={"gtol": 1e-10 * C, "maxiter": 100}).fun
    assert found <= best * (1 + 1e-7)


@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("loss", [bd.EpsilonInsensitive, bd.Quantile])
def test_fits_are_the_same_in_any_unit_of_the_response(rate, loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    y = 3 + X[:, 0] + 0.3 * rng.standard_t(3, size=90)

    def fit(unit):
        model = bd.Model(
            loss(0.1 * unit) if loss is bd.EpsilonInsensitive else loss(0.3),
            rates=bd.Fixed(rate), C=1 / unit, weight_prior=bd.Normal(unit),
        )  # fmt: skip
        found = bd.fit(model, X, unit * y)
        return np.append(found.weight, found.intercept) / unit, found.auxiliary.omega * unit**2

    weights, omega = fit(1.0)
    for unit in (1e-20, 1e-6, 1e12, 1e60):
        other, precisions = fit(unit)
        np.testing.assert_allclose(other, weights, atol=1e-9)
        np.testing.assert_allclose(precisions, omega, rtol=1e-4)
