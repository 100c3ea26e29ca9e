"""New rows are matched with the columns of a fit by name, or refused: in every function, whatever holds them.

A fit knows whether its columns were named. Where they were, other orders give the same answers (the estimators refuse
them, as scikit-learn asks of them), and other names are refused. Where they were not, new rows may be called anything
but what would do for other columns of the fit.
"""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr
from sklearn.linear_model import LogisticRegression

import bayesdrop as bd

RNG = np.random.default_rng(5)
N, P = 24, 3
X = np.where(RNG.random((N, P)) < 0.7, RNG.integers(-3, 4, size=(N, P)), 0) * np.array([1.0, 2.0, 5.0])
Y = np.where(X[:, 0] - X[:, 1] + RNG.normal(size=N) > 0, "yes", "no")
NUMBERS = X @ [1.0, -2.0, 0.5] + 0.1 * RNG.normal(size=N)
COUNTS = RNG.poisson(np.exp(0.1 * X[:, 0]))
# The user's own names, those that the package would give, and those that pandas would.
OWN, DEFAULT, LABELS = ["age", "dose", "site b"], ["x0", "x1", "x2"], [0, 1, 2]
MODEL = bd.Model(rates=bd.PerFeature(bd.Beta(2.0, 2.0)))
FEW = {"draws": 3, "tune": 3, "chains": 1, "progress": False}
MORE = {**FEW, "draws": 60, "tune": 100}


def named(names):
    return X if names is None else pd.DataFrame(X, columns=names)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Makes what is trained on columns of some names, each once."""
    made, folder = {}, tmp_path_factory.mktemp("results")

    def of(kind, names):
        key = (kind, None if names is None else tuple(names))
        if key not in made:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made[key] = TRAINED[kind](named(names), folder / f"{len(made)}.nc")
        return made[key]

    return of


def _saved_fit(rows, path):
    bd.fit(MODEL, rows, Y).save(path)
    return bd.Fit.load(path)


def _saved_posterior(rows, path):
    bd.groups.save(bd.sample(MODEL, rows, Y, **FEW), path)
    return bd.groups.load(path)


TRAINED = {
    "fit": lambda rows, _: bd.fit(MODEL, rows, Y),
    "without noise": lambda rows, _: bd.fit(bd.Model(rates=bd.Fixed(0.0)), rows, Y),
    "softmax": lambda rows, _: bd.fit(bd.Model(bd.Softmax(), rates=bd.Fixed(0.2)), rows, np.arange(N) % 3),
    "formula": lambda rows, _: bd.fit(
        bd.Model(rates=bd.Fixed(0.2)), "y ~ " + " + ".join(f"`{name}`" for name in rows), rows.assign(y=Y)
    ),
    "saved fit": _saved_fit,
    "posterior": lambda rows, _: bd.sample(MODEL, rows, Y, **FEW),
    "approximation": lambda rows, _: bd.sample(MODEL, rows, Y, method=bd.HMC(correct=False), **MORE),
    "saved posterior": _saved_posterior,
    "variational": lambda rows, _: bd.variational(MODEL, rows, Y, n_init=1, max_iter=5).to_arviz(draws=3),
    "prior": lambda rows, _: bd.prior_draws(MODEL, rows, draws=3, intercept_scale=1.0),
    "estimator": lambda rows, _: bd.DropoutLogisticRegression(0.2).fit(rows, Y),
    "SVC": lambda rows, _: bd.DropoutSVC(0.2).fit(rows, Y),
    "ridge": lambda rows, _: bd.DropoutRidge(0.2).fit(rows, NUMBERS),
    "counts": lambda rows, _: bd.DropoutPoissonRegressor(0.2).fit(rows, COUNTS),
    "search": lambda rows, _: bd.DropoutRidgeCV([0.1], Cs=[1.0], cv=2).fit(rows, NUMBERS),
    "latent": lambda rows, _: bd.LatentDropoutSVC(0.1, n_hidden=2, n_init=1, max_iter=3, random_state=0).fit(rows, Y),
    "factors": lambda rows, _: bd.DropoutMatrixFactorization(2).fit(rows),
    "corruption": lambda rows, _: bd.baselines.ExplicitCorruption(LogisticRegression(), random_state=0).fit(rows, Y),
    "MCF": lambda rows, _: bd.baselines.MCFLogistic().fit(rows, Y),
}


def _group(post, name, variable="y"):
    return bd.groups.dataset(post, name)[variable].values


def _weights(model, rows):
    return model.partial_fit(rows, Y, ["no", "yes"]).coef_


def _unlabelled(names, rows):
    return bd.DropoutLogisticRegression(0.2).fit(named(names), Y, unlabelled=rows).coef_


def _numbers(table):
    return table.select_dtypes("number").to_numpy()


# By name of a call: what is trained, and what new rows are given to. Estimators refuse columns in another order.
CALLS = {
    "bd.predict(fit)": ("fit", lambda fit, rows: bd.predict(fit, rows).mean),
    "bd.predict(softmax)": ("softmax", lambda fit, rows: bd.predict(fit, rows).mean),
    "bd.predict(formula)": ("formula", lambda fit, rows: bd.predict(fit, rows).mean),
    "Fit.load": ("saved fit", lambda fit, rows: fit.predict(rows).mean),
    "bd.predict(post)": ("posterior", lambda post, rows: bd.predict(post, rows).mean),
    "groups.load": ("saved posterior", lambda post, rows: bd.predict(post, rows).mean),
    "bd.predict(variational)": ("variational", lambda post, rows: bd.predict(post, rows).mean),
    "bd.elpd(fit)": ("fit", lambda fit, rows: bd.elpd(fit, rows, Y).pointwise),
    "bd.elpd(post)": ("posterior", lambda post, rows: bd.elpd(post, rows, Y).pointwise),
    "posterior_predictive": (
        "posterior",
        lambda post, rows: _group(bd.posterior_predictive(post, rows, new=True), "predictions"),
    ),
    "log_likelihood": ("posterior", lambda post, rows: _group(bd.log_likelihood(post, rows, Y), "log_likelihood")),
    "reweight": (
        "approximation",
        lambda post, rows: _group(bd.reweight(post, rows, Y), "posterior", "rate"),
    ),
    "marginal_effects(fit)": ("fit", lambda fit, rows: _numbers(bd.marginal_effects(fit, rows))),
    "marginal_effects(without noise)": (
        "without noise",
        lambda fit, rows: _numbers(bd.marginal_effects(fit, rows, probability=0.8)),
    ),
    "marginal_effects(post)": ("posterior", lambda post, rows: _numbers(bd.marginal_effects(post, rows))),
    "marginal_effects(estimator)": ("estimator", lambda fit, rows: _numbers(bd.marginal_effects(fit, rows))),
    "predict_proba": ("estimator", lambda model, rows: model.predict_proba(rows)),
    "decision_function": ("SVC", lambda model, rows: model.decision_function(rows)),
    "predict": ("ridge", lambda model, rows: model.predict(rows)),
    "score": ("ridge", lambda model, rows: model.score(rows, NUMBERS)),
    "score of counts": ("counts", lambda model, rows: model.score(rows, COUNTS)),
    "search": ("search", lambda model, rows: model.predict(rows)),
    "latent": ("latent", lambda model, rows: model.predict_proba(rows)),
    "transform": ("factors", lambda model, rows: model.transform(rows)),
    "corruption": ("corruption", lambda model, rows: model.predict_proba(rows)),
    "MCF": ("MCF", lambda model, rows: model.decision_function(rows)),
}
REFUSES_ORDER = {"estimator", "SVC", "ridge", "counts", "search", "latent", "factors", "corruption", "MCF"}
# Of a sampler, or of a formula, which has names always.
SLOW = ("reweight", "latent", "corruption", "MCF", "search", "variational")
CONTAINERS = {
    "pandas": lambda columns: pd.DataFrame(columns),
    "polars": lambda columns: pl.DataFrame({str(name): x for name, x in columns.items()}),
    "pyarrow": lambda columns: pa.table({str(name): x for name, x in columns.items()}),
    "dict": dict,
    "xarray": lambda columns: xr.DataArray(
        np.stack(list(columns.values()), axis=1), coords={"column": list(columns)}, dims=("row", "column")
    ),
    "Dataset": lambda columns: xr.Dataset({name: ("row", x) for name, x in columns.items()}),
}
ORDER = [2, 0, 1]


def close(found, expected, label=""):
    """The same but for round-off, which the layout of an array changes."""
    assert isinstance(found, np.ndarray), f"{label}: {found}"
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10, err_msg=label)


def outcome(call, fitted, rows):
    """Numbers, or the refusal."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of scikit-learn, that one has names and the other none; of few draws
            return np.asarray(call(fitted, rows), dtype=float)
    except (TypeError, ValueError) as error:
        return str(error)


@pytest.mark.slow_cases(*SLOW, "all")
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("names", [OWN, DEFAULT], ids=["own", "default"])
@pytest.mark.parametrize("containers", [["pandas", "dict"], list(CONTAINERS)], ids=["some", "all"])
def test_columns_with_names(trained, name, names, containers):
    kind, call = CALLS[name]
    fitted = trained(kind, names)
    expected = outcome(call, fitted, named(names))
    assert isinstance(expected, np.ndarray), expected
    by_name = dict(zip(names, X.T, strict=True))
    for label in containers:
        make = CONTAINERS[label]
        same, turned = make(by_name), make({names[d]: X[:, d] for d in ORDER})
        close(outcome(call, fitted, same), expected, label)
        found = outcome(call, fitted, turned)
        if kind in REFUSES_ORDER and not name.startswith(("marginal", "weights")):
            assert "in the same order as they were in fit" in found, label
        else:
            close(found, expected, label)
        renamed = make({**{names[d]: X[:, d] for d in (0, 1)}, "other": X[:, 2]})
        missing, added = make({names[d]: X[:, d] for d in (0, 1)}), make({**by_name, "other": X[:, 0]})
        for wrong, word in ((renamed, "other"), (missing, names[2]), (added, "other")):
            found = outcome(call, fitted, wrong)
            if kind == "formula" and wrong is added:  # which is a table of which it takes what it names
                close(found, expected)
                continue
            assert isinstance(found, str), f"{label}: {word} went unnoticed"
            assert found.startswith(("X: expected the 3 columns of the fit", "data: no column")), found
            assert word in found
        strange = outcome(call, fitted, make(dict(zip("pqr", X.T, strict=True))))
        assert isinstance(strange, str), label
    # By position: whatever has no names.
    for rows in (X, X.tolist(), pd.DataFrame(X), xr.DataArray(X)):
        found = outcome(call, fitted, rows)
        if kind != "formula":
            close(found, expected)


@pytest.mark.slow_cases(*SLOW)
@pytest.mark.parametrize("name", [name for name, (kind, _) in CALLS.items() if kind != "formula"])
@pytest.mark.parametrize("labels", [None, LABELS], ids=["array", "pandas' labels"])
def test_columns_without_names(trained, name, labels):
    """Any names will do, but for those that would do for other columns."""
    kind, call = CALLS[name]
    fitted = trained(kind, labels)
    expected = outcome(call, fitted, X)
    assert isinstance(expected, np.ndarray), expected
    for rows in (
        named(OWN),
        named(DEFAULT),
        named(LABELS),
        pl.DataFrame(X, schema=OWN),
        dict(zip(OWN, X.T, strict=True)),
    ):
        close(outcome(call, fitted, rows), expected)
    for known in (DEFAULT, LABELS):
        turned = pd.DataFrame({known[d]: X[:, d] for d in ORDER})
        found = outcome(call, fitted, turned)
        if kind in REFUSES_ORDER and not name.startswith(("marginal", "weights")):
            assert "in the same order as they were in fit" in found
        else:
            close(found, expected)
        shifted = outcome(call, fitted, pd.DataFrame(X, columns=[known[1], known[2], "other"]))
        assert "missing: " in shifted
    assert isinstance(outcome(call, fitted, pd.DataFrame(X[:, :2], columns=OWN[:2])), str)


@pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)
def test_rows_that_join_a_fit(make):
    """Unlabelled rows, test rows of a path and the blocks of one matrix are matched as new rows are."""
    same, turned = (make({OWN[d]: X[:, d] for d in order}) for order in ([0, 1, 2], ORDER))
    other = make(dict(zip([*OWN[:2], "other"], X.T, strict=True)))
    expected = _unlabelled(OWN, named(OWN))
    for rows in (same, turned):
        close(_unlabelled(OWN, rows), expected)
    with pytest.raises(ValueError, match=r"unlabelled: expected the 3 columns .* missing: \['site b'\]"):
        _unlabelled(OWN, other)
    for wrong in (turned, other):
        with pytest.raises(ValueError, match="X: expected the 3 columns of the fit"):
            bd.RatePath(bd.DropoutRidge(), [0.1]).fit(named(OWN), NUMBERS, X_test=wrong, y_test=NUMBERS)
        with pytest.raises(ValueError, match="block 1.*: expected the columns"):
            bd.Blocks([same, wrong])
        with pytest.raises(ValueError, match="X: expected the 3 columns of the fit"):
            _weights(bd.DropoutSVC(0.2).partial_fit(same, Y, ["no", "yes"]), wrong)
    blocks = bd.Blocks([same, same])
    assert blocks.columns == OWN
    twice = bd.fit(MODEL, blocks, np.concatenate([Y, Y]))
    assert twice.feature_names == OWN


@pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)
def test_formulas_take_every_table(make):
    """Whole, as a step of a pipeline, and with columns that it does not name."""
    table = make({**dict(zip(OWN, X.T, strict=True)), "y": NUMBERS, "more": NUMBERS})
    formula = "y ~ age + `site b`"
    expected = bd.fit(formula, pd.DataFrame(X, columns=OWN).assign(y=NUMBERS))
    fit = bd.fit(formula, table)
    np.testing.assert_allclose(fit.weight, expected.weight, rtol=1e-12)
    np.testing.assert_allclose(fit.predict(table).mean, expected.predict(named(OWN)).mean, rtol=1e-12)
    step = bd.FormulaTransformer(formula).fit(table)
    assert step.feature_names_in_.tolist() == [*OWN, "y", "more"]
    np.testing.assert_array_equal(step.transform(table), X[:, [0, 2]])


def test_names_that_are_given_beside_a_table_replace_its_own():
    fit = bd.fit(MODEL, named(OWN), Y, feature_names=DEFAULT)
    assert fit.feature_names == DEFAULT
    expected = fit.predict(X).mean
    turned = pd.DataFrame({DEFAULT[d]: X[:, d] for d in ORDER})
    close(fit.predict(turned).mean, expected)
    with pytest.raises(ValueError, match="X: expected the 3 columns of the fit"):
        fit.predict(named(OWN))


def test_rows_on_a_cluster_and_in_files(tmp_path):
    """Dask frames and Parquet files by the same rule."""
    dd = pytest.importorskip("dask.dataframe")
    fit, estimator = bd.fit(MODEL, named(OWN), Y), bd.DropoutLogisticRegression(0.2).fit(named(OWN), Y)
    expected = fit.predict(X).mean
    for order, names in ((ORDER, OWN), ([0, 1, 2], [*OWN[:2], "other"])):
        table = pd.DataFrame({names[d]: X[:, d] for d in order})
        table.to_parquet(tmp_path / "rows.parquet")
        for rows in (dd.from_pandas(table.astype("Float64"), npartitions=2), bd.Blocks(tmp_path / "rows.parquet")):
            if names == OWN:
                close(fit.predict(rows).mean, expected)
            else:
                with pytest.raises(ValueError, match="X: expected the 3 columns of the fit"):
                    fit.predict(rows)
            with pytest.raises(ValueError, match="X: expected the 3 columns of the fit"):
                np.asarray(estimator.predict_proba(rows))


def test_a_row_is_predicted_the_same_whatever_rows_are_beside_it():
    """Sums over the noise are in double precision, of which no order of terms shows beyond the fifteenth digit."""
    rng = np.random.default_rng(7)
    many = rng.normal(size=(40, 12))
    fit = bd.fit(bd.Model(rates=bd.Fixed(0.3)), many, many[:, 0] + rng.logistic(size=40) > 0)
    together = bd.predict(fit, many).mean
    alone = [bd.predict(fit, many[[i]]).mean[0] for i in range(len(many))]
    np.testing.assert_allclose(alone, together, rtol=0, atol=1e-12)
