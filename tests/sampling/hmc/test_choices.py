"""The table of normal approximations: every row is taken, by a case and by a model with data."""

import jax
import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.hmc.approximations.choices import CHOICES, Case, Limits, case_of, choose
from bayesdrop.posterior.problem import Problem

PLAIN = Case(2000, 5000, 1, True, False, False, False, False, True, False)
CASES = {
    "scores": [PLAIN, PLAIN._replace(n=6000)],
    "rows": [
        PLAIN._replace(noisy=True),
        PLAIN._replace(free=True, noisy=True),
    ],
    "directions": [PLAIN._replace(n=6001), PLAIN._replace(n=3000, p=2000, noisy=True)],
    "eigenvectors": [PLAIN._replace(n_classes=3), PLAIN._replace(n_classes=3, p=4000, streamed=True, local=False)],
    "dense": [
        PLAIN._replace(p=1499),
        PLAIN._replace(n_classes=3, p=749),
        PLAIN._replace(p=9, streamed=True, local=False),
    ],
    "diagonal": [
        PLAIN._replace(local=False, streamed=True),
        PLAIN._replace(shift=True),
        PLAIN._replace(curved=False),
        PLAIN._replace(learnt=True),
        PLAIN._replace(n_classes=3, learnt=True),
        PLAIN._replace(n_classes=3, n=5000),
        PLAIN._replace(n_classes=3, free=True),
        PLAIN._replace(n_classes=3, p=4001, streamed=True, local=False),
    ],
}


def test_every_row_has_a_case():
    assert list(CASES) == [choice.name for choice in CHOICES]
    assert all(choice.what and choice.because for choice in CHOICES)


@pytest.mark.parametrize("name", CASES)
def test_the_first_row_that_holds_is_taken(name):
    assert [choose(case, Limits()).name for case in CASES[name]] == [name] * len(CASES[name])


MODELS = {
    "scores": (bd.Model(rates=bd.Fixed(0.0)), Limits(dense=2)),
    "rows": (bd.Model(), Limits(dense=2)),
    "directions": (bd.Model(), Limits(dense=2, rows=0)),
    "eigenvectors": (bd.Model(bd.Softmax(), rates=bd.Fixed(0.0)), Limits(dense=2)),
    "dense": (bd.Model(), Limits()),
    "diagonal": (bd.Model(bd.Softmax(), rates=bd.Fixed(0.0)), Limits(dense=2, eigenvectors=1)),
}


def data_of(model, n=12, p=10):
    """Few rows."""
    X, many = np.random.default_rng(0).normal(size=(n, p)), model.loss.multiclass
    y = np.arange(n) % (3 if many else 2)
    return as_dataset(X, y if many else 2.0 * y - 1, None, None, not many, multiclass=many).with_weight()


class Shifted(bd.Dropout):
    """A noise that moves the mean, and so the scores of all rows."""

    def coefficients(self, *rate):
        return super().coefficients(*rate)._replace(shift=1.0 + 0 * rate[0])


SOFTMAX, NONE, DROPOUT = bd.Softmax(), bd.Fixed(0.0), bd.Fixed(0.3)
LEARNT = bd.Normal(bd.HalfCauchy(1.0))


@pytest.mark.parametrize(
    ("model", "rows", "wide", "tall"),
    [
        (bd.Model(rates=NONE), None, "scores", "directions"),
        (bd.Model(rates=DROPOUT), 0, "rows", "directions"),
        (bd.Model(rates=bd.Shared()), 0, "rows", "directions"),
        (bd.Model(noise=bd.GaussianNoise(0.1)), 0, "rows", "directions"),
        (bd.Model(rates=NONE, weight_prior=LEARNT), 0, "diagonal", "diagonal"),
        (bd.Model(noise=Shifted(), rates=DROPOUT), 0, "diagonal", "diagonal"),
        (bd.Model(SOFTMAX, rates=DROPOUT), None, "eigenvectors", "eigenvectors"),
        (bd.Model(SOFTMAX, noise=Shifted(), rates=DROPOUT), None, "diagonal", "diagonal"),
    ],
    ids=lambda model: None if isinstance(model, str | int | None) else repr(model)[:80],
)
def test_models_too_large_for_a_dense_factor(model, rows, wide, tall):
    """Of 10 features and few rows; and of 60 rows, or where ``rows`` of them are already many."""
    for n, limits, expected in (
        (12, Limits(dense=2), wide),
        (60 if rows is None else 12, Limits(dense=2, **({} if rows is None else {"rows": rows})), tall),
        (12, Limits(), "dense"),
    ):
        data = data_of(model, n)
        case = case_of(model, data, model.bind(data.feature_names), model.loss.multiclass or rows is None)
        assert choose(case, limits).name == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_kernel_says_what_was_taken(name):
    model, limits = MODELS[name]
    many, data = model.loss.multiclass, data_of(model)
    rate_map = model.bind(data.feature_names)
    assert choose(case_of(model, data, rate_map, many), limits).name == name
    with jax.enable_x64(False):
        kernel, _ = bd.HMC(limits=limits).bind(model, data, rate_map, 4, marginalised=many)
    assert kernel.choices == {"normal_approximation": name}


@pytest.mark.slow
def test_a_posterior_says_what_was_taken():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 2))
    options = {"draws": 4, "tune": 4, "chains": 2, "progress": False}
    with pytest.warns(bd.warnings.MixingWarning):
        post = bd.sample(bd.Model(rates=bd.Fixed(0.0)), X, X[:, 0] > 0, method=bd.HMC(), **options)
    assert bd.groups.dataset(post, "sample_stats").attrs["normal_approximation"] == "dense"


@pytest.mark.parametrize(
    ("loss", "method"), [(bd.Logistic(), "Gibbs"), (bd.Softmax(), "NUTS"), (bd.Poisson(), "NUTS")], ids=repr
)
def test_many_weights_of_a_learnt_scale(loss, method):
    """HMC refuses them; the default is Gibbs, or NUTS if that lacks the loss."""
    X = np.random.default_rng(2).normal(size=(30, 1500))
    y = np.arange(30) % 3 if loss.multiclass else 1.0 * (X[:, 0] > 0)
    model = bd.Model(loss, rates=NONE, weight_prior=bd.Normal(bd.HalfNormal(1.0)))
    found = Problem.of(model, X, y)
    assert type(found.method(None)).__name__ == method
    with pytest.raises(ValueError, match=r"at most 1,500 weights .* bd\.Gibbs\(\)"):
        bd.HMC().bind(model, found.data, found.rate_map, 4, marginalised=True)
