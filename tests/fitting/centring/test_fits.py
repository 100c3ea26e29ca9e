"""Noise about a centre in fits: every mask written out, and the fit to shifted and scaled columns."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

import bayesdrop as bd

MEAN, ZERO = bd.Dropout(centre="mean"), bd.Dropout(centre=None)
RELATIVE = bd.Normal(0.7, relative=True)
CLASSIFIERS = [bd.DropoutLogisticRegression, bd.DropoutSVC]


def test_the_optimum_is_that_of_the_energy_with_every_mask(far, enumerated):
    """``½|w|² + C Σ E ½(y − s)²``, the expectation a sum over 2³ masks, minimised by BFGS."""
    X, y = far
    y = y + 0.1 * X[:, 0]
    centre, rate, C = np.array([11.0, -38.0, 0.5]), np.array([0.3, 0.1, 0.5]), 0.2

    def energy(w):
        score, chance = enumerated(X, w[:3], w[3] - w[:3] @ centre, centre, rate)
        return 0.5 * w[:3] @ w[:3] + 0.5 * C * np.sum((y[:, None] - score) ** 2 @ chance)

    found = minimize(energy, np.zeros(4), options={"gtol": 1e-9}).x
    model = bd.DropoutRidge(rate, C=C, noise=bd.Dropout(centre=centre)).fit(X, y)
    np.testing.assert_allclose(model.coef_, found[:3], atol=1e-6)
    np.testing.assert_allclose(model.intercept_, found[3] - found[:3] @ centre, atol=2e-5)
    score, chance = enumerated(X, model.coef_, model.intercept_, centre, rate)
    np.testing.assert_allclose(model.predict(X), score @ chance, rtol=1e-12)
    moments, weights = model._score_moments(X)
    np.testing.assert_allclose(moments.scores(weights)[1][:, 0], (score**2) @ chance - (score @ chance) ** 2, rtol=1e-9)


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("rates", [0.3, None], ids=["fixed", "learnt"])
def test_relative_prior_and_centre_are_standardised_columns(kind, rates, far):
    X, y = far
    weight = np.where(np.arange(60) % 3 == 0, 2.0, 1.0)
    mean = weight @ X / weight.sum()
    sd = np.sqrt(weight @ (X - mean) ** 2 / weight.sum())
    raw = kind(rates, noise=MEAN, weight_prior=RELATIVE, tol=1e-13).fit(X, y, weight)
    plain = kind(rates, noise=ZERO, weight_prior=bd.Normal(0.7), tol=1e-13).fit((X - mean) / sd, y, weight)
    np.testing.assert_allclose(raw.coef_ * sd, plain.coef_, atol=2e-6)
    np.testing.assert_allclose(raw.intercept_ + raw.coef_ @ mean, plain.intercept_, atol=2e-6)
    np.testing.assert_allclose(raw.rates_, plain.rates_, atol=1e-9)
    # The scores of held-out rows are those of loose fits.
    error = 2e-3 if kind is bd.DropoutSVC and rates is None else 2e-6
    np.testing.assert_allclose(raw.predict_proba(X), plain.predict_proba((X - mean) / sd), atol=error)
    np.testing.assert_allclose(raw.centre_, mean, rtol=1e-12)
    assert plain.centre_ is None


def test_entries_at_the_mean_are_not_occurrences():
    """The mean of 0.1, 0.1 and 0.1 is not 0.1 in binary; what lies at it but for rounding has no sign."""
    X = np.array([[0.1, 5.0], [0.1, 6.0], [0.1, 7.0], [0.4, 9.0], [0.4, 8.0], [0.4, 7.0]] * 10)
    shift = bd.fit(bd.Model(noise=bd.Dropout(centre=[0.1 + 1e-17, 7.0])), X, np.tile([0, 1, 0, 1, 1, 0], 10))
    assert shift.rate_posterior.occurrences.tolist() == [30.0, 40.0]


def test_auto_centres_what_is_far_from_zero_and_nothing_else(far):
    X, y = far
    fit = bd.fit(bd.Model(), X, y)
    np.testing.assert_allclose(fit.centre, [X[:, 0].mean(), X[:, 1].mean(), 0.0], rtol=1e-13)
    assert "noise about a centre in 2 of 3 columns" in str(fit)
    assert fit.to_dataset()["centre"].dims == ("feature",)
    # A fit about given numbers is the fit to shifted columns.
    given = bd.fit(bd.Model(noise=ZERO), X - fit.centre, y)
    np.testing.assert_allclose(fit.weight, given.weight, atol=1e-8)
    np.testing.assert_allclose(fit.intercept, given.intercept - given.weight @ fit.centre, atol=1e-6)
    near = X - X.mean(axis=0)
    for model, rows in (
        (bd.Model(rates=bd.Fixed(0.0)), X),
        (bd.Model(), near),
        (bd.Model(), sparse.csr_array(near)),
        (bd.Model(noise=bd.GaussianNoise(0.1)), X),
    ):
        found = bd.fit(model, rows, y)
        assert found.centre is None
        assert "centre" not in found.to_dataset()
        assert "about a centre" not in str(found)


def test_without_noise_nothing_changes(far):
    X, y = far
    kinds = (ZERO, MEAN, bd.Dropout())
    fits = [bd.fit(bd.Model(noise=noise, rates=bd.Fixed(0.0)), X, y) for noise in kinds]
    for other in fits[1:]:
        assert np.array_equal(other.weight, fits[0].weight)
        assert other.intercept == fits[0].intercept


def test_rows_that_go_missing_as_zeros_keep_noise_about_zero(far):
    X, y = far
    assert bd.DropoutSVC(corrupted_inputs=True).fit(X, y).centre_ is None
    assert bd.DropoutSVC(noise=MEAN, corrupted_inputs=True).fit(X, y).centre_ is not None


def test_multiplicative_noise_about_the_mean(far):
    X, y = far
    mean = X.mean(axis=0)
    raw = bd.DropoutSVC(noise=bd.MultiplicativeNoise(0.5, centre="mean"), tol=1e-12).fit(X, y)
    plain = bd.DropoutSVC(noise=bd.MultiplicativeNoise(0.5, centre=None), tol=1e-12).fit(X - mean, y)
    np.testing.assert_allclose(raw.coef_, plain.coef_, atol=1e-6)
    np.testing.assert_allclose(raw.decision_function(X), plain.decision_function(X - mean), atol=1e-6)


@pytest.mark.parametrize(
    "settings",
    [{"rates": bd.PerFeature()}, {"multiclass": "softmax", "rates": 0.3}],
    ids=["one against the rest", "joint"],
)
def test_several_classes(settings, far):
    X, _ = far
    y = np.digitize(X[:, 0], [11.0, 13.0])
    mean = X.mean(axis=0)
    raw = bd.DropoutLogisticRegression(noise=MEAN, tol=1e-13, **settings).fit(X, y)
    plain = bd.DropoutLogisticRegression(noise=ZERO, tol=1e-13, **settings).fit(X - mean, y)
    np.testing.assert_allclose(raw.coef_, plain.coef_, atol=1e-6)
    np.testing.assert_allclose(raw.predict_proba(X), plain.predict_proba(X - mean), atol=1e-6)
    # Rows that cannot be shifted have the same moments, by the other formula.
    for rows in (sparse.csr_array(X), bd.Blocks([X[:25], X[25:]])):
        np.testing.assert_allclose(raw.predict_proba(rows), raw.predict_proba(X), atol=1e-7)
        np.testing.assert_allclose(raw.decision_function(rows), raw.decision_function(X), atol=1e-7)


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_probabilities_are_averages_over_the_masks_about_the_centre(kind, unbiased, far, enumerated):
    """``x̃ = c + α(x − c)``, each mask written out: dense rows, and those that are shifted a few at a time."""
    X, y = far
    rate = np.array([0.3, 0.1, 0.5])
    model = kind(rate, noise=bd.Dropout(unbiased, centre="auto")).fit(X, y)
    np.testing.assert_allclose(model.centre_, [X[:, 0].mean(), X[:, 1].mean(), 0.0], rtol=1e-13)
    kept = 1 / (1 - rate) if unbiased else np.ones(3)
    rows = model.centre_ + kept * (X - model.centre_)
    score, chance = enumerated(rows, model.coef_[0], model.intercept_[0], model.centre_, rate)
    C = model.C_ if kind is bd.DropoutSVC else model.C  # chosen by default
    terms = model._loss().probability(score, C)
    for given in (X, sparse.csr_array(X), bd.Blocks([X[:25], X[25:]])):
        np.testing.assert_allclose(model.predict_proba(given)[:, 1], terms @ chance, rtol=1e-9)
    clean = model.set_params(corrupted_inputs=True)
    for given in (X, sparse.csr_array(X), bd.Blocks([X[:25], X[25:]])):
        plain = model._loss().probability(X @ model.coef_[0] + model.intercept_[0], C)
        np.testing.assert_allclose(clean.predict_proba(given)[:, 1], plain, rtol=1e-9)


def test_unlabelled_rows_and_warm_starts(far):
    X, y = far
    more = X[::2] + 0.1
    mean = X.mean(axis=0)
    raw = bd.DropoutLogisticRegression(0.3, noise=MEAN, tol=1e-13).fit(X, y, unlabelled=more)
    plain = bd.DropoutLogisticRegression(0.3, noise=ZERO, tol=1e-13).fit(X - mean, y, unlabelled=more - mean)
    np.testing.assert_allclose(raw.coef_, plain.coef_, atol=1e-6)
    raw.set_params(warm_start=True).fit(X, y, unlabelled=more)
    assert raw.n_iter_ <= 2
    np.testing.assert_allclose(raw.coef_, plain.coef_, atol=1e-6)


def test_path_and_cross_validation_centre_each_fit(far):
    X, y = far
    path = bd.RatePath(bd.DropoutSVC(tol=1e-11), [0.0, 0.4]).fit(X, y)
    alone = bd.DropoutSVC(0.4, tol=1e-11).fit(X, y)
    np.testing.assert_allclose(path.coefs_[1], alone.coef_, atol=1e-5)
    np.testing.assert_allclose(path.intercepts_[1], alone.intercept_, atol=1e-3)
    chosen = bd.DropoutSVCCV(rates=[0.4], Cs=[1.0], cv=2).fit(X, y)
    np.testing.assert_allclose(chosen.centre_, alone.centre_)
    np.testing.assert_allclose(chosen.coef_, alone.coef_, atol=1e-3)
    np.testing.assert_allclose(chosen.intercept_, alone.intercept_, atol=1e-3)


def test_blocks_of_rows_keep_the_centre_they_begin_with(far):
    X, y = far
    centre = np.array([12.0, -40.0, 0.0])
    raw = bd.DropoutLogisticRegression(0.3, noise=bd.Dropout(centre=centre))
    plain = bd.DropoutLogisticRegression(0.3, noise=ZERO)
    for rows in (slice(0, 30), slice(30, 60)):
        raw.partial_fit(X[rows], y[rows], classes=[0, 1])
        plain.partial_fit(X[rows] - centre, y[rows], classes=[0, 1])
    np.testing.assert_allclose(raw.coef_, plain.coef_, atol=1e-10)
    np.testing.assert_allclose(raw.intercept_, plain.intercept_ - plain.coef_ @ centre, atol=1e-8)
    begun = bd.DropoutLogisticRegression(0.3, noise=MEAN).fit(X, y)
    before = begun.centre_.copy()
    begun.partial_fit(X[:20] + 1, y[:20])
    np.testing.assert_array_equal(begun.centre_, before)
    with pytest.raises(ValueError, match="partial_fit sees a block"):
        bd.DropoutLogisticRegression(0.3, noise=MEAN).partial_fit(X, y, classes=[0, 1])


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_a_centre_has_a_number_for_each_column(storage, far):
    X, y = far
    with pytest.raises(ValueError, match="centre: expected 3 numbers"):
        bd.fit(bd.Model(noise=bd.Dropout(centre=[1.0, 2.0])), storage(X), y)


def test_refusals_of_what_knows_noise_about_zero_only(far):
    X, y = far
    model = bd.Model(noise=MEAN, rates=bd.Fixed(0.2))
    for call in (
        lambda: bd.WeightsBlock(model, X, y),
        lambda: bd.sample_latent(model, X, y, draws=5, tune=5),
        lambda: bd.LatentDropoutSVC(0.2, noise=MEAN).fit(X, y),
        lambda: bd.baselines.MCFQuadratic(0.2, noise=MEAN).fit(X, y),
        lambda: bd.fit(bd.Model(noise=MEAN, fit_intercept=False), X, y),
    ):
        with pytest.raises(ValueError, match="^centre: "):
            call()
    for call in (
        lambda: bd.Normal(1.0, relative=True).precision(3),
        lambda: bd.DropoutSVC(0.2, weight_prior=RELATIVE).partial_fit(X, y, classes=[0, 1]),
    ):
        with pytest.raises(ValueError, match="Normal relative: expected absolute scales"):
            call()
    with pytest.raises(TypeError, match="Normal relative: expected True or False"):
        bd.Normal(1.0, relative="yes")
