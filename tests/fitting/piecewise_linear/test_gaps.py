"""A fit of a piecewise-linear loss that says it has converged is near its optimum, by a bound of its own here."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import lsq_linear
from scipy.stats import norm

import bayesdrop as bd
from bayesdrop.designs import as_design
from bayesdrop.fitting.objective.energy import Energy
from bayesdrop.fitting.solvers import newton
from bayesdrop.fitting.solvers.state import SolverState
from bayesdrop.moments import ScoreMoments

TOL = 1e-8
TABLES = [(300, 5, 0.05), (300, 5, 2.0), (120, 60, 2.0), (40, 70, 0.05)]
LOSSES = [bd.Hinge(0.8), bd.EpsilonInsensitive(0.2), bd.Quantile(0.7)]


def data(n, p, binary, density=1.0):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    X[:, 1:] *= rng.random((n, p - 1)) < density
    y = X @ rng.normal(size=p) / np.sqrt(p) + 0.7 * rng.normal(size=n) + 0.3
    return X, np.where(y > 0, 1.0, -1.0) if binary else y


def positive_parts(loss, X, y, C):
    """Rows, signs, ends and costs of ``Σ a max(0, b − s(xᵀw + w₀))``, which every piecewise-linear loss is."""
    one = np.ones(len(y))
    parts = {
        "Hinge": lambda: [(y, loss.margin * one, C)],
        "EpsilonInsensitive": lambda: [(one, y - loss.epsilon, C), (-one, -y - loss.epsilon, C)],
        "Quantile": lambda: [(one, y, C * loss.tau), (-one, -y, C * (1 - loss.tau))],
    }[type(loss).__name__]()
    sign, end = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    return np.tile(X, (len(parts), 1)), sign, end, np.repeat([part[2] for part in parts], len(y))


def relative_gap(loss, X, y, C, rate, weight, intercept):
    """Energy less a bound on the least one, over the energy, from the weights and the data alone.

    ``max(0, z)`` with a variance ``v`` costs ``αz + √v τ(α)`` or more for any ``α`` in ``[0, 1]``, and ``√v(w')`` is
    ``⟨√a x∘w', √a x∘w⟩/√v(w)`` or more; what is left in ``w'`` is a ridge regression, if ``Σ s a α = 0``.
    """
    X, sign, end, cost = positive_parts(loss, X, y, C)
    gain, quadratic = 1 - rate, rate * (1 - rate)
    z = end - sign * (X @ (gain * weight) + intercept)
    root = np.maximum(np.sqrt(X**2 @ (quadratic * weight**2)), 1e-140)
    gaussian = loss.expectation == "gaussian" and rate > 0
    if gaussian:
        share = norm.cdf(z / root)
        energy = cost @ (z * share + root * norm.pdf(z / root))
    else:
        size = np.sqrt(z**2 + root**2)
        share, energy = 0.5 + 0.5 * z / np.maximum(size, 1e-300), 0.5 * cost @ (z + size)
    energy += 0.5 * weight @ weight
    shares = [share] if rate > 0 else [_on_kinks(X, sign, z, cost, weight, near) for near in (1e-3, 1e-5, 1e-7)]
    bounds = [_bound(X, sign, end, cost, gain, quadratic, weight, share, root, gaussian) for share in shares]
    return (energy - max(bounds)) / energy


def _bound(X, sign, end, cost, gain, quadratic, weight, share, root, gaussian):
    soft = cost * share * (1 - share)
    share = np.clip(share - sign * soft * (sign * cost @ share) / max(cost @ soft, 1e-300), 0, 1)
    up, down = cost[sign > 0] @ share[sign > 0], cost[sign < 0] @ share[sign < 0]
    share = share * np.where(sign > 0, min(up, down) / up, min(up, down) / down)
    tension = norm.pdf(norm.ppf(share)) if gaussian else np.sqrt(share * (1 - share))
    spread = X.T**2 @ (cost * tension / root) if np.any(quadratic) else 0.0
    rest = gain * (X.T @ (sign * cost * share)) - quadratic * weight * spread
    return (cost * share) @ end - 0.5 * rest @ rest


def _on_kinks(X, sign, z, cost, weight, near):
    """Without noise the slopes of rows on a kink are free: those that make the weights, by least squares in a box."""
    on = np.abs(z) < near
    share = np.where(z > 0, 1.0, 0.0)
    share[on] = 0.0
    if not np.any(on):
        return share
    rows = (sign * cost)[:, None] * np.column_stack([X, np.full(len(z), 1e3)])
    wanted = np.append(weight, 0.0) - rows.T @ share
    share[on] = np.clip(lsq_linear(rows[on].T, wanted, bounds=(0, 1), method="bvls", tol=1e-15).x, 0, 1)
    return share


@pytest.mark.parametrize("loss", [*LOSSES, bd.EpsilonInsensitive(0.0), bd.Hinge(expectation="gaussian")], ids=repr)
@pytest.mark.parametrize("rate", [0.0, 1e-6, 0.1, 0.7])
@pytest.mark.parametrize("density", [1.0, 0.3], ids=["dense", "sparse"])
def test_converged_means_within_tolerance(loss, rate, density):
    for n, p, C in TABLES:
        X, y = data(n, p, loss.binary, density)
        model = bd.Model(loss, rates=bd.Fixed(rate), C=C)
        fit = bd.fit(model, X if density == 1 else sparse.csr_array(X), y, method=bd.Newton(tol=TOL))
        assert fit.status.name == "CONVERGED"
        # The multipliers here are not those of the fit, which costs this bound a little.
        assert -1e-12 <= relative_gap(loss, X, y, C, rate, fit.weight, fit.intercept) <= 2 * TOL, (n, p, C)


@pytest.mark.filterwarnings("ignore:Stopped at max_iter")
@pytest.mark.parametrize("rate", [0.0, 1e-6])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_newton_alone_does_not_say_more_than_is_so(loss, rate, monkeypatch):
    """Without a dual method the kinks are smoothed, and the last steps can be too small to be told from none."""
    monkeypatch.setattr(newton, "solve_dual", lambda *given: None)
    X, y = data(120, 60, loss.binary)
    fit = bd.fit(bd.Model(loss, rates=bd.Fixed(rate), C=0.5), X, y, method=bd.Newton(tol=TOL))
    gap = relative_gap(loss, X, y, 0.5, rate, fit.weight, fit.intercept)
    assert gap <= 2 * TOL or fit.status.name != "CONVERGED"


def test_a_warm_start_ends_at_the_optimum():
    X, y = data(1000, 100, True)
    cold, warm = (bd.DropoutSVC(0.0, tol=1e-9, warm_start=start) for start in (False, True))
    warm.fit(X[:500], y[:500]).fit(X, y)
    assert warm.status_.name == cold.fit(X, y).status_.name == "CONVERGED"
    assert relative_gap(bd.Hinge(), X, y, 1.0, 0.0, warm.coef_[0], warm.intercept_[0]) <= 2e-9


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_an_estimate_of_nothing_is_doubted(loss):
    X, y = data(60, 5, loss.binary)
    moments = ScoreMoments(as_design(X), bd.Dropout(), np.full((5, 1), 0.1))
    energy = Energy(moments, loss, y[:, None], np.ones((60, 1)), np.append(np.ones(5), 0.0)[:, None])
    here = SolverState.at(energy, np.full((6, 1), 0.1), None)
    here = here.smoothed(energy, 0.0, np.zeros(1))
    doubted, rough = here.refine(energy, TOL * here.value, np.ones(1, dtype=bool))
    assert rough[0]
    assert doubted.remaining[0] > 0.01 * here.value[0]
