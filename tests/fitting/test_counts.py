"""Fits of counts: the exact expectation of a Poisson loss, scikit-learn's fit without noise, counts that are none."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import check_grad, minimize
from scipy.stats import norm
from sklearn.linear_model import PoissonRegressor

import bayesdrop as bd
from bayesdrop.designs import as_design
from bayesdrop.fitting.objective.exponential_moments import ExponentialMoments

N, P = 40, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, P)) * (RNG.random((N, P)) < 0.8)
Y = RNG.poisson(np.exp(X @ [0.9, -0.5, 0.0] + 0.4)).astype(float)
S = RNG.gamma(3.0, size=N)
WEIGHTS = np.array([[0.8], [-0.6], [0.3], [0.2]])
RATES = np.array([0.1, 0.5, 0.7])
# E e^{w x̃} of each noise, by formulas of their own.
MEANS = {
    "dropout": (bd.Dropout(), lambda w, x: RATES + (1 - RATES) * np.exp(w * x)),
    "unbiased": (bd.Dropout(unbiased=True), lambda w, x: RATES + (1 - RATES) * np.exp(w * x / (1 - RATES))),
    "laplace": (bd.LaplaceNoise(0.7), lambda w, x: np.exp(w * x) / (1 - (0.7 * w) ** 2)),
    "poisson": (bd.PoissonNoise(), lambda w, x: np.exp(x * (np.exp(w) - 1))),
    "gaussian": (bd.GaussianNoise(0.5), lambda w, x: np.exp(w * x + 0.125 * w * w)),
}


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", MEANS)
def test_moments_are_those_of_the_exponential(name, storage):
    """``exp(m + v/2)`` is the product of the noise's moment-generating functions, and the slopes are its own."""
    noise, mean_of = MEANS[name]
    rows = np.abs(X) if name == "poisson" else X
    moments = ExponentialMoments(as_design(storage(rows)), noise, RATES[:, None])
    mean, var = moments.scores(WEIGHTS)
    expected = np.log(mean_of(WEIGHTS[:-1, 0], rows)).sum(axis=1) + WEIGHTS[-1, 0]
    np.testing.assert_allclose((mean + var / 2)[:, 0], expected, rtol=1e-12, atol=1e-12)
    for_mean, for_var = RNG.normal(size=(2, N, 1))

    def total(w):
        m, v = moments.scores(w[:, None])
        return float(np.sum(for_mean * m + for_var * v))

    gradient, spread = moments.adjoint(WEIGHTS, for_mean, for_var)
    assert check_grad(total, lambda w: gradient[:, 0], WEIGHTS[:, 0]) < 1e-4
    direction = RNG.normal(size=WEIGHTS.shape)
    tangent = moments.tangent(WEIGHTS, direction)
    forward = np.sum(for_mean * tangent[0] + for_var * tangent[1])
    np.testing.assert_allclose(forward, np.sum(gradient * direction), rtol=1e-10)
    step = 1e-4
    for d in range(P):
        shift = step * np.eye(P + 1)[:, [d]]
        sides = [moments.adjoint(WEIGHTS + sign * shift, 0 * for_mean, for_var)[0][d, 0] for sign in (1, -1)]
        assert 2 * spread[d, 0] == pytest.approx((sides[0] - sides[1]) / (2 * step), rel=1e-5, abs=1e-6)


def test_a_centre_moves_the_entries_and_not_their_storage():
    centre = np.array([0.5, 0.0, -1.0])
    dense, stored = (
        ExponentialMoments(as_design(rows).shifted(centre), bd.Dropout(), RATES[:, None]).scores(WEIGHTS)
        for rows in (X, sparse.csr_array(X))
    )
    moved = ExponentialMoments(as_design(X - centre), bd.Dropout(), RATES[:, None]).scores(WEIGHTS)
    np.testing.assert_allclose(dense[1], moved[1], rtol=1e-12)
    np.testing.assert_allclose(stored, dense, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("blocks", [False, True])
def test_the_exact_fit_is_the_minimum_over_all_masks(blocks):
    masks = np.array(list(itertools.product((0, 1), repeat=P)))
    chance = np.prod(np.where(masks, 1 - RATES, RATES), axis=1)

    def energy(w):
        score = (X[:, None] * masks) @ w[:-1] + w[-1]
        return 0.5 * w[:-1] @ w[:-1] + 1.5 * S @ ((np.exp(score) - Y[:, None] * score) @ chance)

    best = minimize(energy, np.zeros(P + 1), method="BFGS", options={"gtol": 1e-6}).x
    model = bd.Model(bd.Poisson(), bd.Dropout(centre=None), bd.Fixed(RATES), C=1.5)
    rows = bd.Blocks(lambda: (X[i : i + 15] for i in range(0, N, 15))) if blocks else X
    fit = bd.fit(model, rows, Y, sample_weight=S, method=bd.Newton(tol=1e-12))
    np.testing.assert_allclose(np.append(fit.weight, fit.intercept), best, atol=1e-5)
    other = bd.fit(bd.Model(bd.Poisson("gaussian"), model.noise, model.rates, C=1.5), rows, Y, sample_weight=S)
    assert np.max(np.abs(other.weight - fit.weight)) > 0.01, "the two expectations differ, and the test could not tell"


def test_normal_noise_has_one_expectation():
    fits = [bd.fit(bd.Model(bd.Poisson(form), bd.GaussianNoise(0.6)), X, Y) for form in ("exact", "gaussian")]
    np.testing.assert_allclose(fits[0].weight, fits[1].weight, rtol=1e-10)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_without_noise_it_is_scikit_learns_fit(fit_intercept):
    """Its loss is a mean and ours a sum: ``alpha = 1/(C Σ s)``. Fractions are events per unit of exposure."""
    alpha = 0.03
    theirs = PoissonRegressor(alpha=alpha, fit_intercept=fit_intercept, solver="newton-cholesky", tol=1e-10)
    theirs.fit(X, Y / S, sample_weight=S)
    ours = bd.DropoutPoissonRegressor(0.0, C=1 / (alpha * S.sum()), fit_intercept=fit_intercept, tol=1e-14)
    ours.fit(X, Y / S, sample_weight=S)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-7)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=1e-7)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-6)
    assert ours.score(X, Y / S, S) == pytest.approx(theirs.score(X, Y / S, S), abs=1e-7)


@pytest.mark.parametrize("dispersion", [0.1, 2.0, 1e4, 1e8])
def test_fits_of_huge_counts_and_dispersions_reach_the_optimum(dispersion):
    """Steps by the majorising matrix, 1e8 times the curvature, were taken for the end: all weights were 0.

    The gradient is computed from the mean count, without odds: ``Σ r (μ − y)/(μ + r) x``.
    """
    counts = np.random.default_rng(0).poisson(np.exp(1 + X @ np.arange(1, P + 1) / P)).astype(float)
    for size in (1.0, 1e6, 1e12):
        y, r = np.floor(counts * size), dispersion
        for form in ("augmentation", "gaussian", "taylor"):
            fit = bd.fit(bd.Model(bd.NegativeBinomial(r, form), rates=bd.Fixed(0.0)), X, y, method=bd.Newton(1e-12))
            mean = r * np.exp(X @ fit.weight + fit.intercept)
            pull = r * (mean - y) / (mean + r)
            slope = np.append(X.T @ pull + fit.weight, pull.sum())
            assert np.linalg.norm(slope) < 1e-5 * np.linalg.norm(np.abs(X).T @ np.abs(pull))
            assert np.abs(fit.weight).max() > 0.1


def test_learnt_rates_of_a_binomial_count_are_those_of_its_trials():
    """Nine rows of two classes in the place of one count: the same energy, and the same votes."""
    y = np.minimum(Y, 9)
    rates = bd.PerFeature(class_ratio=True)
    counted = bd.fit(bd.Model(bd.Binomial(9), rates=rates), X, y, method=bd.Newton(tol=1e-12))
    rows, label, weight = np.vstack([X, X]), np.repeat([1, 0], N), np.append(y, 9 - y)
    trials = bd.fit(
        bd.Model(bd.Logistic(), rates=rates), rows, label, sample_weight=weight, method=bd.Newton(tol=1e-12)
    )
    np.testing.assert_allclose(counted.rates, trials.rates, rtol=1e-12)
    np.testing.assert_allclose(counted.weight, trials.weight, atol=1e-6)


def test_learnt_rates_tell_noise_from_what_counts():
    """Under ``y ~ Poisson(e^{βx})`` counts sit at ``x`` of the law N(β, 1), what is weighed against them at N(0, 1).

    So the share of votes against a weight is ``½Φ(−|β|) + ¼``; its standard error is below 0.01 here.
    """
    rng = np.random.default_rng(1)
    effect = np.array([0.8, -0.4, 0.0, 0.0])
    rows = rng.normal(size=(4000, 4))
    y = rng.poisson(np.exp(rows @ effect))
    expected = norm.cdf(-np.abs(effect)) / 2 + 0.25
    fits = [bd.fit(bd.Model(loss, rates=bd.PerFeature()), rows, y) for loss in (bd.Poisson(), bd.NegativeBinomial(4.0))]
    for fit in fits:
        np.testing.assert_allclose(fit.rates, expected, atol=0.05)


@pytest.mark.parametrize("scale", [1.0, 1e5])
@pytest.mark.parametrize(
    "loss", [bd.Poisson(), bd.Poisson("gaussian"), bd.Poisson("taylor"), bd.NegativeBinomial(2.0)], ids=repr
)
def test_large_counts_and_features_are_fitted(loss, scale):
    """Warnings are errors: neither overflow nor an unfinished fit."""
    fit = bd.fit(bd.Model(loss, bd.Dropout(centre=None), bd.Fixed(0.2)), 5 * X, np.floor(scale * Y))
    assert fit.status.name == "CONVERGED"


SAMPLE = {"draws": 2, "tune": 2, "chains": 1, "progress": False}
POISSON, BINOMIAL = bd.Model(bd.Poisson(), rates=bd.Fixed(0.0)), bd.Model(bd.Binomial(3), rates=bd.Fixed(0.0))
DOORS = {
    "fit": lambda model, y: bd.fit(model, X, y),
    "sample": lambda model, y: bd.sample(model, X, y, **SAMPLE),
    "Poisson estimator": lambda model, y: bd.DropoutPoissonRegressor().fit(X, y),
    "negative binomial estimator": lambda model, y: bd.DropoutNegativeBinomialRegressor().fit(X, y),
    "partial_fit": lambda model, y: bd.DropoutPoissonRegressor().partial_fit(X, y),
}
FIRST = np.eye(N)[0]


@pytest.mark.parametrize("door", DOORS)
def test_counts_that_are_none_are_named(door):
    enter = DOORS[door]
    with pytest.raises(ValueError, match=r"y: expected counts of at least 0.*got -3 \(1 of 40 rows\).*missing values"):
        enter(POISSON, np.where(FIRST, -3.0, Y))
    with pytest.raises(ValueError, match="infinity|infinite"):
        enter(POISSON, np.where(FIRST, np.inf, Y))
    if door in ("fit", "sample"):
        with pytest.raises(ValueError, match=r"whole numbers for Poisson, got 1.5 .*DropoutPoissonRegressor"):
            enter(POISSON, np.where(FIRST, 1.5, Y))
        with pytest.raises(ValueError, match=r"at most 3 for Binomial\(trials=3.*got 7 .*more successes than trials"):
            enter(BINOMIAL, np.where(FIRST, 7, np.minimum(Y, 3)))
        with pytest.raises(ValueError, match="differ from 3, the number of trials"):
            enter(BINOMIAL, np.full(N, 3))
    if door != "partial_fit":
        with pytest.raises(ValueError, match="differ from 0 in some row"):
            enter(POISSON, 0 * Y)


def test_refusals_say_what_to_use():
    with pytest.raises(ValueError, match=r"bd.HMC\(\).*bd.reweight.*bd.NegativeBinomial"):
        bd.sample(bd.Model(bd.Poisson()), X, Y, method=bd.Gibbs(), **SAMPLE)
    with pytest.raises(ValueError, match=r"bd.Newton\(\)"):
        bd.fit(bd.Model(bd.Poisson()), X, Y, method=bd.EM())
    with pytest.raises(ValueError, match='expectation="gaussian"'):
        bd.sample(bd.Model(bd.Poisson(), bd.LaplaceNoise(0.2)), X, Y, **SAMPLE)


@pytest.mark.parametrize("loss", [bd.Binomial(3), bd.NegativeBinomial(2.0), bd.Poisson()])
@pytest.mark.parametrize("bound", [0.0, 3.0])
def test_a_fit_starts_from_a_finite_score_where_the_mean_rounds_to_a_bound(loss, bound):
    """One row alone differs, and hardly counts: the odds of three successes in three trials would be infinite."""
    y, weight = np.full(N, bound), np.ones(N)
    y[0], weight[0] = 3 - bound, 1e-20
    assert np.all(np.isfinite(loss.first_score(np.array([bound]))))
    fit = bd.fit(bd.Model(loss, rates=bd.Fixed(0.3)), X, y, sample_weight=weight)
    assert np.isfinite(fit.intercept)
