"""Features in other units: the same predictions, rates and status, from 1e-12 to 1e12, column by column."""

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.effects.laplace import laplace_covariance

RNG = np.random.default_rng(0)
N, P = 150, 5
X = RNG.normal(size=(N, P)) + np.array([0.0, 0.0, 3.0, 0.0, 8.0])
SCORE = (X - X.mean(axis=0)) @ RNG.normal(size=P)
SIGNS = (SCORE + RNG.logistic(size=N) > 0).astype(int)
NUMBERS = SCORE + RNG.normal(size=N)
RESPONSES = {
    "signs": SIGNS,
    "classes": np.digitize(SCORE + RNG.logistic(size=N), [-1.0, 1.0]),
    "numbers": NUMBERS,
    "counts": RNG.poisson(np.exp(0.3 * SCORE)),
}
LEARNT, FIXED, NONE = bd.PerFeature(bd.Beta(2, 2)), bd.Fixed(0.2), bd.Fixed(0.0)
CASES = [
    (bd.Logistic(), LEARNT, "signs"),
    (bd.Logistic(), NONE, "signs"),
    (bd.Logistic("taylor"), FIXED, "signs"),
    (bd.Hinge(), LEARNT, "signs"),
    (bd.Hinge(), NONE, "signs"),
    (bd.Hinge(expectation="gaussian"), FIXED, "signs"),
    (bd.Softmax(), LEARNT, "classes"),
    (bd.Softmax(), FIXED, "classes"),
    (bd.Squared(), FIXED, "numbers"),
    (bd.EpsilonInsensitive(0.1), FIXED, "numbers"),
    (bd.Quantile(0.3), FIXED, "numbers"),
    (bd.Poisson(), LEARNT, "counts"),
    (bd.Poisson(), FIXED, "counts"),
]
SCALES = [1e-12, 1e-9, 1e6, 1e9, 1e12, np.array([1e-12, 1e12, 1.0, 1e-6, 1e9])]


def scores(fit, scale):
    return X * scale @ np.atleast_2d(fit.weight).T + fit.intercept


@pytest.mark.parametrize(("loss", "rates", "kind"), CASES, ids=str)
def test_predictions_do_not_depend_on_the_units(loss, rates, kind):
    model = bd.Model(loss, rates=rates, weight_prior=bd.Normal(1.0, relative=True))
    expected = bd.fit(model, X, RESPONSES[kind])
    for k, scale in enumerate(SCALES):
        storage = sparse.csr_array if k % 2 else np.asarray
        found = bd.fit(model, storage(X * scale), RESPONSES[kind])
        assert found.status is expected.status is type(expected.status).CONVERGED
        np.testing.assert_allclose(found.rates, expected.rates, rtol=1e-9)
        np.testing.assert_allclose(scores(found, scale), scores(expected, 1.0), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("loss", [bd.Logistic(), bd.Hinge(), bd.Softmax(), bd.Squared()], ids=str)
def test_features_that_say_nothing_are_told_at_any_scale(loss, scale):
    """Every combination of signs with every label, so that the optimum is at weights of zero."""
    rows = scale * np.tile([[1.0, 3.0], [1.0, -3.0], [-1.0, 3.0], [-1.0, -3.0]], (2, 1))
    y = np.repeat([0, 1], 4)
    for prior in (bd.Normal(1.0), bd.Normal(1.0, relative=True)):
        fit = bd.fit(bd.Model(loss, rates=FIXED, weight_prior=prior), rows, y)
        assert fit.status.name == "ALL_ZERO"
        assert np.abs(fit.weight * scale).max() < 1e-9


def test_weights_that_are_small_beside_a_prior_are_zero():
    """Features so small that no weight the prior allows has a say: every prediction is that of the intercept."""
    small = bd.fit(bd.Model(rates=FIXED), X * 1e-13, SIGNS)
    assert small.status.name == "ALL_ZERO"
    assert np.ptp(small.predict(X * 1e-13).mean) < 1e-9
    assert bd.fit(bd.Model(rates=FIXED), X * 1e13, SIGNS).status.name == "CONVERGED"


def test_steps_by_exact_moments_do_not_depend_on_the_units():
    """The curvature of a Newton step is had by differences, whose steps are in the units of each column."""
    rows, y = X - X.mean(axis=0), RESPONSES["counts"]
    prior = bd.Normal(1.0, relative=True)
    for noise in (bd.Dropout(), bd.Dropout(unbiased=True), bd.MultiplicativeNoise(0.4)):
        model = bd.Model(bd.Poisson(), noise, FIXED if noise.has_rate else None, weight_prior=prior)
        first, *others = (bd.fit(model, rows * scale, y) for scale in (1.0, 1e-11, 1e11))
        for other in others:
            np.testing.assert_allclose(other.objective_trace, first.objective_trace, rtol=1e-7)


@pytest.mark.parametrize(
    ("loss", "kind"), [(bd.Logistic(), "signs"), (bd.Squared(), "numbers"), (bd.Softmax(), "classes")], ids=str
)
def test_covariances_of_weights_are_in_the_units_of_the_columns(loss, kind):
    model, y = bd.Model(loss, rates=NONE, weight_prior=bd.Normal(1.0, relative=True)), RESPONSES[kind]
    scale = np.array([1e-9, 1e9, 1.0, 1e-6, 1e6])
    classes = 3 if kind == "classes" else 1
    one, other = (laplace_covariance(bd.fit(model, rows, y), rows, y) for rows in (X, X * scale))
    unit = np.tile(np.append(scale, 1.0), classes)
    size = np.sqrt(np.outer(one.diagonal(), one.diagonal()))
    np.testing.assert_allclose(unit[:, None] * other * unit / size, one / size, atol=1e-5)
