"""Weights of classes in ``bd.fit`` and ``bd.sample``: they multiply the weights of the rows, and nothing else."""

import warnings

import numpy as np
import pytest

import bayesdrop as bd

LABELS = np.array(["no", "perhaps", "yes"])
MODELS = {
    "two": (bd.Model(), 2),
    "learnt with a class ratio": (bd.Model(bd.Hinge(), rates=bd.PerFeature(class_ratio=True)), 2),
    "chosen": (bd.Model(rates=bd.Tuned()), 2),
    "many": (bd.Model(bd.Softmax(), rates=bd.Fixed(0.2)), 3),
}


def data(K, n=60):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 3))
    code = (X[:, 0] + rng.normal(size=n) > 0.7) * 2 if K == 2 else np.arange(n) % 3
    return X, LABELS[code]


def factors(weights, y):
    return np.array([weights.get(str(label), 1.0) for label in y])


@pytest.mark.parametrize("name", MODELS)
def test_they_are_row_weights(name):
    model, K = MODELS[name]
    X, y = data(K)
    weights = {"no": 0.5, "yes": 3.0}
    own = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    by_class = bd.fit(model, X, y, sample_weight=own, class_weight=weights)
    by_row = bd.fit(model, X, y, sample_weight=own * factors(weights, y))
    np.testing.assert_array_equal(by_class.weight, by_row.weight)
    np.testing.assert_array_equal(by_class.rates, by_row.rates)
    assert np.abs(by_class.weight - bd.fit(model, X, y, sample_weight=own).weight).max() > 1e-3


@pytest.mark.parametrize("name", ["two", "many"])
def test_balanced_classes_weigh_the_same(name):
    model, K = MODELS[name]
    X, y = data(K)
    own = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    total = {str(label): own.sum() / K / own[y == label].sum() for label in np.unique(y)}
    balanced = bd.fit(model, X, y, sample_weight=own, class_weight="balanced")
    by_row = bd.fit(model, X, y, sample_weight=own * factors(total, y))
    np.testing.assert_allclose(balanced.weight, by_row.weight, rtol=1e-6)


@pytest.mark.slow
def test_a_posterior_is_that_of_the_power_likelihood():
    X, y = data(2, 20)
    options = {"draws": 20, "tune": 20, "chains": 2, "method": bd.HMC(), "progress": False}
    by_row = factors({"yes": 3.0}, np.where(X[:, 0] > 0, "yes", "no"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, other = (
            bd.sample(bd.Model(rates=bd.Fixed(0.0)), X, X[:, 0] > 0, **options, **more)
            for more in ({"class_weight": {True: 3.0}}, {"sample_weight": by_row})
        )
    for group, name in (("posterior", "weight"), ("constant_data", "row_weight")):
        np.testing.assert_array_equal(*(bd.groups.dataset(post, group)[name].values for post in (one, other)))


@pytest.mark.parametrize(
    ("weights", "error", "words"),
    [
        ({"yse": 2.0}, ValueError, "expected the labels"),
        ({"no": 2.0, "yse": 2.0}, ValueError, "yse"),
        ({"no": -1.0}, ValueError, "above 0"),
        ({"no": 0.0}, ValueError, "above 0"),
        ({"no": np.inf}, ValueError, "above 0"),
        ({"no": "heavy"}, ValueError, "above 0"),
        ("even", TypeError, '"balanced"'),
        ([1.0, 2.0], TypeError, "dict"),
    ],
)
@pytest.mark.parametrize("call", [bd.fit, bd.sample])
def test_what_is_no_weight_of_a_class_is_refused(call, weights, error, words):
    X = np.arange(4.0)[:, None]
    with pytest.raises(error, match=f"class_weight: .*{words}"):
        call(bd.Model(), X, ["no", "no", "yes", "yes"], class_weight=weights)


@pytest.mark.parametrize("call", [bd.fit, bd.sample])
@pytest.mark.parametrize("loss", [bd.Squared(), bd.Poisson()])
def test_numbers_have_no_classes(call, loss):
    with pytest.raises(ValueError, match=r"class_weight: y holds numbers.*sample_weight"):
        call(bd.Model(loss, rates=bd.Fixed(0.1)), np.ones((3, 1)), [0.0, 1.0, 2.0], class_weight="balanced")
