"""The regulariser of the logistic loss, by a second statement of each of its forms."""

from itertools import product
from math import exp, log1p

import numpy as np
import pytest
from scipy import sparse
from scipy.integrate import quad

import bayesdrop as bd

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 6)) * (RNG.random((5, 6)) < 0.8)
WEIGHTS = RNG.normal(size=6)
RATE = np.array([0.0, 0.2, 0.5, 0.9, 0.3, 0.6])


def loss(y, score):
    return log1p(exp(-y * score))


def by_masks(x, weights, rate, intercept, y):
    total = 0.0
    for mask in product((0, 1), repeat=len(x)):
        chance = np.prod([1 - r if keep else r for keep, r in zip(mask, rate, strict=True)])
        score = sum(keep * w * value / (1 - r) for keep, w, value, r in zip(mask, weights, x, rate, strict=True))
        total += chance * loss(y, intercept + score)
    return total - loss(y, intercept + x @ weights)


def by_form(form, x, weights, rate, intercept, y):
    mean = intercept + x @ weights
    variance = sum(r / (1 - r) * (w * value) ** 2 for r, w, value in zip(rate, weights, x, strict=True))
    if form == "taylor":
        h = 1e-3
        return 0.5 * variance * (loss(y, mean + h) - 2 * loss(y, mean) + loss(y, mean - h)) / h**2
    root = np.sqrt(variance)
    value, _ = quad(
        lambda z: np.exp(-z * z / 2) / np.sqrt(2 * np.pi) * loss(y, mean + root * z), -12, 12, epsabs=1e-12, limit=200
    )
    return value - loss(y, mean)


@pytest.mark.parametrize("y", [-1, 1])
@pytest.mark.parametrize("scale", [0.01, 1.0, 4.0])
def test_the_regularizer_is_the_mean_over_deletions_whatever_the_label(scale, y):
    found = bd.regularizer(X, scale * WEIGHTS, RATE, intercept=0.4)
    expected = [by_masks(x, scale * WEIGHTS, RATE, 0.4, y) for x in X]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-14)
    np.testing.assert_array_equal(bd.regularizer(sparse.csr_array(X), scale * WEIGHTS, RATE, intercept=0.4), found)


@pytest.mark.parametrize("y", [-1, 1])
@pytest.mark.parametrize(("form", "rtol"), [("gaussian", 1e-8), ("taylor", 1e-5)])
def test_its_approximations_are_what_they_state(form, rtol, y):
    found = bd.regularizer(X, WEIGHTS, RATE, intercept=0.4, expectation=form)
    np.testing.assert_allclose(found, [by_form(form, x, WEIGHTS, RATE, 0.4, y) for x in X], rtol=rtol, atol=1e-12)


def test_all_forms_meet_as_weights_vanish_and_the_augmentation_is_a_bound():
    forms = ("exact", "gaussian", "taylor", "augmentation")
    small = [bd.regularizer(X, 1e-4 * WEIGHTS, RATE, expectation=form) for form in forms]
    for other in small[1:]:
        np.testing.assert_allclose(other, small[0], rtol=1e-3)
    for scale in (0.3, 1.0, 3.0):
        exact, _, _, bound = (bd.regularizer(X, scale * WEIGHTS, RATE, expectation=form) for form in forms)
        assert np.all(bound >= exact)
        assert np.all(exact >= 0)


def test_a_fit_adds_the_regularizer_of_each_row():
    y = np.where(X[:, 0] + X[:, 1] > 0, 1, -1)
    noise = bd.Dropout(unbiased=True, centre=None)
    model = bd.Model(loss=bd.Logistic("gaussian"), noise=noise, rates=bd.Fixed(0.4), C=2.0, weight_prior=bd.Normal(1.5))
    fit = bd.fit(model, X, y)
    weights, level = fit.weight, float(fit.intercept)
    added = bd.regularizer(X, weights, 0.4, intercept=level, expectation="gaussian").sum()
    plain = sum(loss(label, score) for label, score in zip(y, X @ weights + level, strict=True))
    assert fit.objective_trace[-1] == pytest.approx(2.0 * (plain + added) + 0.5 * np.sum(weights**2) / 1.5**2, rel=1e-9)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"weights": [1.0, 2.0]}, "one weight for each of 6 features"),
        ({"rate": [0.1, 0.2]}, "one rate for all or for each"),
        (
            {"X": np.ones((2, 30)), "weights": np.ones(30), "rate": 0.5},
            'row 0 has 30 .*take expectation="gaussian"',
        ),
    ],
)
def test_what_does_not_fit_is_refused(change, words):
    with pytest.raises(ValueError, match=words):
        bd.regularizer(**{"X": X, "weights": WEIGHTS, "rate": RATE, **change})
