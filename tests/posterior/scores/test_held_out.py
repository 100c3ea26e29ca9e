"""Scores of rows that were held out, against the scores of sampled rows and against closed forms."""

import inspect
import itertools

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import expit, logsumexp
from scipy.stats import norm
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut, PredefinedSplit, ShuffleSplit

import bayesdrop as bd
from bayesdrop.description import attributes
from bayesdrop.fitting.by_formula import FormulaOptions

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3))
Y = np.where(X[:, 0] + RNG.normal(size=20) > 0, "yes", "no")
NUMBERS = X[:, 0] + RNG.normal(size=20)


def by_hand(model=None, classes=("no", "yes")):
    both = ("chain", "draw")
    parts = {
        "weight": ((*both, "feature"), RNG.normal(size=(2, 30, 3))),
        "intercept": (both, RNG.normal(size=(2, 30))),
        "rate": ((*both, "feature"), RNG.random((2, 30, 3))),
    }
    draws = xr.Dataset(parts, {"chain": [0, 1], "draw": np.arange(30), "feature": ["x0", "x1", "x2"]})
    seen = xr.Dataset({"y": ("obs_id", (Y == "yes").astype(int))})
    groups = {"posterior": draws, "observed_data": seen}
    return bd.groups.assemble(groups, attributes(bd.Model() if model is None else model, np.array(classes)))


def test_of_the_rows_that_were_sampled_it_is_the_mean_of_their_likelihoods():
    post = by_hand()
    logs = bd.groups.dataset(bd.log_likelihood(post, X, Y), "log_likelihood")["y"].values.reshape(60, 20)
    expected = logsumexp(logs, axis=0) - np.log(60)
    found = bd.elpd(post, X, Y)
    np.testing.assert_allclose(found.pointwise, expected)
    assert found.elpd == pytest.approx(expected.sum())
    assert found.se == pytest.approx(np.sqrt(20 * expected.var()))
    order = RNG.permutation(20)[:7]
    np.testing.assert_allclose(bd.elpd(post, X[order], Y[order]).pointwise, expected[order])


def test_of_a_fit_by_all_masks_and_in_closed_form():
    fit = bd.fit(bd.Model(rates=bd.Fixed(np.array([0.1, 0.3, 0.6]))), X, Y)
    total = np.zeros(20)
    for mask in itertools.product((0.0, 1.0), repeat=3):
        chance = np.prod(np.where(mask, 1 - fit.rates, fit.rates))
        total += chance * expit(np.where(Y == "yes", 1, -1) * (X @ (fit.weight * mask) + fit.intercept))
    np.testing.assert_allclose(bd.elpd(fit, X, Y).pointwise, np.log(total))
    ridge = bd.fit(bd.Model(bd.Squared(variance=1.0), rates=bd.Fixed(0.0), C=4.0), X, NUMBERS)
    expected = norm.logpdf(NUMBERS, X @ ridge.weight + ridge.intercept, 0.5)
    np.testing.assert_allclose(bd.elpd(ridge, X, NUMBERS).pointwise, expected)
    many = bd.fit(bd.Model(bd.Softmax(), rates=bd.Fixed(0.0)), X, np.arange(20) % 3)
    chances = many.predict(X).mean[np.arange(20), np.arange(20) % 3]
    np.testing.assert_allclose(bd.elpd(many, X, np.arange(20) % 3).pointwise, np.log(chances), rtol=1e-6)


def test_a_fit_of_unknown_scale_has_no_density_of_numbers():
    rows = bd.Blocks([np.hstack([X, np.ones((20, 1000))])])
    fit = bd.fit(bd.Model(bd.Squared(), rates=bd.Fixed(0.0)), rows, NUMBERS)
    assert fit.sigma is None
    with pytest.raises(ValueError, match=r"post: expected a fit with sigma, .*bd\.Squared\(variance="):
        bd.elpd(fit, rows, NUMBERS)


def test_each_row_is_scored_by_rows_of_other_folds(monkeypatch):
    seen = []

    def sample(model, features, y, *, sample_weight, feature_names, seed, **options):
        seen.append((features.matrix()[:, 0], list(y), sample_weight, feature_names, options))
        return by_hand()

    monkeypatch.setattr("bayesdrop.posterior.held_out.sample", sample)
    weight = np.arange(1.0, 21.0)
    with pytest.warns(bd.PseudoLikelihoodWarning, match="the row weights raise likelihoods to powers"):
        found = bd.kfold(bd.Model(), X, Y, cv=4, sample_weight=weight, offset=-weight, draws=7)
    assert len(seen) == 4
    assert found.pointwise.shape == (20,)
    times = sum(np.isin(X[:, 0], first) for first, *_ in seen)
    assert np.all(times == 3)
    for first, labels, given, names, options in seen:
        rows = [int(np.flatnonzero(X[:, 0] == value)[0]) for value in first]
        assert labels == Y[rows].tolist()
        np.testing.assert_array_equal(given, weight[rows])
        np.testing.assert_array_equal(options.pop("offset"), -weight[rows])
        assert (names, options) == (["x0", "x1", "x2"], {"draws": 7, "class_weight": None})


SITE = np.repeat(list("abcde"), 4)


@pytest.mark.parametrize(
    ("cv", "groups", "count"),
    [
        (5, SITE, 5),
        (2, SITE, 2),
        (GroupKFold(5), SITE, 5),
        (LeaveOneGroupOut(), pd.Series(SITE, index=range(20, 40)), 5),
        ([(np.flatnonzero(SITE != s), np.flatnonzero(SITE == s)) for s in "abcde"], None, 5),
        ([(SITE != s, SITE == s) for s in "abcde"], None, 5),
        (PredefinedSplit(np.repeat(np.arange(5), 4)), None, 5),
        (iter([(np.flatnonzero(SITE != s).tolist(), np.flatnonzero(SITE == s).tolist()) for s in "abcde"]), None, 5),
    ],
)
def test_folds_in_each_form_that_searches_accept(monkeypatch, cv, groups, count):
    seen = []

    def sample(model, features, y, **options):
        seen.append(features.matrix()[:, 0])
        return by_hand()

    monkeypatch.setattr("bayesdrop.posterior.held_out.sample", sample)
    found = bd.kfold(bd.Model(), X, Y, cv=cv, groups=groups)
    assert (len(seen), found.how) == (count, f"{count} folds")
    for first in seen:
        assert not set(SITE[np.isin(X[:, 0], first)]) & set(SITE[~np.isin(X[:, 0], first)])


def test_folds_are_of_the_rows_of_a_formula(monkeypatch):
    seen = []

    def sample(model, features, y, **options):
        seen.append((features.matrix()[:, 0], y, options))
        return by_hand(classes=(False, True))

    monkeypatch.setattr("bayesdrop.posterior.held_out.sample", sample)
    table, weight = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(label=Y), np.arange(1.0, 21.0)
    table.loc[[3, 8], "x1"] = np.nan
    with pytest.warns(bd.PseudoLikelihoodWarning):
        found = bd.kfold(
            bd.Model(), "label['yes'] ~ x0 + x1 + x2", table, cv=2, groups=SITE, sample_weight=weight, offset=-weight,
            class_weight={"yes": 3.0}, dropna=True, unseen="population",
        )  # fmt: skip
    assert found.pointwise.shape == (18,)
    for first, labels, options in seen:
        rows = [int(np.flatnonzero(X[:, 0] == value)[0]) for value in first]
        np.testing.assert_array_equal(labels, Y[rows] == "yes")
        np.testing.assert_array_equal(options["sample_weight"], weight[rows])
        np.testing.assert_array_equal(options["offset"], -weight[rows])
        assert options["class_weight"] == {True: 3.0}
        assert not set(SITE[rows]) & set(np.delete(SITE, [3, 8, *rows]))


def test_folds_take_each_option_of_a_formula(monkeypatch):
    class Asked(Exception):
        """The first fold is sampled."""

    def sample(model, features, y, **options):
        raise Asked(model, options.pop("feature_names"), options)

    monkeypatch.setattr("bayesdrop.posterior.held_out.sample", sample)
    table = pd.DataFrame({"a": X[:, 0], "site": SITE, "y": NUMBERS})
    options = {"full_rank": True, "unseen": "draw", "dropna": True, "random_scale": 0.7, "correlation_shape": 3.0}
    assert options.keys() == set(FormulaOptions._fields)
    for function in (bd.sample, bd.prior_draws, bd.priors_table):
        assert options.keys() <= inspect.signature(function).parameters.keys()
    with pytest.raises(Asked) as asked:
        bd.kfold("y ~ site + (a | site)", table, **options, seed=5)
    model, names, others = asked.value.args
    prior = model.weight_prior
    assert names[:4] == ["site[T.b]", "site[T.c]", "site[T.d]", "site[T.e]"]
    assert (prior.eta, prior.scale) == (3.0, [0.7, 0.7])
    assert others.keys() == {"sample_weight", "class_weight", "offset", "seed"}
    with pytest.raises(ValueError, match="dropna: it says how a formula is encoded, and there is none"):
        bd.kfold(bd.Model(), X, Y, dropna=True)


def test_rows_that_train_are_not_held_out():
    halves = [(np.arange(20), np.arange(10)), (np.arange(10), np.arange(10, 20))]
    with pytest.raises(ValueError, match="cv: expected training rows apart from the test rows"):
        bd.kfold(bd.Model(), X, Y, cv=halves)
    with pytest.raises(ValueError, match="cv: expected numbers of the 20 rows"):
        bd.kfold(bd.Model(), X, Y, cv=[([0, 1], [2, 99])])
    with pytest.raises(ValueError, match="groups: expected 20 values"):
        bd.kfold(bd.Model(), X, Y, groups=SITE[:3])


def test_differences_are_in_pairs():
    one, other = bd.Elpd(np.array([-1.0, -2.0, -4.0])), bd.Elpd(np.array([-2.0, -2.0, -3.0]))
    assert one.minus(other) == pytest.approx((0.0, np.sqrt(3 * np.var([1.0, 0.0, -1.0]))))
    with pytest.raises(ValueError, match="other: expected scores of the same 3 rows"):
        one.minus(bd.Elpd(np.zeros(2)))


def test_what_is_refused_and_what_is_warned_of():
    post = by_hand()
    with pytest.raises(ValueError, match="y: expected the labels"):
        bd.elpd(post, X, np.where(Y == "yes", "ja", "no"))
    with pytest.raises(ValueError, match="y: expected 20 values, one for each row"):
        bd.elpd(post, X, Y[:5])
    with pytest.warns(bd.PseudoLikelihoodWarning, match="C = 2 raises the likelihood to a power"):
        bd.elpd(by_hand(bd.Model(C=2.0)), X, Y)
    counts = bd.fit(bd.Model(bd.Poisson(), rates=bd.Fixed(0.0)), X, np.arange(20) % 3)
    with pytest.raises(ValueError, match="y: expected counts"):
        bd.elpd(counts, X, NUMBERS)
    for cv in (ShuffleSplit(2), KFold, "loo", 1, 15):
        with pytest.raises(ValueError, match="cv: expected"):
            bd.kfold(bd.Model(), X, Y, cv=cv)
