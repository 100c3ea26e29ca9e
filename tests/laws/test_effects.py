"""Effects are finite differences of ``bd.predict`` on changed rows, for every kind of model, result and input.

The posteriors are a few draws around a fit, written by hand, so that no case waits for a sampler.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import sparse

import bayesdrop as bd
from bayesdrop.description import attributes
from bayesdrop.effects.sources import point_fits

pytest.importorskip("formulaic")

N = 30
RNG = np.random.default_rng(5)
X = pd.DataFrame(
    {
        "age": RNG.normal(40, 10, N),
        "dose": RNG.gamma(2, size=N),
        "bmi": np.abs(RNG.normal(size=N)) * (RNG.random(N) > 0.3),
    }
)
HOLES = X.mask(RNG.random((N, 3)) < np.array([0.4, 0.2, 0.0]))
SCORE = ((X["age"] - 40) / 10 + X["bmi"] - X["dose"]).to_numpy()
Y = {
    "label": np.where(RNG.logistic(size=N) + SCORE > 0, "yes", "no"),
    "number": SCORE + RNG.normal(size=N),
    "count": RNG.poisson(np.exp(0.3 * SCORE)).astype(float),
    "share": RNG.binomial(5, 1 / (1 + np.exp(-SCORE))).astype(float),
    "kind": np.array(["a", "b", "c"])[np.digitize(SCORE + RNG.logistic(size=N), [-1.0, 1.0])],
}
TABLE = X.assign(
    site=RNG.choice(["north", "south", "west"], N), flag=RNG.random(N) > 0.5, days=RNG.uniform(1, 5, N),
    nurse=RNG.choice(["ann", "bob", "cas"], N), **Y,
)  # fmt: skip
OFFSET = np.log(TABLE["days"].to_numpy())
LOSSES: dict[str, tuple[Any, str]] = {
    "logistic": (bd.Logistic(), "label"),
    "hinge": (bd.Hinge(), "label"),
    "squared": (bd.Squared(), "number"),
    "quantile": (bd.Quantile(0.3), "number"),
    "Poisson": (bd.Poisson(), "count"),
    "negative binomial": (bd.NegativeBinomial(3.0), "count"),
    "binomial": (bd.Binomial(5), "share"),
    "softmax": (bd.Softmax(), "kind"),
}
NOISES = {
    "no noise": {"rates": bd.Fixed(0.0)},
    "dropout": {"rates": bd.Fixed(0.3)},
    "normal noise": {"noise": bd.GaussianNoise(0.2)},
    "Laplace noise": {"noise": bd.LaplaceNoise(0.2)},
    "multiplicative noise": {"noise": bd.MultiplicativeNoise(0.2)},
    "Poisson noise": {"noise": bd.PoissonNoise()},
}


class Case(NamedTuple):
    """A fit, the rows to average over, the variables that are moved, and the offset that predictions need."""

    fit: Any
    rows: Any
    numbers: tuple[str, ...]
    factors: tuple[str, ...] = ()
    offset: Any = None


def fitted(loss, rows, noise="dropout", **more):
    kind, name = LOSSES[loss]
    missing = "nan" if pd.DataFrame.sparse and not sparse.issparse(rows) and np.isnan(rows).any(axis=None) else None
    prior = bd.Normal(0.3, relative=True)
    return bd.fit(bd.Model(kind, missing=missing, weight_prior=prior, **NOISES[noise]), rows, Y[name], **more)


def by_formula(loss, right, rows=TABLE, noise="dropout", **more):
    kind, name = LOSSES[loss]
    missing = "nan" if rows.isna().any(axis=None) else None
    model = bd.Model(kind, missing=missing, weight_prior=bd.Normal(0.3, relative=True), **NOISES[noise])
    return bd.fit(model, f"{name} ~ {right}", rows, **more)


TERMS, RANDOM = "age * site + dose + flag", {"random_scale": {"1|nurse": 0.7}}
MISSING = TABLE.assign(**HOLES)
CASES = {
    f"{loss}, {noise}": lambda loss=loss, noise=noise: Case(fitted(loss, X, noise), X, ("bmi",))
    for loss in LOSSES
    for noise in NOISES
    if noise == "no noise" or loss == "logistic" or (noise == "dropout" and loss in ("squared", "softmax"))
}
# Entries that are missing are averaged over in the score, before the loss.
FEW = ("hinge", "Poisson", "softmax")
CASES |= {f"{loss}, holes": lambda loss=loss: Case(fitted(loss, HOLES), HOLES, ("age",)) for loss in FEW}
CASES |= {
    f"{loss}, a formula": lambda loss=loss: Case(by_formula(loss, TERMS), TABLE, ("age",), ("site",)) for loss in LOSSES
}
CASES |= {
    f"{loss}, a formula, holes": lambda loss=loss: Case(by_formula(loss, TERMS, MISSING), MISSING, ("age",), ("flag",))
    for loss in FEW
}
CASES |= {
    "holes, no noise": lambda: Case(fitted("logistic", HOLES, "no noise"), HOLES, ("age", "dose")),
    "holes, an array": lambda: Case(fitted("logistic", HOLES.to_numpy()), HOLES.to_numpy(), ("x0", "x1")),
    "a sparse matrix": lambda: Case(
        fitted("logistic", sparse.csr_array(X)), sparse.csr_array(X), ("x0", "x2")
    ),
    "an offset": lambda: Case(fitted("Poisson", X, offset=OFFSET), X, ("age", "bmi"), offset=OFFSET),
    "an offset, holes": lambda: Case(fitted("logistic", HOLES, offset=0.5), HOLES, ("age", "dose"), offset=0.5),
    "an exposure": lambda: Case(by_formula("Poisson", "age + offset(np.log(days))"), TABLE, ("age", "days")),
    "a random intercept": lambda: Case(
        by_formula("logistic", "age + site + (1 | nurse)", **RANDOM), TABLE, ("age",), ("site", "nurse")
    ),
    "a random intercept of counts": lambda: Case(
        by_formula("Poisson", "age + (1 | nurse)", **RANDOM), TABLE, ("age",), ("nurse",)
    ),
    "a random slope": lambda: Case(
        by_formula("squared", "site + (0 + age | nurse)", random_scale={"age|nurse": 0.2}), TABLE, ("age",),
        ("site", "nurse"),
    ),
}  # fmt: skip


def posterior(fit):
    """Two chains of three draws around a fit, as ``bd.sample`` writes them."""
    rng, both, K = np.random.default_rng(1), ("chain", "draw"), ("class",) * (np.ndim(fit.weight) - 1)

    def around(value, scale):
        return np.asarray(value) + scale * rng.normal(size=(2, 3, *np.shape(value)))

    parts = {
        "weight": ((*both, *K, "feature"), around(fit.weight, 0.2 * np.abs(fit.weight) + 1e-3)),
        "intercept": ((*both, *K), around(fit.intercept, 0.1)),
    }
    model, coords = fit.model, {"chain": [0, 1], "draw": np.arange(3), "feature": fit.feature_names}
    if fit.centre is not None:
        model = replace(model, noise=replace(model.noise, centre=fit.centre))
    elif model.noise.centre is not None:
        model = replace(model, noise=replace(model.noise, centre=None))
    coords |= {"class": [str(label) for label in fit.classes]} if K else {}
    for parameter in model.loss.parameters:
        parts[parameter.name] = (both, 1 + rng.random((2, 3)))
    groups = {"posterior": xr.Dataset(parts, coords)}
    if fit.offset is not None:
        groups["constant_data"] = xr.Dataset({"offset": ("obs_id", fit.offset)})
    return bd.groups.assemble(groups, attributes(model, fit.classes, fit.facts))


def changed(rows, name, value):
    if isinstance(rows, pd.DataFrame):
        return rows.assign(**{name: value})
    other = rows.toarray() if sparse.issparse(rows) else rows.copy()
    other[:, int(name[1:])] = value
    return sparse.csr_array(other) if sparse.issparse(rows) else other


def column(rows, name):
    if isinstance(rows, pd.DataFrame):
        return rows[name].to_numpy()
    return (rows.toarray() if sparse.issparse(rows) else rows)[:, int(name[1:])]


def check(result, predicted, case):
    """Slopes, comparisons and grids of each variable against means of ``predicted(rows)``, (n,) or (n, K)."""
    more = {} if case.offset is None else {"offset": case.offset}
    rows = case.rows

    def mean(name=None, value=None, some=slice(None)):
        return predicted(rows if name is None else changed(rows, name, value))[some].mean(axis=0)

    def close(table, expected, tolerance=1e-9):
        values = table["prediction" if "prediction" in table else "effect"].to_numpy()
        np.testing.assert_allclose(values, np.ravel(np.transpose(expected)), rtol=tolerance, atol=tolerance / 10)

    for name in case.numbers:
        values = column(rows, name).astype(float)
        present = ~np.isnan(values)
        slope = bd.marginal_effects(result, rows, features=[name], **more)
        # Steps of the same size: an average by quadrature is smooth to its tolerance alone.
        step = 1e-3 * values[present].std() / (1 + bool(case.factors or name == "days"))
        low, high = (
            (values[present].min(), values[present].max()) if step < 1e-3 * values[present].std() else (-1e9, 1e9)
        )
        if values[present].min() < step and isinstance(point_model(result).noise, bd.PoissonNoise):
            ends = values, values + step, values + 2 * step
            parts = [factor * mean(name, end) for factor, end in zip((-1.5, 2, -0.5), ends, strict=True)]
            close(slope, sum(parts) / step, 1e-6)
        else:
            up, down = np.minimum(values + step, high), np.maximum(values - step, low)
            apart = predicted(changed(rows, name, up)) - predicted(changed(rows, name, down))
            quotient = apart[present] / (up - down)[present].reshape(-1, *[1] * (apart.ndim - 1))
            close(slope, quotient.mean(axis=0), 1e-6)
        expected = mean(name, values + 0.5, present) - mean(some=present)
        close(bd.comparisons(result, rows, {name: 0.5}, **more), expected)
        ends = [mean(name, value) for value in (1.0, 2.0)]
        close(bd.comparisons(result, rows, {name: (1.0, 2.0)}, **more), ends[1] - ends[0])
        close(bd.predictions_grid(result, rows, {name: [1.0, 2.0]}, **more), ends)
    for name in case.factors:
        levels = list(dict.fromkeys(rows[name]))[:2]
        ends = [mean(name, level) for level in levels]
        close(bd.comparisons(result, rows, {name: tuple(levels)}, **more), ends[1] - ends[0])
        close(bd.predictions_grid(result, rows, {name: levels}, **more), ends)


def point_model(result):
    fits = point_fits(result)
    return bd.description.stored_model(result.attrs) if fits is None else fits[0].fit.model


@pytest.mark.slow_cases("squared", "quantile", "Poisson", "binomial", "an offset", "an exposure", "a random")
@pytest.mark.parametrize("name", CASES)
def test_effects_of_a_fit(name):
    case = CASES[name]()
    check(case.fit, lambda rows: bd.predict(case.fit, rows, offset=case.offset).mean, case)


# Draws are averaged whatever the loss and the noise are, which the effects of fits meet all.
@pytest.mark.slow_cases(
    "squared", "Poisson", "quantile", "binomial", "an offset", "an exposure", "a random", "formula", "noise"
)
@pytest.mark.parametrize("name", CASES)
def test_effects_of_a_posterior(name):
    case = CASES[name]()
    post = posterior(case.fit)
    check(post, lambda rows: bd.predict(post, rows, offset=case.offset).mean, case)


ESTIMATORS = {
    "logistic": lambda: bd.DropoutLogisticRegression(0.3, missing="nan").fit(HOLES, Y["label"]),
    "one against the rest": lambda: bd.DropoutLogisticRegression(
        0.3, multiclass="one_vs_rest", missing="nan"
    ).fit(HOLES, Y["kind"]),
    "softmax": lambda: bd.DropoutLogisticRegression(0.3, multiclass="softmax", missing="nan").fit(HOLES, Y["kind"]),
    "ridge": lambda: bd.DropoutRidge(0.3, missing="nan").fit(HOLES, Y["number"]),
    "hinge": lambda: bd.DropoutSVC(0.3, missing="nan").fit(HOLES, Y["label"]),
    "Poisson": lambda: bd.DropoutPoissonRegressor(0.3).fit(X, Y["count"]),
}  # fmt: skip


@pytest.mark.slow_cases("ridge", "Poisson")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_effects_of_an_estimator(name):
    estimator = ESTIMATORS[name]()
    fits = [one.fit for one in point_fits(estimator)]

    def predicted(rows):
        parts = [bd.predict(fit, rows).mean for fit in fits]
        return np.stack(parts, axis=-1) if len(parts) > 1 else parts[0]

    check(estimator, predicted, Case(fits[0], X if name == "Poisson" else HOLES, ("age", "dose")))
