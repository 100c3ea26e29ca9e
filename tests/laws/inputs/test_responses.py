"""One response, one answer: every function takes each form of it that ``bd.fit`` and ``bd.sample`` take.

A form is another way of writing the same responses, so that all answers are equal to those of the first form.
"""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import bayesdrop as bd

RNG = np.random.default_rng(5)
N = 30
X = RNG.normal(size=(N, 2))
EVENT = X[:, 0] + RNG.normal(size=N) > 0
TRIALS = RNG.integers(0, 9, N)
UP = RNG.binomial(TRIALS, 1 / (1 + np.exp(-X @ [1.0, -0.5])))
NUMBER = np.round(4 * X[:, 0] + RNG.normal(size=N))
COUNT = RNG.poisson(np.exp(0.4 * X[:, 0]))
CLASS = np.digitize(X[:, 0] + RNG.normal(size=N), [-0.5, 0.5])
TEXT = np.array(["low", "mid", "up"])
PAIRS = np.column_stack([UP, TRIALS - UP])

NUMBERS = {
    "array": lambda y: y,
    "float32": lambda y: y.astype("float32"),
    "whole numbers": lambda y: y.astype(int),
    "list": lambda y: y.tolist(),
    "objects": lambda y: y.astype(object),
    "pandas": lambda y: pd.Series(y, index=range(7, 7 + len(y))),
    "nullable": lambda y: pd.Series(y).astype("Int64"),
    "polars": lambda y: pl.Series("y", y),
}
LABELS = {
    "text": lambda y: np.where(y, "yes", "no"),
    "objects": lambda y: np.where(y, "yes", "no").astype(object),
    "list": lambda y: np.where(y, "yes", "no").tolist(),
    "0/1": lambda y: y.astype(int),
    "0.0/1.0": lambda y: y.astype(float),
    "signs": lambda y: 2 * y - 1,
    "booleans": lambda y: y,
    "categorical": lambda y: pd.Series(pd.Categorical(np.where(y, "yes", "no"), categories=["yes", "no"])),
    "pandas text": lambda y: pd.Series(np.where(y, "yes", "no"), dtype="string", index=range(7, 7 + len(y))),
    "polars": lambda y: pl.Series("y", np.where(y, "yes", "no")),
}
CLASSES = {
    "numbers": lambda y: y,
    "text": lambda y: TEXT[y],
    "list": lambda y: TEXT[y].tolist(),
    "categorical": lambda y: pd.Series(pd.Categorical(TEXT[y])),
    "polars": lambda y: pl.Series("y", TEXT[y]),
}
COUNTS_OF_TWO = {
    "array": lambda y: y,
    "list": lambda y: y.tolist(),
    "floats": lambda y: y.astype(float),
    "pandas": lambda y: pd.DataFrame(y, columns=["up", "down"], index=range(7, 7 + len(y))),
    "polars": lambda y: pl.DataFrame(y, schema=["up", "down"]),
}
KINDS = {
    "numbers": (bd.Squared(variance=1.0), NUMBER, NUMBERS),
    "quantiles": (bd.Quantile(0.3, scale=1.0), NUMBER, NUMBERS),
    "counts": (bd.Poisson(), COUNT, NUMBERS),
    "successes of 8": (bd.Binomial(8), np.minimum(COUNT, 8), NUMBERS),
    "two classes": (bd.Logistic(), EVENT, LABELS),
    "margins": (bd.Hinge(), EVENT, LABELS),
    "classes": (bd.Softmax(), CLASS, CLASSES),
    "successes and failures": (bd.Binomial(), PAIRS, COUNTS_OF_TWO),
}
SHORT = {"draws": 6, "tune": 4, "chains": 2, "progress": False}


def _answers(loss, y):
    """What every function says of responses ``y``, by its name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: np.asarray(value, dtype=float) for name, value in _each(loss, y)}


def _each(loss, y):
    model = bd.Model(loss, rates=bd.Fixed(0.3))
    plain = bd.Model(loss, rates=bd.Fixed(0.0))
    fit = bd.fit(model, X, y)
    yield "fit", fit.weight
    yield "elpd of a fit", bd.elpd(fit, X, y).pointwise
    if not loss.piecewise_linear:
        yield "weights_table", bd.weights_table(bd.fit(plain, X, y))["sd"]
        yield "marginal_effects", bd.marginal_effects(bd.fit(plain, X, y), X)[["effect", "sd"]]
    method = bd.Gibbs() if hasattr(loss, "sample_pseudo") or loss.multiclass else bd.HMC(correct=False)
    post = bd.sample(model, X, y, method=method, **SHORT, log_likelihood=True)
    inside = bd.groups.dataset(post, "log_likelihood")["y"]
    again = bd.groups.dataset(bd.log_likelihood(post, X, y), "log_likelihood")["y"]
    np.testing.assert_allclose(inside, again, rtol=1e-6)
    yield "log_likelihood", again
    yield "loo", bd.loo(post).pareto_k
    yield "elpd", bd.elpd(post, X, y).pointwise
    yield "kfold", bd.kfold(model if loss.multiclass else plain, X, y, cv=2, method=method, **SHORT).pointwise
    both = bd.posterior_predictive(post, X)
    observed = bd.groups.dataset(both, "observed_data")["y"]
    simulated = bd.groups.dataset(both, "posterior_predictive")["y"]
    assert observed.dtype == simulated.dtype
    assert observed.sizes["obs_id"] == simulated.sizes["obs_id"] == N
    yield "observed_data", observed
    yield "posterior_predictive", simulated
    if not loss.multiclass:
        post = bd.sample(model, X, y, method=bd.HMC(correct=False), **{**SHORT, "draws": 60, "tune": 60})
        yield "reweight", bd.groups.dataset(bd.reweight(post, X, y), "sample_stats")["lp"]
    if hasattr(loss, "sample_pseudo") and not loss.parameters:
        found = bd.variational(model, X, y, n_init=1)
        yield "variational", found.weight_mean
        yield "elpd of a mean field", bd.elpd(found.to_arviz(20), X, y).pointwise
    if loss.binary:
        ax = bd.plots.reliability_curve(y, fit.predict(X))
        yield "reliability_curve", ax.containers[0].lines[0].get_xydata()
        ax.figure.clear()
        classifier = bd.DropoutSVC(0.3).fit(X, y)
        yield "score of a classifier", classifier.score(X, y)


@pytest.fixture(scope="module")
def first():
    """Answers to the first form of each kind."""
    return {}


@pytest.mark.slow_cases("counts", "classes", "successes", "quantiles", "margins")
@pytest.mark.parametrize(("kind", "form"), [(kind, form) for kind, (_, _, forms) in KINDS.items() for form in forms])
def test_every_function_takes_each_form(first, kind, form):
    loss, y, forms = KINDS[kind]
    if kind not in first:
        first[kind] = _answers(loss, next(iter(forms.values()))(y))
    answers = _answers(loss, forms[form](y))
    for name, expected in first[kind].items():
        np.testing.assert_allclose(answers[name], expected, rtol=1e-6, atol=1e-9, err_msg=name)


TABLE = pd.DataFrame(
    {"a": X[:, 0], "b": X[:, 1], "number": NUMBER, "up": UP, "down": TRIALS - UP, "ill": np.where(EVENT, "yes", "no")}
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("left", "loss", "y"),
    [
        ("number", bd.Squared(variance=1.0), NUMBER),
        ("np.abs(number)", bd.Squared(variance=1.0), np.abs(NUMBER)),
        ("ill", bd.Logistic(), TABLE["ill"]),
        ("ill['yes']", bd.Logistic(), EVENT),
        ("up + down", bd.Binomial(), PAIRS),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_a_formula_names_them(left, loss, y):
    text, model = f"{left} ~ a + b", bd.Model(loss, rates=bd.Fixed(0.3))
    method = bd.Gibbs()
    post, plain = bd.sample(model, text, TABLE, method=method, **SHORT), bd.sample(model, X, y, method=method, **SHORT)
    for one, other in (
        (bd.log_likelihood(post, TABLE), bd.log_likelihood(plain, X, y)),
        (bd.posterior_predictive(post, TABLE), bd.posterior_predictive(plain, X)),
    ):
        for group in set(bd.groups.group_names(one)) - {"constant_data"}:
            same = (bd.groups.dataset(tree, group) for tree in (one, other))
            for a, b in zip(*(part.data_vars.values() for part in same), strict=True):
                np.testing.assert_allclose(a.values, b.values, rtol=1e-6, err_msg=group)
    scores = bd.elpd(post, TABLE).pointwise, bd.elpd(plain, X, y).pointwise
    np.testing.assert_allclose(*scores, rtol=1e-6)
    plain = bd.Model(loss, rates=bd.Fixed(0.0))
    folds = [bd.kfold(plain, *data, cv=2, method=method, **SHORT).pointwise for data in ((text, TABLE), (X, y))]
    np.testing.assert_allclose(*folds, rtol=1e-6)
