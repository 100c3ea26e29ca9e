"""Fits under a prior about a mean: the closed form, an independent minimisation, and one answer of all solvers."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import bayesdrop as bd
from bayesdrop.fitting.solvers.preconditioners import Cholesky, Jacobi, Woodbury

RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 4)) + [0.0, 1.0, 0.0, 0.0]
NUMBERS = X @ [1.0, -0.5, 0.0, 2.0] + RNG.normal(size=50)
LABELS = NUMBERS > NUMBERS.mean()
COUNTS = RNG.poisson(np.exp(0.3 * X[:, 0]))
MEAN, SCALE = np.array([1.0, -2.0, 0.5, 0.0]), np.array([0.3, 0.2, 0.5, 1.0])
PRIOR = bd.Normal(SCALE, mean=MEAN)
TIGHT = {"tol": 1e-13}
LOSSES = [
    (bd.Squared(), NUMBERS),
    (bd.Logistic(), LABELS),
    (bd.Logistic("gaussian"), LABELS),
    (bd.Hinge(), LABELS),
    (bd.EpsilonInsensitive(0.1), NUMBERS),
    (bd.Quantile(0.3), NUMBERS),
    (bd.Poisson(), COUNTS),
    (bd.Poisson(expectation="exact"), COUNTS),
    (bd.NegativeBinomial(2.0), COUNTS),
]
BY_LOSS = pytest.mark.parametrize(("loss", "y"), LOSSES, ids=lambda value: repr(value)[:40])


def joined(fit):
    return np.append(fit.weight, fit.intercept)


def model(loss, rate=0.0, prior=PRIOR, **settings):
    return bd.Model(loss, bd.Dropout(centre=None), rates=bd.Fixed(rate), weight_prior=prior, C=0.7, **settings)


def test_ridge_about_a_mean_has_its_closed_form():
    M = np.column_stack([X, np.ones(50)])
    P = np.diag(np.append(SCALE**-2.0, 0.0))
    expected = np.linalg.solve(P + 0.7 * M.T @ M, P @ np.append(MEAN, 0.0) + 0.7 * M.T @ NUMBERS)
    fit = bd.fit(model(bd.Squared(variance=1.0)), X, NUMBERS)
    np.testing.assert_allclose(joined(fit), expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(fit.covariance, np.linalg.inv(P + 0.7 * M.T @ M), atol=1e-10)


@BY_LOSS
def test_without_noise_a_mean_is_an_offset(loss, y):
    about = bd.fit(model(loss), X, y, method=bd.Newton(**TIGHT))
    offset = bd.fit(model(loss, prior=bd.Normal(SCALE)), X, y, offset=X @ MEAN, method=bd.Newton(**TIGHT))
    np.testing.assert_allclose(joined(about), joined(offset) + np.append(MEAN, 0.0), atol=1e-6)
    assert abs(joined(about) - joined(bd.fit(model(loss, prior=bd.Normal(SCALE)), X, y))).max() > 0.1


@BY_LOSS
def test_all_solvers_and_storages_agree_under_noise(loss, y):
    reference = joined(bd.fit(model(loss, 0.3), X, y, method=bd.Newton(**TIGHT)))
    methods = [bd.Newton(preconditioner=kind, **TIGHT) for kind in (Cholesky(), Woodbury(), Jacobi())]
    if loss.augmented and not loss.exponential:
        methods.append(bd.EM(tol=1e-13, max_iter=3000))
    for method in methods:
        np.testing.assert_allclose(joined(bd.fit(model(loss, 0.3), X, y, method=method)), reference, atol=3e-5)
    blocks = bd.Blocks(lambda: iter([X[:20], X[20:]]))
    for design in (csr_array(X), blocks):
        fit = bd.fit(model(loss, 0.3), design, y, method=bd.Newton(**TIGHT))
        np.testing.assert_allclose(joined(fit), reference, atol=3e-5)


@pytest.mark.parametrize("loss", [bd.Hinge(), bd.EpsilonInsensitive(0.1)], ids=["hinge", "insensitive"])
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_fits_with_kinks_bound_what_is_left(loss, rate):
    """The bound from below, which ends such fits, is near the energy at the fit and below it at any weights."""
    from bayesdrop.designs import as_design
    from bayesdrop.fitting.problems.block import fit_block
    from bayesdrop.fitting.solvers.dual_problem import lower_bound

    target = (np.where(LABELS, 1.0, -1.0) if loss.binary else NUMBERS)[:, None]
    stated = model(loss, rate)
    rate_map = stated.bind(list("abcd"))
    fit = fit_block(stated, as_design(X), rate_map, target, np.ones(50), bd.Newton(tol=1e-9))
    least = fit.trace[-1, 0]
    for weights in (fit.weights, fit.weights + 0.3, np.zeros((5, 1))):
        bound = lower_bound(
            fit.energy, weights, *fit.energy.moments.scores(weights), np.full(1, 1e-3), try_other_weights=True
        )
        assert bound[0] <= least + 1e-9 * abs(least)
    bound = lower_bound(fit.energy, fit.weights, fit.mean, fit.var, np.full(1, 1e-5), try_other_weights=True)
    if rate:
        assert bound[0] > least * (1 - 1e-3)


def test_blocks_of_an_online_fit_come_to_the_fit_of_all_rows():
    ridge = bd.DropoutRidge(0.2, C=0.7, weight_prior=PRIOR, noise=bd.Dropout(centre=None))
    for part in (slice(0, 20), slice(20, 50)):
        ridge.partial_fit(X[part], NUMBERS[part])
    fit = bd.fit(model(bd.Squared(), 0.2), X, NUMBERS)
    np.testing.assert_allclose(np.append(ridge.coef_, ridge.intercept_), joined(fit), atol=1e-6)


def test_means_have_the_names_and_units_of_scales():
    table = pd.DataFrame(X, columns=list("abcd")).assign(kind=["u", "v"] * 25, y=NUMBERS)
    named, placed = (
        bd.fit(model(bd.Squared(), 0.1, bd.Normal(0.5, mean=mean)), "y ~ a + b + kind", table)
        for mean in ({"kind": 3.0, "a": -1.0}, [-1.0, 0.0, 3.0, 3.0])
    )
    np.testing.assert_array_equal(named.weight, placed.weight)
    spread = X.std(axis=0)
    in_units, given = bd.Normal(0.5, mean=MEAN, relative=True), bd.Normal(0.5 / spread, mean=MEAN / spread)
    by_units, by_numbers = (bd.fit(model(bd.Squared(), 0.1, prior), X, NUMBERS) for prior in (in_units, given))
    np.testing.assert_allclose(by_units.weight, by_numbers.weight, atol=1e-12)


def test_empty_columns_have_the_weights_of_their_prior():
    wide = np.column_stack([np.zeros((50, 2)), X])
    fit = bd.fit(model(bd.Squared(), 0.2, bd.Normal(1.0, mean=[3.0, -4.0, *MEAN])), wide, NUMBERS)
    np.testing.assert_allclose(fit.weight[:2], [3.0, -4.0], atol=1e-8)
    plain = bd.fit(model(bd.Squared(), 0.2, bd.Normal(np.full(6, 2.0))), wide, NUMBERS)
    np.testing.assert_array_equal(plain.weight[:2], 0.0)


@pytest.mark.parametrize(
    ("mean", "message"),
    [
        ({"z": 1.0}, "Normal mean: 'z' is not there; the columns are 'x0'"),
        ([1.0, 2.0], "Normal mean: expected one number or 4 of them"),
        (float("nan"), "Normal mean: expected finite numbers, got nan"),
        ([[1.0]], "Normal mean: expected one number or one per feature"),
        ({"x0": float("inf")}, r"Normal mean\['x0'\]: expected a finite number"),
    ],
)
def test_means_that_do_not_fit_are_refused(mean, message):
    with pytest.raises(ValueError, match=message):
        bd.fit(model(bd.Squared(), prior=bd.Normal(1.0, mean=mean)), X, NUMBERS)


def test_one_mean_of_all_classes_is_refused():
    with pytest.raises(ValueError, match="Normal mean: bd.Softmax.*sum to zero over the classes"):
        bd.fit(model(bd.Softmax(), 0.1), X, np.arange(50) % 3)
