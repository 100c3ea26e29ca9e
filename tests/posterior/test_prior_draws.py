"""Draws of the prior in every form of data that ``bd.sample`` takes, and of stated means and intercepts.

Moments of 20,000 draws are compared at 5 standard errors, a false alarm of 6e-7 each.
"""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import bayesdrop as bd
from bayesdrop.description import required_model
from bayesdrop.posterior.arviz_groups.groups import read_attributes
from bayesdrop.posterior.problem import Problem

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2)) * [1.0, 3.0] + [4.0, 0.0]
ROWS = 1.0 + np.arange(30) % 3
TABLE = pd.DataFrame(X, columns=["age", "dose"]).assign(
    site=["n", "s", "e"] * 10,
    ill=["no", "yes"] * 15,
    days=np.arange(1.0, 31.0),
    kind=list("abc") * 10,
    hits=3,
    misses=2,
)
MEAN, SCALE = np.array([1.0, -0.5]), np.array([0.3, 0.6])
MODEL = bd.Model(
    rates=bd.Fixed(0.2), weight_prior=bd.Normal({"age": 0.3, "dose": 0.6}, mean={"age": 1.0, "dose": -0.5}),
    intercept_prior=bd.Normal(0.7, mean=-2.0),
)  # fmt: skip
FRAME = TABLE[["age", "dose"]]


def prior(*arguments, **options):
    return bd.groups.dataset(bd.prior_draws(*arguments, **({"draws": 20_000, "seed": 1} | options)), "prior")


def assert_moments(values, mean, sd):
    error = sd / np.sqrt(20_000)
    assert np.all(abs(values.mean(axis=0) - mean) < 5 * error)
    assert np.all(abs(values.std(axis=0) - sd) < 5 * error / np.sqrt(2))


@pytest.mark.parametrize("weights", [None, ROWS])
def test_weights_and_the_intercept_at_the_means_are_as_stated(weights):
    drawn = prior(MODEL, FRAME, sample_weight=weights)
    weight, intercept = drawn["weight"].values[0], drawn["intercept"].values[0]
    assert_moments(weight, MEAN, SCALE)
    level = intercept + weight @ np.average(X, axis=0, weights=weights)
    assert_moments(level[:, None], -2.0, 0.7)
    assert abs(np.corrcoef(level, weight[:, 0])[0, 1]) < 5 / np.sqrt(20_000)


def test_a_learnt_scale_is_about_the_mean():
    stated = bd.Model(
        rates=bd.Fixed(0.2), fit_intercept=False, weight_prior=bd.Normal(bd.HalfNormal(1.0), mean=[1.0, -0.5])
    )
    drawn = prior(stated, X)
    away = (drawn["weight"].values[0] - MEAN) / drawn["weight_scale"].values[0][:, None]
    assert_moments(away, 0.0, 1.0)


def test_every_form_of_the_same_rows_has_the_same_draws():
    forms = [
        prior(MODEL, FRAME, draws=10),
        prior(MODEL, X, feature_names=["age", "dose"], draws=10),
        prior(MODEL, csr_array(X), feature_names=["age", "dose"], draws=10),
        prior(MODEL, X, TABLE.ill, feature_names=["age", "dose"], draws=10),
        prior(MODEL, "ill ~ age + dose", TABLE, draws=10),
        prior(MODEL, "~ age + dose", TABLE.to_dict("list"), draws=10),
    ]
    for drawn in forms[1:]:
        for name in ("weight", "intercept"):
            np.testing.assert_allclose(drawn[name], forms[0][name], rtol=1e-12)


def test_a_formula_alone_has_the_default_model_of_its_response():
    stated = bd.Model(fit_intercept=False)
    alone, given = (
        prior("ill ~ 0 + age + site", TABLE, draws=10),
        prior(stated, "ill ~ 0 + age + site", TABLE, draws=10),
    )
    np.testing.assert_array_equal(alone["weight"], given["weight"])
    with pytest.raises(ValueError, match="intercept_prior=bd.Normal"):
        prior("ill ~ age", TABLE)


@pytest.mark.parametrize("form", ["ill ~ 1", "days ~ 1", "hits + misses ~ 1", "kind ~ 1"])
def test_an_intercept_alone_has_draws(form):
    tree = bd.prior_draws(form, TABLE, draws=400, intercept_scale=2.0)
    level = bd.groups.dataset(tree, "prior")["intercept"].values[0]
    spread = 2.0 * np.sqrt(2 / 3) if form.startswith("kind") else 2.0  # intercepts of three classes sum to 0
    assert np.std(level) == pytest.approx(spread, rel=5 / np.sqrt(800))
    assert bd.groups.dataset(tree, "prior_predictive")["y"].shape == (1, 400, 30)


def test_options_of_a_formula_reach_its_encoding():
    holes = TABLE.assign(age=TABLE.age.where(TABLE.index > 2))
    tree = bd.prior_draws(
        bd.Model(fit_intercept=False), "ill ~ 0 + age + site", holes, draws=5, dropna=True, sample_weight=ROWS,
        offset=np.arange(30.0), full_rank=True,
    )  # fmt: skip
    assert bd.groups.dataset(tree, "prior_predictive")["y"].shape == (1, 5, 27)
    np.testing.assert_array_equal(bd.groups.dataset(tree, "constant_data")["offset"], np.arange(3.0, 30.0))
    full, every = (
        prior(bd.Model(intercept_prior=bd.Normal(1.0)), "~ age + site", TABLE, draws=5, full_rank=rank)
        for rank in (True, False)
    )
    assert (full.sizes["feature"], every.sizes["feature"]) == (3, 4)
    with pytest.raises(ValueError, match="full_rank: it says how a formula is encoded, and there is none"):
        prior(MODEL, FRAME, full_rank=True)


def test_responses_give_classes_and_trials():
    softmax = bd.Model(bd.Softmax(), rates=bd.Fixed(0.1), fit_intercept=False)
    for arguments in ((softmax, X, TABLE.kind), (softmax, "kind ~ 0 + age + dose", TABLE)):
        assert prior(*arguments, draws=5)["class"].values.tolist() == ["a", "b", "c"]
    counts = bd.Model(bd.Binomial(), rates=bd.Fixed(0.1), fit_intercept=False)
    for arguments in ((counts, X, TABLE[["hits", "misses"]].to_numpy()), (counts, "hits + misses ~ 0 + age", TABLE)):
        y = bd.groups.dataset(bd.prior_draws(*arguments, draws=200), "prior_predictive")["y"]
        assert (int(y.min()), int(y.max())) == (0, 5)


def test_counts_of_weighted_rows_are_those_of_a_prior_of_relative_strength():
    ones = (RNG.random((30, 2)) < 0.5) * 1.0
    relative = bd.Beta.from_mode(0.1, relative_strength=2.0)
    stated = bd.Model(rates=bd.PerFeature(relative), fit_intercept=False)
    law = relative.law(ROWS @ ones)
    assert_moments(prior(stated, ones, sample_weight=ROWS)["rate"].values[0], law.mean(), np.sqrt(
        law.a * law.b / ((law.a + law.b) ** 2 * (law.a + law.b + 1))
    ))  # fmt: skip


def assert_stated_as_sampled(tree, model, *data, **options):
    """The prior that ``bd.sample`` states for the same rows: scales, centre, and place of the intercept."""
    sampled = Problem.of(model, *data, **options).centring.original_model
    stated = required_model(read_attributes(tree), "bd.prior_draws", "bd.groups.load")
    p = np.shape(data[0])[1]
    np.testing.assert_allclose(stated.weight_prior.precision(p), sampled.weight_prior.precision(p))
    np.testing.assert_allclose(stated.intercept_prior.place, sampled.intercept_prior.place)
    assert repr(stated.loss) == repr(sampled.loss)
    if sampled.noise.centre is not None:
        np.testing.assert_allclose(stated.noise.centre, sampled.noise.centre)


@pytest.mark.parametrize("weights", [None, ROWS])
def test_the_unit_of_numbers_is_their_spread_about_the_offset(weights):
    stated = bd.Model(bd.Squared(), rates=bd.Fixed(0.0), intercept_prior=bd.Normal(1.0))
    table = TABLE.assign(known=100.0 * RNG.normal(size=30))
    table["size"] = table.known + X[:, 0] + RNG.normal(size=30)
    options = {"offset": table.known.to_numpy(), "sample_weight": weights}
    for arguments in (
        (stated, FRAME, table["size"]),
        (stated, FRAME, table[["size"]]),
        (stated, "size ~ age + dose", table),
        (stated, "size ~ age + dose + offset(known)", table),
    ):
        given = options if "offset" not in arguments[1] else {"sample_weight": weights}
        tree = bd.prior_draws(*arguments, draws=10, **given)
        assert_stated_as_sampled(tree, stated, X, table["size"].to_numpy(), **options)
        sd = np.sqrt(np.cov(table["size"] - table.known, aweights=weights, ddof=0))
        np.testing.assert_allclose(bd.priors_table(*arguments, **given).loc[["age", "dose"], "sd"], sd)


@pytest.mark.parametrize("weights", [None, ROWS])
def test_pairs_of_counts_weigh_their_rows_by_trials(weights):
    ones = np.c_[(RNG.random(30) < 0.5) * 1.0, X[:, 0]]
    pairs = np.c_[RNG.integers(1, 9, 30), RNG.integers(1, 9, 30)] * np.where(np.arange(30) < 3, 50, 1)[:, None]
    relative = bd.Beta.from_mode(0.1, relative_strength=2.0)
    stated = bd.Model(
        bd.Binomial(), noise=bd.Dropout(centre="mean"), rates=bd.PerFeature(relative),
        weight_prior=bd.Normal(1.0, relative=True), intercept_prior=bd.Normal(1.0),
    )  # fmt: skip
    tree = bd.prior_draws(stated, ones, pairs, sample_weight=weights, draws=20_000)
    assert_stated_as_sampled(tree, stated, ones, pairs, sample_weight=weights)
    trials = pairs.sum(axis=1) * (1.0 if weights is None else weights)
    centred = ones - np.average(ones, axis=0, weights=trials)
    spread = np.sqrt(np.average(centred**2, axis=0, weights=trials))
    table = bd.priors_table(stated, ones, pairs, sample_weight=weights)
    np.testing.assert_allclose(table.sd.iloc[:2], 1 / spread)
    law = relative.law(trials @ (centred != 0))
    assert_moments(bd.groups.dataset(tree, "prior")["rate"].values[0], law.mean(), np.sqrt(
        law.a * law.b / ((law.a + law.b) ** 2 * (law.a + law.b + 1))
    ))  # fmt: skip
    with pytest.raises(ValueError, match="expected a trial in some row"):
        bd.prior_draws(stated, ones, 0 * pairs)
    with pytest.raises(ValueError, match="y: expected 30 values"):
        bd.prior_draws(stated, ones, pairs[:5])
    with pytest.raises(ValueError, match="X: expected at least one row"):
        bd.prior_draws(stated, ones[:0], intercept_scale=1.0)
