"""Sums over masks at any loss weight and response, against all masks enumerated in logarithms.

The error of a logarithm is 0.001 at most, as stated, and what rounding makes of its terms.
"""

import itertools

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp, xlogy

import bayesdrop as bd
from bayesdrop.posterior.draws.draws import read_draws
from bayesdrop.posterior.noise_average.quadrature import RULES
from bayesdrop.posterior.scores.approximation_error import errors_of

TRIALS, DISPERSION = 20, 2.0
COSTS = {
    bd.Logistic(): lambda y, s: np.logaddexp(0, -y * s),
    bd.Hinge(): lambda y, s: np.maximum(1 - y * s, 0),
    bd.EpsilonInsensitive(0.3): lambda y, s: np.maximum(np.abs(y - s) - 0.3, 0),
    bd.Quantile(0.8, 1.0): lambda y, s: np.maximum(0.8 * (y - s), -0.2 * (y - s)),
    bd.Squared(variance=1.0): lambda y, s: 0.5 * (y - s) ** 2,
    bd.Poisson(): lambda y, s: np.exp(s) - y * s + xlogy(y, y) - y,
    bd.NegativeBinomial(DISPERSION): lambda y, s: (y + DISPERSION) * np.logaddexp(0, s) - y * s,
    bd.Binomial(TRIALS): lambda y, s: TRIALS * np.logaddexp(0, s) - y * s,
}
# The likelihoods' constants, as multiples of C and beside.
CONSTANTS = {
    "EpsilonInsensitive": lambda C, y: -np.log(0.6 + 2 / C),
    "Quantile": lambda C, y: np.log(0.16 * C),
    "Squared": lambda C, y: 0.5 * np.log(C / (2 * np.pi)),
    "Poisson": lambda C, y: C * (xlogy(y, y) - y - gammaln(y + 1)),
    "NegativeBinomial": lambda C, y: C * (gammaln(y + DISPERSION) - gammaln(DISPERSION) - gammaln(y + 1)),
    "Binomial": lambda C, y: C * (gammaln(TRIALS + 1.0) - gammaln(y + 1) - gammaln(TRIALS - y + 1.0)),
}


def setting(build, loss, C, size, p, n=3, draws=3):
    """Rows, responses of a size, and draws from near to far."""
    rng = np.random.default_rng(p)
    X, rate = rng.normal(size=(n, p)), rng.beta(1, 1, size=(1, draws, p))
    w, b = rng.normal(size=(1, draws, p)) * np.array([0.3, 1.0, 4.0])[:, None], rng.normal(size=(1, draws))
    y = size * rng.normal(size=n)
    if loss.binary:
        y = np.where(y > 0, 1.0, -1.0)
    elif loss.largest_count is not None:
        y = np.minimum(np.floor(np.abs(y)), loss.largest_count)
    model = bd.Model(loss, C=C)
    return build(model, w, intercept=b, rate=rate, y=y, classes=[-1, 1] if loss.binary else None), model, X, y


def enumerated(post, loss, C, X, y):
    """``log Σ_α p(α) exp{−C loss}``, (draws, n), without constants."""
    draws = read_draws(post)
    masks = np.array(list(itertools.product((0.0, 1.0), repeat=X.shape[1])))
    found = np.empty((draws.size, len(X)))
    for s, i in np.ndindex(*found.shape):
        rate = draws.free_rate[s]
        chance = np.where(masks == 1, np.log1p(-rate), np.log(rate)).sum(axis=1)
        found[s, i] = logsumexp(chance - C * COSTS[loss](y[i], masks @ (X[i] * draws.weight[s]) + draws.intercept[s]))
    return found


WEIGHTS, SIZES = (1e-3, 1.0, 500.0, 1050.0, 1e4, 1e6), (1.0, 400.0, 1e6)


@pytest.mark.slow_cases("16-")
@pytest.mark.parametrize("loss", COSTS, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("p", [3, 8, 16])
def test_sums_are_those_of_all_masks(build, loss, p):
    for C, size in itertools.product(WEIGHTS, SIZES[:1] if loss.binary else SIZES):
        post, model, X, y = setting(build, loss, C, size, p)
        exact = enumerated(post, loss, C, X, y)
        found = bd.groups.dataset(bd.log_likelihood(post, X, y), "log_likelihood")["y"].values[0]
        constant = CONSTANTS.get(type(loss).__name__, lambda C, y: 0.0)(C, y)
        np.testing.assert_allclose(
            found - constant, exact, rtol=1e-12, atol=RULES.likelihood, err_msg=f"C = {C:g}, y to {size:g}"
        )


@pytest.mark.parametrize("loss", COSTS, ids=lambda loss: type(loss).__name__)
def test_errors_of_integrated_masks_have_these_sums(build, loss):
    """Nothing is raised by a large loss weight, and no likelihood is too small to be told from another."""
    for C, size, weight in itertools.product(WEIGHTS[1:], SIZES[:1] if loss.binary else SIZES[:2], (1.0, 1e-3, 1e3)):
        post, model, X, y = setting(build, loss, C, size, 3)
        draws, exact = read_draws(post), enumerated(post, loss, C, X, y)
        rate = draws.free_rate
        mean = (draws.weight * (1 - rate)) @ X.T + draws.intercept[:, None]
        var = (draws.weight**2 * rate * (1 - rate)) @ (X**2).T
        target = np.broadcast_to(y, mean.shape).copy()
        normal = loss.score_cost(target, mean, var, np.full(mean.shape, C)).value
        found = errors_of(draws, X, y, np.full(len(y), weight))
        np.testing.assert_allclose(found, weight * (exact + normal), rtol=1e-9, atol=weight * RULES.likelihood)
