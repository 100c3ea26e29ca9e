"""A posterior that does not exist is refused: against evidence integrated up to ever larger scales."""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import exp1

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.sampling.propriety import check_proper, separates

# One feature; a negative row at 0 between positive ones, or below them.
MIXED = np.array([[1.0], [-1.0], [0.0]]), np.array([1, 1, -1])
APART = np.array([[1.0], [1.0], [0.0]]), np.array([1, 1, -1])


def refused(model, X, y, marginalised=None, sample_weight=None):
    """Whether there is no posterior, in the words of the check."""
    data = as_dataset(X, y, sample_weight, None, model.loss.binary).with_weight()
    rate_map = model.bind(data.feature_names)
    try:
        check_proper(model, data, rate_map, not rate_map.is_free if marginalised is None else marginalised)
    except ValueError as error:
        return str(error)
    return ""


def evidence(X, y, largest):
    """``∫∫∫ Π σ(y(wx + b)) db p(w | τ) dw p(τ) dτ`` under a horseshoe, over scales τ up to ``largest``.

    ``p(w | τ)`` is ``(2π³)^{−½} exp(u²/2) E₁(u²/2) / τ`` at ``u = w/τ`` (Carvalho, Polson & Scott 2010). By trapezium
    rules over ``log τ`` and ``log |u|``, and over ``b`` within 40 of the scores and between them.
    """
    log_u, log_scale = np.arange(-30, 8, 0.1), np.arange(-20, np.log(largest), 0.1)
    half = 0.5 * np.exp(2 * log_u)
    weight = np.where(half < 50, exp1(half) * np.exp(np.minimum(half, 50)), 1 / (half + 1)) * np.exp(log_u)
    scale = np.exp(log_scale)
    share = 0.1**2 * np.outer(2 / np.pi * scale / (1 + scale**2), weight / np.sqrt(2 * np.pi**3))
    log_w = (log_scale[:, None] + log_u[None]).ravel()
    total = 0.0
    for sign in (-1, 1):
        grid = np.arange(log_w.min(), log_w.max() + 0.1, 0.1)
        over_intercept = []
        for w in sign * np.exp(grid):
            score = np.sort(X[:, 0] * w)
            b = -np.unique(
                np.concatenate(
                    [[s + np.linspace(-40, 40, 801)] for s in score] + [[np.linspace(score[0], score[-1], 2001)]],
                    axis=1,
                )
            )[::-1]
            log = -np.logaddexp(0, -y[:, None] * (X * w + b)).sum(axis=0)
            over_intercept.append(np.trapezoid(np.exp(log), b))
        total += share.ravel() @ np.interp(log_w, grid, over_intercept)
    return total


@pytest.mark.slow
def test_the_evidence_of_a_horseshoe_is_infinite_if_and_only_if_the_classes_are_apart():
    """With local scales up to 3,000 it grows as the logarithm of the largest scale shared, or not at all."""
    mixed, apart = ([evidence(X, y, largest) for largest in (1e3, 1e6, 1e9)] for X, y in (MIXED, APART))
    assert mixed[2] == pytest.approx(mixed[0], rel=1e-4)
    assert apart[2] - apart[1] == pytest.approx(apart[1] - apart[0], rel=0.01)
    assert apart[2] - apart[1] > 10 * mixed[0]
    model = bd.Model(rates=bd.Fixed(0.0), weight_prior=bd.Horseshoe())
    assert not refused(model, *MIXED)
    assert "the features separate the two classes" in refused(model, *APART)


@pytest.mark.slow
def test_separation_is_found():
    """Against every direction of the plane."""
    rng, found = np.random.default_rng(0), []
    angle = np.linspace(0, 2 * np.pi, 20_000)
    for n in (4, 6, 8, 12, 30):
        for _ in range(20):
            X, y = rng.normal(size=(n, 2)), np.where(np.arange(n) % 2, 1.0, -1.0)
            X += rng.uniform(0, 2) * y[:, None]
            score = X @ np.stack([np.cos(angle), np.sin(angle)])
            gap = np.max(score[y > 0].min(axis=0) - score[y < 0].max(axis=0))
            if abs(gap) > 1e-3:  # what a grid of directions can tell
                found.append(gap > 0)
                assert separates(X, y) == separates(sparse.csr_array(X), y) == found[-1], gap
    assert 0.2 < np.mean(found) < 0.8


def test_classes_that_touch_are_not_apart():
    X = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 1.0], [2.0, 1.0], [0.0, 0.0]])
    assert not separates(X, np.array([-1.0, -1.0, 1.0, 1.0, -1.0]))
    assert separates(X, np.array([-1.0, -1.0, -1.0, 1.0, -1.0]))


def test_many_rows_and_large_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3)) * [1e-8, 1.0, 1e8]
    y = np.where(X[:, 0] * 1e8 + X[:, 1] + 0.1 > 0, 1.0, -1.0)
    assert separates(X, y)
    flipped = y.copy()
    flipped[1234] *= -1
    assert not separates(X, flipped)
    assert not separates(X, y, largest=1000)


HORSESHOE = bd.Model(rates=bd.Fixed(0.0), weight_prior=bd.Horseshoe())


@pytest.mark.parametrize(
    ("model", "marginalised", "improper"),
    [
        (bd.Model(bd.Hinge(), rates=bd.Fixed(0.0), weight_prior=bd.Horseshoe()), None, True),
        (bd.Model(weight_prior=bd.Horseshoe()), None, True),
        (bd.Model(rates=bd.Fixed(0.4), weight_prior=bd.Horseshoe()), False, True),
        (bd.Model(rates=bd.Fixed(0.4), weight_prior=bd.Horseshoe()), True, False),
        (bd.Model(noise=bd.GaussianNoise(0.5), weight_prior=bd.Horseshoe()), True, False),
        (bd.Model(weight_prior=bd.Horseshoe(), fit_intercept=False), None, False),
        (bd.Model(weight_prior=bd.Laplace()), None, False),
        (bd.Model(), None, False),
        (bd.Model(bd.Squared(variance=1.0), weight_prior=bd.Horseshoe()), None, False),
    ],
    ids=repr,
)
def test_only_what_is_improper_is_refused(model, marginalised, improper):
    assert bool(refused(model, *APART, marginalised)) == improper
    assert not refused(model, *MIXED, marginalised)


def test_sample_and_the_kernel_refuse():
    words = r"weight_prior: the features separate .*bd\.Laplace\(\.\.\.\).*fit_intercept=False"
    with pytest.raises(ValueError, match=words):
        bd.sample(HORSESHOE, *APART, progress=False)
    with pytest.raises(ValueError, match=words):
        bd.NumpyroKernel(HORSESHOE, *APART)
    # Rows of weight 0 are no data.
    X, y = (np.concatenate(parts) for parts in zip(APART, MIXED, strict=True))
    with pytest.raises(ValueError, match=words):
        bd.sample(HORSESHOE, X, y, sample_weight=[1, 1, 1, 0, 0, 0], progress=False)


def test_one_class_alone_is_refused():
    with pytest.raises(ValueError, match="expected at least two classes, got"):
        bd.sample(bd.Model(), APART[0], np.ones(3), progress=False)
    with pytest.raises(ValueError, match="every row of class -1 has weight zero"):
        bd.sample(bd.Model(), *APART, sample_weight=[1, 1, 0], progress=False)


@pytest.mark.parametrize(("power", "shape", "improper"), [(0.3, 0.2, True), (0.3, 0.45, False), (1.5, 0.01, False)])
def test_an_unknown_variance_needs_data_or_a_prior(power, shape, improper):
    """Of one row: the evidence, integrated over the intercept, up to ever larger variances."""
    model = bd.Model(bd.Squared(variance=bd.InverseGamma(shape, 1.0)), rates=bd.Fixed(0.0))
    message = refused(model, np.ones((1, 1)), np.zeros(1), sample_weight=[power])
    assert bool(message) == improper
    totals = []
    for largest in (1e10, 1e20, 1e40):
        variance = np.exp(np.arange(-5, np.log(largest), 0.01))
        density = variance ** (-shape - 1 - power / 2) * np.exp(-1 / variance)
        totals.append(0.01 * np.sum(variance * density * np.sqrt(2 * np.pi * variance / power)))
    assert (totals[2] > 2 * totals[0]) == improper
    if improper:
        assert "give a shape above 0.35" in message


def random_terms(levels, y, scale, features=None):
    """The question of the sampler for ``y ~ x + (1 | g)``, and its words."""
    table = pd.DataFrame({"x": [0.3, -1.0, 0.2, 1.0, -0.1, 0.4], "g": levels, "y": y})
    model = bd.Model(rates=bd.Fixed(0.0), weight_prior=bd.Normal(1.0) if features is None else features)
    problem = partial(bd.sample, model, "y ~ x + (1 | g)", table, random_scale=scale, draws=2, tune=2, chains=2)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # two draws
            problem(progress=False)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.slow
def test_a_random_scale_without_a_mean_is_refused_in_its_own_words():
    """The effects separate the classes: two levels, one of each class."""
    apart, mixed = list("aabbaa"), list("aabbab")
    y = ["no", "no", "yes", "yes", "no", "no"]
    words = random_terms(apart, y, bd.HalfCauchy(1.0))
    assert words.startswith("random_scale: the effects of ['1|g'] separate the two classes")
    assert "HalfCauchy" in words
    assert "random_scale=bd.HalfNormal(1.0)" in words
    assert "weight_prior" not in words
    assert "Laplace" not in words
    assert random_terms(apart, y, bd.HalfNormal(1.0)) == ""
    # A level with both classes leaves no effects that separate them, although the feature would help.
    assert random_terms(mixed, ["no", "no", "yes", "yes", "no", "no"], bd.HalfCauchy(1.0)) == ""
    both = random_terms(apart, y, bd.HalfCauchy(1.0), bd.Normal(bd.HalfCauchy(1.0)))
    assert both.startswith("random_scale, weight_prior: the features and the effects of ['1|g'] separate")
    assert "random_scale=bd.HalfNormal(1.0)" in both
    assert "bd.Laplace" not in both  # random terms take a normal prior of the features


@pytest.mark.slow
def test_features_with_a_proper_scale_do_not_make_a_random_scale_improper():
    """The feature separates the classes, its normal weight has a mean, and no effects separate them."""
    table = pd.DataFrame({"x": [1.0, 2.0, 3.0, -1.0, -2.0, -3.0], "g": list("ababab"), "y": list("nnnyyy")})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two draws
        bd.sample(
            bd.Model(rates=bd.Fixed(0.0)), "y ~ x + (1 | g)", table, random_scale=bd.HalfCauchy(1.0), draws=2, tune=2,
            chains=2, progress=False,
        )  # fmt: skip
