"""Fits under a prior of the intercept at the means of the columns: closed forms, minimisers of others, refusals."""

import numpy as np
import pytest
from scipy.optimize import minimize, root
from scipy.sparse import csr_array

import bayesdrop as bd
from bayesdrop.description import describe, rebuild

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)) + [5.0, 0.0, -1.0]
X[:, 2] *= RNG.random(40) < 0.5
NUMBERS = X @ [1.0, -0.5, 1.0] + RNG.normal(size=40)
LABELS = NUMBERS > NUMBERS.mean() + 0.5
COUNTS = RNG.poisson(np.exp(0.2 * X[:, 1]))
ROWS = 1.0 + (np.arange(40) % 3)
AT = np.append(np.average(X, axis=0, weights=ROWS), 1.0)
PRIOR = bd.Normal(0.3, mean=-1.0)
TIGHT = bd.Newton(tol=1e-13)
LOSSES = [
    (bd.Squared(), NUMBERS),
    (bd.Logistic(), LABELS),
    (bd.Hinge(), LABELS),
    (bd.EpsilonInsensitive(0.1), NUMBERS),
    (bd.Quantile(0.3), NUMBERS),
    (bd.Poisson(), COUNTS),
    (bd.Poisson(expectation="exact"), COUNTS),
]
BY_LOSS = pytest.mark.parametrize(("loss", "y"), LOSSES, ids=lambda value: repr(value)[:40])


def joined(fit):
    return np.append(fit.weight, fit.intercept)


def model(loss, rate=0.0, centre=None, prior=PRIOR, **settings):
    noise = bd.Dropout(centre=centre)
    return bd.Model(loss, noise, bd.Fixed(rate), C=0.7, intercept_prior=prior, **settings)


def fit(stated, X, y, **options):
    return bd.fit(stated, X, y, sample_weight=ROWS, **({"method": TIGHT} | options))


def test_ridge_has_its_closed_form_and_covariance():
    M = np.column_stack([X, np.ones(40)])
    P = np.diag([1.0, 1.0, 1.0, 0.0]) + np.outer(AT, AT) / 0.3**2
    curvature = P + 0.7 * M.T @ (ROWS[:, None] * M)
    found = fit(model(bd.Squared(variance=1.0)), X, NUMBERS)
    expected = np.linalg.solve(curvature, -AT / 0.3**2 + 0.7 * M.T @ (ROWS * NUMBERS))
    np.testing.assert_allclose(joined(found), expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.covariance, np.linalg.inv(curvature), atol=1e-10)
    freedom = np.trace(np.linalg.solve(curvature, 0.7 * M.T @ (ROWS[:, None] * M)))
    variance = ROWS @ (NUMBERS - M @ expected) ** 2 / (ROWS.sum() - freedom)
    assert fit(model(bd.Squared()), X, NUMBERS).sigma ** 2 == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("centre", [None, "mean", "auto"])
def test_a_logistic_fit_minimises_the_energy_as_it_is_written(rate, centre):
    """Wherever the noise is centred the prior is of the score at the means of the columns; weights have means too.

    The noise is on the weight and not on its distance from the mean, so that no offset has the same minimum.
    """
    mean_of, scale = np.array([1.0, -2.0, 0.5]), np.array([0.3, 0.2, 0.5])
    stated = model(bd.Logistic(), rate, centre, weight_prior=bd.Normal(scale, mean=mean_of))
    sign, c = np.where(LABELS, 1, -1), fit(model(bd.Logistic(), 0.3, centre), X, LABELS).centre
    away = X if c is None else X - c

    def energy(w):
        level = w[3] + (0 if c is None else w[:3] @ c)
        mean, var = (1 - rate) * away @ w[:3] + level, rate * (1 - rate) * away**2 @ w[:3] ** 2
        size, off, apart = np.sqrt(mean**2 + var), (w @ AT + 1.0) / 0.3, (w[:3] - mean_of) / scale
        value = 0.5 * apart @ apart + 0.5 * off**2
        value += 0.7 * ROWS @ (np.log(2 * np.cosh(size / 2)) - sign * mean / 2)
        by_square = 0.7 * ROWS * np.tanh(size / 2) / (4 * size)
        by_mean = 2 * mean * by_square - 0.7 * ROWS * sign / 2
        slope = (
            np.append(apart / scale, 0.0)
            + off / 0.3 * AT
            + by_mean.sum() * np.append(0 * w[:3] if c is None else c, 1.0)
        )
        slope[:3] += (1 - rate) * away.T @ by_mean + 2 * rate * (1 - rate) * w[:3] * ((away**2).T @ by_square)
        return value, slope

    near = minimize(energy, np.full(4, 0.1), jac=True, method="BFGS").x
    alone = root(lambda w: energy(w)[1], near, tol=1e-14)
    found = fit(stated, X, LABELS)
    assert np.abs(energy(joined(found))[1]).max() < 1e-7
    np.testing.assert_allclose(joined(found), alone.x, rtol=0, atol=1e-8)


@BY_LOSS
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_solvers_and_storages_agree_and_a_wide_prior_is_flat(loss, y, rate):
    stated = model(loss, rate)
    reference = joined(fit(stated, X, y))
    methods = [bd.EM(tol=1e-13, max_iter=3000)] if loss.augmented and not loss.exponential and rate else []
    for method in methods:
        np.testing.assert_allclose(joined(fit(stated, X, y, method=method)), reference, atol=3e-5)
    for design in (csr_array(X), bd.Blocks(lambda: iter([X[:15], X[15:]]))):
        np.testing.assert_allclose(joined(fit(stated, design, y)), reference, atol=3e-5)
    flat, wide, tight = (
        joined(fit(model(loss, rate, prior=prior), X, y)) for prior in (None, bd.Normal(1e5), bd.Normal(1e-4, mean=2.0))
    )
    np.testing.assert_allclose(wide, flat, atol=1e-4)
    np.testing.assert_allclose(tight @ AT, 2.0, atol=1e-3)
    assert abs(reference - flat).max() > 1e-3


@BY_LOSS
def test_columns_moved_by_a_constant_have_the_same_weights(loss, y):
    here, there = (fit(model(loss, 0.0), design, y) for design in (X, X + 7.0))
    np.testing.assert_allclose(here.weight, there.weight, atol=1e-5)


def test_learnt_rates_and_leave_one_out_take_it():
    prior = bd.Normal(0.05, mean=1.0)
    stated = bd.Model(intercept_prior=prior, rates=bd.PerFeature(bd.Beta(1, 3)))
    found = bd.fit(stated, X, LABELS)
    assert abs(found.weight @ X.mean(axis=0) + found.intercept - 1.0) < 0.2
    from bayesdrop.designs import as_design
    from bayesdrop.fitting.objective.centring import centre_problem
    from bayesdrop.fitting.objective.leave_one_out import left_out_scores
    from bayesdrop.fitting.problems.block import fit_block

    stated = model(bd.Squared())
    rate_map = stated.bind(list("abc"))
    inner = centre_problem(stated, as_design(X), np.ones(40), rate_map, list("abc")).model
    block = fit_block(inner, as_design(X), rate_map, NUMBERS[:, None], np.ones(40), TIGHT)
    mean, _ = left_out_scores(block.energy, block.weights, block.mean, block.var)
    for i in (0, 5):
        part = np.arange(40) != i
        alone = fit_block(inner, as_design(X[part]), rate_map, NUMBERS[part, None], np.ones(39), TIGHT).weights[:, 0]
        np.testing.assert_allclose(mean[i, 0], X[i] @ alone[:3] + alone[3], atol=1e-8)


def test_it_is_stored_and_printed():
    stated = model(bd.Squared())
    assert rebuild(describe(stated)) == stated
    assert "intercept_prior=Normal(scale=0.3, relative=False, mean=-1.0)" in repr(stated)
    assert "intercept_prior=None" in repr(bd.Model())


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: bd.Model(intercept_prior=bd.Laplace(1.0)), TypeError, "intercept_prior: expected a normal prior"),
        (lambda: bd.Model(intercept_prior=2.5), TypeError, "intercept_prior: expected a normal prior"),
        (lambda: bd.Model(intercept_prior=bd.Normal([1.0, 2.0])), ValueError, "one standard deviation and"),
        (lambda: bd.Model(intercept_prior=bd.Normal({"a": 1.0})), ValueError, "one standard deviation and"),
        (lambda: bd.Model(intercept_prior=bd.Normal(1.0, relative=True)), ValueError, "one standard deviation and"),
        (lambda: bd.Model(intercept_prior=bd.Normal(bd.HalfNormal())), ValueError, "one standard deviation and"),
        (lambda: bd.Model(intercept_prior=PRIOR, fit_intercept=False), ValueError, "model has no intercept"),
        (lambda: bd.fit(model(bd.Softmax()), X, np.arange(40) % 3), ValueError, "intercept_prior: bd.Softmax"),
        (lambda: bd.variational(model(bd.Logistic(), 0.2), X, LABELS), ValueError, "variational Bayes has a flat"),
    ],
)  # fmt: skip
def test_what_takes_no_such_prior_says_so(make, error, message):
    with pytest.raises(error, match=message):
        make()
