"""Offsets: known parts of the scores, held to identities in which they are something else that was there before."""

import warnings

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd

TIGHT = bd.Newton(tol=1e-13)
LOSSES = {
    "logistic": bd.Logistic(),
    "gaussian logistic": bd.Logistic(expectation="gaussian"),
    "hinge": bd.Hinge(),
    "poisson": bd.Poisson(),
    "negative binomial": bd.NegativeBinomial(3.0),
    "binomial": bd.Binomial(6),
    "squared": bd.Squared(),
    "epsilon": bd.EpsilonInsensitive(0.3),
    "quantile": bd.Quantile(0.3),
}
NUMBERS = ["squared", "epsilon", "quantile"]
COUNTS = ["poisson", "negative binomial", "binomial"]
AUGMENTED = [name for name in LOSSES if name not in ("gaussian logistic", "poisson")]


def data(name, n=80, seed=0):
    """Features, responses and offsets."""
    rng = np.random.default_rng(seed)
    X, offset = rng.normal(size=(n, 3)), rng.normal(size=n)
    score = offset + X @ [0.8, -0.5, 0.0] + 0.3
    if name in NUMBERS:
        return X, score + rng.normal(size=n), offset
    if name in COUNTS:
        return X, np.minimum(rng.poisson(np.exp(np.clip(score, -5, 1.5))), 6).astype(float), offset
    return X, np.where(score + rng.logistic(size=n) > 0, "yes", "no"), offset


def same(one, other, shift=0.0, rtol=2e-5):
    np.testing.assert_allclose(one.weight, other.weight, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(one.intercept, other.intercept + shift, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(one.rates, other.rates, rtol=rtol)


def energy(model, X, y, offset, weights):
    """``U`` from its definition, of one column of weights whose last is the intercept."""
    noise = model.noise.coefficients(np.full(X.shape[1], 0.2))
    w, b = weights[:-1], weights[-1]
    mean = offset + X @ (noise.gain * w) + b
    var = X**2 @ (noise.quadratic * w**2)
    if model.loss.exponential:
        # E e^s = e^{o + b} Π (η + (1 − η) e^{wx})
        log = offset + b + np.log(0.2 + 0.8 * np.exp(X * w)).sum(axis=1)
        var = 2 * (log - mean)
    return 0.5 * w @ w + model.C * model.loss.value(y, mean, var).sum()


@pytest.mark.parametrize("name", LOSSES)
def test_the_energy_is_flat_at_the_fit(name):
    X, y, offset = data(name)
    model = bd.Model(LOSSES[name], noise=bd.Dropout(centre=None), rates=bd.Fixed(0.2), C=0.7)
    fit = bd.fit(model, X, y, offset=offset, method=TIGHT)
    sign = y if y.dtype.kind == "f" else np.where(y == "yes", 1.0, -1.0)
    at, h = np.append(fit.weight, fit.intercept), 1e-5
    ends = [[energy(model, X, sign, offset, at + h * step) for step in (row, -row)] for row in np.eye(4)]
    slopes = np.diff(ends, axis=1)[:, 0] / (-2 * h)
    # Of a difference quotient of a sum of 80 terms, against slopes of order 10 elsewhere.
    np.testing.assert_allclose(slopes, 0, atol=2e-5)


@pytest.mark.parametrize("name", LOSSES)
def test_a_constant_offset_is_the_intercept(name):
    X, y, _ = data(name)
    rates = bd.Fixed(0.2) if name in NUMBERS else bd.PerFeature(bd.Beta(2, 2))
    model = bd.Model(LOSSES[name], rates=rates)
    same(bd.fit(model, X, y, offset=0.7, method=TIGHT), bd.fit(model, X, y, method=TIGHT), -0.7)


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_of_numbers_it_is_taken_off_the_response(name, kind, rate):
    X, y, offset = data(name)
    model = bd.Model(LOSSES[name], noise=bd.Dropout(centre=None), rates=bd.Fixed(rate))
    known = bd.fit(model, kind(X), y, offset=offset, method=TIGHT)
    less = bd.fit(model, kind(X), y - offset, method=TIGHT)
    # Where the noise rounds no kink the minimum is flat to the tolerance.
    same(known, less, rtol=1e-4 if rate == 0 and name != "squared" else 1e-6)


@pytest.mark.parametrize("name", AUGMENTED)
def test_em_ends_where_newtons_method_does(name):
    X, y, offset = data(name)
    model = bd.Model(LOSSES[name], rates=bd.Fixed(0.3))
    one, other = (bd.fit(model, X, y, offset=offset, method=method) for method in (TIGHT, bd.EM(tol=1e-13)))
    same(one, other, rtol=1e-4)


@pytest.mark.parametrize("loss", ["hinge", "epsilon", "quantile"])
def test_the_dual_of_sparse_rows_without_noise(loss):
    X, y, offset = data(loss)
    X = np.where(np.abs(X) > 1.0, X, 0.0)
    model = bd.Model(LOSSES[loss], rates=bd.Fixed(0.0), C=0.3)
    dense, rows = (bd.fit(model, kind(X), y, offset=offset, method=TIGHT) for kind in (np.asarray, sparse.csr_array))
    np.testing.assert_allclose(rows.objective_trace[-1], dense.objective_trace[-1], rtol=1e-7)
    np.testing.assert_allclose(rows.weight, dense.weight, atol=1e-3)
    # The pull of the rows carries the weights: w = Xᵀ dual at precision 1.
    np.testing.assert_allclose(rows.weight, X.T @ rows.auxiliary.dual, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("rates", [bd.Fixed(0.0), bd.Fixed(0.3), bd.PerFeature(bd.Beta(2, 3))])
def test_exposure_is_a_weight_of_events_per_unit(rates):
    """Poisson: ``e^{log e + s} − y s = e (e^s − (y/e) s)``."""
    X, y, offset = data("poisson")
    model = bd.Model(bd.Poisson(), noise=bd.Dropout(centre=None), rates=rates)
    fit = bd.fit(model, X, y, offset=offset, method=TIGHT)
    exposure = np.exp(offset)
    one = bd.DropoutPoissonRegressor(rates, noise=bd.Dropout(centre=None), tol=1e-13)
    one.fit(X, y / exposure, sample_weight=exposure)
    np.testing.assert_allclose(fit.weight, one.coef_, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(fit.rates, one.rates_, rtol=1e-6)
    np.testing.assert_allclose(fit.predict(X, offset=offset).mean, exposure * one.predict(X), rtol=1e-5)


def test_a_sum_of_counts_has_the_logarithm_of_their_number_for_offset():
    X, _, _ = data("poisson", 20)
    rng = np.random.default_rng(1)
    times = rng.integers(1, 5, len(X))
    rows = np.repeat(np.arange(len(X)), times)
    y = rng.poisson(np.exp(0.4 * X[rows, 0])).astype(float)
    model = bd.Model(bd.Poisson(), noise=bd.Dropout(centre=None), rates=bd.PerFeature(bd.Beta(2, 2)))
    each = bd.fit(model, X[rows], y, method=TIGHT)
    summed = bd.fit(model, X, np.bincount(rows, y), offset=np.log(times), method=TIGHT)
    same(summed, each)


@pytest.mark.parametrize("form", ["augmentation", "gaussian"])
def test_learnt_rates_of_a_large_dispersion_are_those_of_poisson_counts(form):
    """Of unequal exposures, to which a feature is close."""
    X, y, offset = data("poisson", 200)
    X[:, 1] = np.abs(offset + 0.3 * X[:, 1])
    poisson, negative = (
        bd.fit(bd.Model(loss, rates=bd.PerFeature(bd.Beta(1, 1))), X, y, offset=offset)
        for loss in (bd.Poisson("gaussian"), bd.NegativeBinomial(1e6, form))
    )
    np.testing.assert_allclose(negative.rates, poisson.rates, atol=2e-3)


@pytest.mark.parametrize("cv", ["loo", 3])
def test_strengths_are_chosen_with_it(cv):
    X, y, offset = data("logistic")
    model = bd.Model(rates=bd.Tuned(cv=cv))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, moved = (bd.fit(model, X, y, offset=known).selection for known in (None, -1.3))
        other = bd.fit(model, X, y, offset=offset).selection
    for one, two in zip(plain.candidates, moved.candidates, strict=True):
        # Fits on folds are brought to an accuracy at which losses are right to 0.002 of themselves.
        np.testing.assert_allclose(one.losses, two.losses, rtol=4e-3)
    # Scores of held-out rows know their offset, of which the responses were made.
    assert other.chosen.loss < plain.chosen.loss - 0.02


@pytest.mark.default_cases("logistic", "hinge")
@pytest.mark.parametrize("name", ["logistic", "poisson", "hinge"])
def test_blocks_are_fitted_as_rows_in_memory(name):
    X, y, offset = data(name)
    model = bd.Model(LOSSES[name], noise=bd.Dropout(centre=None), rates=bd.PerFeature(bd.Beta(2, 2)))
    blocks = bd.fit(model, bd.Blocks([X[:30], X[30:]]), y, offset=offset, method=TIGHT)
    whole = bd.fit(model, X, y, offset=offset, method=TIGHT)
    same(blocks, whole)
    one, other = (whole.predict(rows, offset=offset).mean for rows in (X, bd.Blocks([X[:30], X[30:]])))
    np.testing.assert_allclose(one, other, rtol=1e-12)


def test_the_auxiliary_variables_are_those_of_the_whole_score():
    X, y, offset = data("hinge")
    found = bd.fit(bd.Model(bd.Hinge(), rates=bd.Fixed(0.3)), X, y, offset=offset).auxiliary
    np.testing.assert_allclose(found.omega, 0.5 / np.sqrt((1 - found.target * found.mean) ** 2 + found.var))
    fit = bd.fit(bd.Model(bd.Logistic(), rates=bd.Fixed(0.0)), X, y, offset=offset)
    np.testing.assert_allclose(fit.auxiliary.mean, offset + X @ fit.weight + fit.intercept)


def test_predictions_add_that_of_new_rows():
    X, y, offset = data("logistic")
    fit = bd.fit(bd.Model(rates=bd.Fixed(0.0)), X, y, offset=offset)
    chance = 1 / (1 + np.exp(-(offset + X @ fit.weight + fit.intercept)))
    np.testing.assert_allclose(bd.predict(fit, X, offset=offset).mean, chance)
    np.testing.assert_allclose(fit.predict(X, offset=offset, corrupted_inputs=True).mean, chance)
    own = np.where(y == "yes", chance, 1 - chance)
    np.testing.assert_allclose(bd.elpd(fit, X, y, offset=offset).pointwise, np.log(own))
    assert bd.weights_table(fit)["sd"].notna().all()
    effect = bd.marginal_effects(fit, X, offset=offset)["effect"]
    np.testing.assert_allclose(effect, np.mean(chance * (1 - chance)) * fit.weight, rtol=1e-4)


@pytest.mark.slow
def test_numbers_are_predicted_with_it():
    X, y, offset = data("squared")
    fit = bd.fit(bd.Model(bd.Squared(), rates=bd.Fixed(0.2)), X, y, offset=offset)
    one, other = fit.predict(X, offset=offset), fit.predict(X, offset=0.0)
    for name in ("mean", "response_low", "response_high"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name) + offset, rtol=1e-9)


def test_predictions_without_it_are_refused():
    X, y, offset = data("poisson")
    fit = bd.fit(bd.Model(bd.Poisson(), rates=bd.Fixed(0.1)), X, y, offset=offset)
    for call in (
        lambda: fit.predict(X),
        lambda: bd.predict(fit, X),
        lambda: bd.elpd(fit, X, y),
        lambda: bd.marginal_effects(fit, X),
        lambda: fit.predict(bd.Blocks([X])),
    ):
        with pytest.raises(ValueError, match=r"offset: expected a number for each row, got none.*offset=0\.0"):
            call()
    with pytest.raises(ValueError, match=r"offset: expected 80 numbers .* got shape \(3,\)"):
        fit.predict(X, offset=[1.0, 2.0, 3.0])


@pytest.mark.slow
def test_files_keep_it(tmp_path):
    X, y, offset = data("poisson")
    fit = bd.fit(bd.Model(bd.Poisson(), rates=bd.PerFeature()), X, y, offset=offset)
    fit.save(tmp_path / "fit.nc")
    again = bd.Fit.load(tmp_path / "fit.nc")
    np.testing.assert_array_equal(again.offset, offset)
    with pytest.raises(ValueError, match="offset"):
        again.predict(X)
    np.testing.assert_array_equal(again.predict(X, offset=1.0).mean, fit.predict(X, offset=1.0).mean)
    assert bd.Fit.from_dataset(bd.fit(bd.Model(), X, y > 1).to_dataset()).offset is None


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        ([1.0, 2.0], r"4 numbers \(one per row\), or one for all rows, got shape \(2,\)"),
        (np.zeros((4, 1)), r"shape \(4, 1\)"),
        ([0.0, np.nan, 0.0, 0.0], "1 of 4 NaN or infinite"),
        (-np.inf, "exposure of 0"),
        (1.7e308, r"numbers in \[-1e\+100, 1e\+100\], .* got one of size 1.7e\+308"),
        ("log", "numbers"),
        (True, "numbers"),
    ],
)
@pytest.mark.parametrize("call", [bd.fit, bd.sample, bd.variational])
def test_what_is_no_offset_is_refused(call, offset, words):
    with pytest.raises(ValueError, match=f"offset: .*{words}"):
        call(bd.Model(), np.arange(4.0)[:, None], [0, 0, 1, 1], offset=offset)


@pytest.mark.parametrize("call", [bd.fit, bd.sample])
def test_a_score_for_each_class_takes_none(call):
    with pytest.raises(ValueError, match="offset: .*one score a row.*one class against the rest"):
        call(bd.Model(bd.Softmax()), np.arange(6.0)[:, None], [0, 0, 1, 1, 2, 2], offset=1.0)
    fit = bd.fit(bd.Model(bd.Softmax(), rates=bd.Fixed(0.1)), np.arange(6.0)[:, None] % 4, [0, 0, 1, 1, 2, 2])
    with pytest.raises(ValueError, match="offset: .*score for each class"):
        fit.predict([[0.0]], offset=1.0)
