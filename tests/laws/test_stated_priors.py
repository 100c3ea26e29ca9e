"""Every door takes means of weights and a prior of the intercept, or says that it does not: none ignores them.

The samplers are held to exact posteriors under them in their own tests.
"""

from dataclasses import replace

import numpy as np
import pytest

import bayesdrop as bd

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)) + 1.0
NUMBERS = X @ [1.0, 0.0, -1.0] + RNG.normal(size=40)
LABELS, CLASSES = NUMBERS > 0, np.arange(40) % 3
FEW = {"draws": 5, "tune": 5, "chains": 1, "progress": False}
PLAIN = bd.Model(rates=bd.Fixed(0.2))
STATED = {
    "mean": replace(PLAIN, weight_prior=bd.Normal(1.0, mean=2.0)),
    "intercept": replace(PLAIN, intercept_prior=bd.Normal(0.1, mean=3.0)),
}


def fitted(model, y=LABELS, **options):
    found = bd.fit(model, X, y, **options)
    return [found.weight, found.intercept]


def prior(model):
    tree = bd.prior_draws(model, X, draws=5, **({} if model.intercept_prior else {"intercept_scale": 1.0}))
    return [tree.prior.weight.values, tree.prior.intercept.values]


TAKEN = {
    "Newton": fitted,
    "EM": lambda model: fitted(model, method=bd.EM()),
    "numbers": lambda model: fitted(replace(model, loss=bd.Squared()), NUMBERS),
    "kinks": lambda model: fitted(replace(model, loss=bd.Hinge(), rates=bd.Fixed(0.0))),
    "counts": lambda model: fitted(replace(model, loss=bd.Poisson()), CLASSES),
    "prior_draws": prior,
    "priors_table": lambda model: [bd.priors_table(model, X)[["mean", "sd"]].fillna(-1).to_numpy(float)],
}
REFUSED = {
    "Softmax": lambda model: fitted(replace(model, loss=bd.Softmax()), CLASSES),
    "sample Softmax": lambda model: bd.sample(replace(model, loss=bd.Softmax()), X, CLASSES, **FEW),
    "hidden layer": lambda model: bd.sample_latent(model, X, LABELS, n_hidden=2, draws=5, tune=5, chains=1),
}


@pytest.mark.parametrize("stated", STATED)
@pytest.mark.parametrize("door", TAKEN)
def test_a_door_that_takes_a_stated_prior_answers_otherwise(door, stated):
    with_it, without = TAKEN[door](STATED[stated]), TAKEN[door](PLAIN)
    assert max(np.abs(a - b).max() for a, b in zip(with_it, without, strict=True)) > 1e-3


@pytest.mark.parametrize("stated", STATED)
@pytest.mark.parametrize("door", REFUSED)
def test_a_door_that_does_not_take_it_says_so(door, stated):
    with pytest.raises(ValueError, match="mean 0, got" if stated == "mean" else "flat prior of the intercept, got"):
        REFUSED[door](STATED[stated])
