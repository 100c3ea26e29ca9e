"""One meaning of ``seed`` and ``random_state``: a number, or a generator of NumPy that one is drawn from."""

import inspect

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import bayesdrop as bd

X = np.random.default_rng(0).normal(size=(24, 3))
Y = np.where(X[:, 0] > 0, "yes", "no")
FEW = {"draws": 3, "tune": 3, "chains": 2, "progress": False}


def every():
    """What is public and takes one of the two words, by what it is called."""
    places = {"": bd, "plots.": bd.plots, "baselines.": bd.baselines}
    found = {f"{place}{name}": getattr(room, name) for place, room in places.items() for name in room.__all__}
    found["Variational.to_arviz"] = bd.Variational.to_arviz
    for name, thing in found.items():
        if callable(thing) and not (isinstance(thing, type) and issubclass(thing, Warning)):
            words = {"seed", "random_state"} & set(inspect.signature(thing).parameters)
            for word in words:
                yield pytest.param(thing, word, id=name)


@pytest.mark.parametrize(("thing", "word"), list(every()))
def test_the_other_word_is_an_error_that_says_the_right_one(thing, word):
    estimator = isinstance(thing, type) and issubclass(thing, BaseEstimator)
    assert word == ("random_state" if estimator else "seed")
    other = {"seed": "random_state", "random_state": "seed"}[word]
    with pytest.raises(TypeError, match=f"{other}: use {word} here: .* give {word}=7"):
        thing(**{other: 7})


def drawn(seed):
    return bd.groups.dataset(bd.prior_draws(bd.Model(), X, draws=5, intercept_scale=2.0, seed=seed), "prior")[
        "weight"
    ].values


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_a_generator_is_a_seed_that_it_draws(make):
    generator = make(3)
    first, second = drawn(generator), drawn(generator)
    assert np.array_equal(first, drawn(make(3)))
    assert not np.array_equal(first, second)
    deleted = bd.delete_features(X, 0.5, seed=make(3))
    assert np.array_equal(deleted, bd.delete_features(X, 0.5, seed=make(3)))
    scorer = bd.deletion_scorer(0.3, seed=make(3))
    assert isinstance(scorer.seed, int)
    factors = [bd.DropoutMatrixFactorization(2, solver="stochastic", max_iter=5, random_state=make(3)) for _ in "ab"]
    both = [model.fit(X).components_ for model in factors]
    assert np.array_equal(*both)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayesdrop.MixingWarning")
def test_a_posterior_says_which_seed_was_drawn():
    model = bd.Model(rates=bd.Fixed(0.0))
    post = bd.sample(model, X, Y, seed=np.random.default_rng(3), **FEW)
    seed = post.attrs["seed"]
    again = bd.sample(model, X, Y, seed=seed, **FEW)
    assert isinstance(seed, int)
    weights = [bd.groups.dataset(one, "posterior")["weight"].values for one in (post, again)]
    assert np.array_equal(*weights)
