"""Point fits under a Laplace prior: zeros are exact, and the optimum is scikit-learn's without noise."""

import numpy as np
import pytest
from scipy import optimize, sparse
from sklearn.linear_model import Lasso, LogisticRegression

import bayesdrop as bd
from bayesdrop.fitting.solvers.proximal import solve_quadratic
from bayesdrop.moments import ScoreMoments

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 12))
SCORE = X[:, :4] @ np.array([1.0, -1.0, 0.5, 0.2])
LABELS = (SCORE + RNG.logistic(size=150) > 0).astype(int)
NUMBERS = SCORE + RNG.normal(size=150)
COUNTS = RNG.poisson(np.exp(0.5 * SCORE))
TIGHT = bd.Newton(tol=1e-13)


def fitted(loss, y, scale, rate=0.0, features=X, **options):
    model = bd.Model(loss, weight_prior=bd.Laplace(scale), rates=bd.Fixed(rate), **options)
    return bd.fit(model, features, y, method=TIGHT)


@pytest.mark.parametrize("scale", [1.0, 0.1, 0.04])
def test_without_noise_it_is_the_l1_logistic_regression_of_scikit_learn(scale):
    fit = fitted(bd.Logistic(), LABELS, scale)
    other = LogisticRegression(l1_ratio=1.0, C=scale, solver="saga", tol=1e-14, max_iter=100_000).fit(X, LABELS)
    np.testing.assert_allclose(fit.weight, other.coef_[0], atol=1e-6)
    np.testing.assert_array_equal(fit.weight == 0, other.coef_[0] == 0)
    assert fit.intercept == pytest.approx(other.intercept_[0], abs=1e-6)
    assert fit.solver == "Newton, proximal"


@pytest.mark.parametrize("scale", [1.0, 0.1, 0.02])
@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_without_noise_it_is_the_lasso_of_scikit_learn(scale, wrap):
    fit = fitted(bd.Squared(), NUMBERS, scale, features=wrap(X))
    other = Lasso(alpha=1 / (150 * scale), tol=1e-14, max_iter=100_000).fit(X, NUMBERS)
    np.testing.assert_allclose(fit.weight, other.coef_, atol=1e-6)
    np.testing.assert_array_equal(fit.weight == 0, other.coef_ == 0)
    assert fit.intercept == pytest.approx(other.intercept_, abs=1e-6)
    residual, freedom = NUMBERS - other.predict(X), np.sum(other.coef_ != 0) + 1
    assert fit.sigma**2 == pytest.approx(residual @ residual / (150 - freedom), rel=1e-6)


@pytest.mark.parametrize("scale", [0.1, np.linspace(0.02, 0.4, 12)], ids=["one", "each"])
@pytest.mark.parametrize(
    ("loss", "y"),
    [
        (bd.Logistic(), LABELS),
        (bd.Logistic("gaussian"), LABELS),
        (bd.Squared(), NUMBERS),
        (bd.Poisson("gaussian"), COUNTS),
        (bd.NegativeBinomial(2.0), COUNTS),
    ],
)
def test_the_optimum_under_noise_fulfils_the_conditions_on_the_subgradient(loss, y, scale):
    fit = fitted(loss, y, scale, 0.2, C=0.8)
    code = np.where(y > 0, 1.0, -1.0) if loss.binary else y.astype(float)
    moments = ScoreMoments(bd.designs.as_design(X), bd.Dropout(centre=None), np.full((12, 1), 0.2), True)

    def smooth(theta):
        mean, var = moments.scores(theta[:, None])
        return 0.8 * np.sum(loss.value(code[:, None], mean, var))

    at = np.append(fit.weight, fit.intercept)
    slope = optimize.approx_fprime(at, smooth, 1e-6)
    limit = np.broadcast_to(1 / np.asarray(scale), 12)
    zero = fit.weight == 0
    assert 0 < zero.sum() < 12
    np.testing.assert_allclose(slope[:-1][~zero], -(limit * np.sign(fit.weight))[~zero], atol=2e-4)
    assert np.all(np.abs(slope[:-1][zero]) <= limit[zero] + 2e-4)
    assert abs(slope[-1]) < 2e-4
    assert fit.objective_trace[-1] == pytest.approx(smooth(at) + limit @ np.abs(fit.weight), rel=1e-12)
    assert fit.status.name in ("CONVERGED", "ROUND_OFF")


def test_rates_are_learnt_and_rows_weigh_what_they_weigh():
    model = bd.Model(weight_prior=bd.Laplace(0.3))
    twice = bd.fit(model, np.vstack([X, X]), np.tile(LABELS, 2), method=TIGHT)
    weighted = bd.fit(model, X, LABELS, sample_weight=np.full(150, 2.0), method=TIGHT)
    np.testing.assert_allclose(weighted.weight, twice.weight, atol=1e-6)
    assert np.ptp(weighted.rates) > 0


def test_the_quadratic_is_solved_to_round_off():
    root = RNG.normal(size=(20, 8))
    hessian, gradient, weight, penalty = root.T @ root, 5 * RNG.normal(size=8), RNG.normal(size=8), np.full(8, 3.0)
    penalty[-1] = 0
    new = weight + solve_quadratic(hessian, gradient, weight, penalty)
    slope = gradient + hessian @ (new - weight)
    assert 0 < np.sum(new == 0) < 7
    np.testing.assert_allclose(slope[new != 0], -(penalty * np.sign(new))[new != 0], atol=1e-12)
    assert np.all(np.abs(slope[new == 0]) <= penalty[new == 0] + 1e-12)


def test_no_weight_is_a_finding_and_intervals_are_not():
    fit = fitted(bd.Logistic(), LABELS, 1e-4)
    assert fit.status.name == "ALL_ZERO"
    assert np.all(fit.weight == 0)
    assert fit.intercept == pytest.approx(np.log(LABELS.mean() / (1 - LABELS.mean())), abs=1e-6)
    assert fit.covariance is None


@pytest.mark.parametrize(
    ("prior", "changes", "options", "message"),
    [
        (bd.Horseshoe(), {}, {}, "density of Horseshoe.* is infinite at 0.*bd.sample"),
        (bd.Laplace(), {"loss": bd.Hinge()}, {}, "with a smooth loss"),
        (bd.Laplace(), {}, {"method": bd.EM()}, "has a kink at 0, which bd.Newton"),
        (bd.Laplace(), {"rates": bd.Tuned()}, {}, "bd.Tuned chooses by formulas"),
        (bd.Laplace(np.ones(3)), {}, {}, "expected one number or 12"),
    ],
)
def test_what_a_fit_does_not_take_says_why(prior, changes, options, message):
    with pytest.raises(ValueError, match=message):
        bd.fit(bd.Model(weight_prior=prior, **changes), X, LABELS, **options)


def test_many_features_are_refused():
    wide = sparse.random_array((30, 5001), density=0.01, rng=RNG, format="csr")
    with pytest.raises(ValueError, match="up to 5,000 features.*got 5,001"):
        bd.fit(bd.Model(weight_prior=bd.Laplace(), rates=bd.Fixed(0.1)), wide, np.arange(30) % 2)
