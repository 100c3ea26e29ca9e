"""Every parameter of every public name takes odd values: a call ends in an answer, or in an error that names it.

The names and their parameters are found by scanning what the package exports, so that a new one is tried on the day it
appears; what has no good argument to start from fails. A call may answer (with finite numbers), or raise ``TypeError``,
``ValueError`` and the like with the parameter's name in the message, or words of scikit-learn's own checks. Anything
else is a fault: another exception, a message that names nothing, a number that is not finite, more than 20 seconds.

By default each parameter meets a few of the values, chosen by a hash of its name; the whole is slow. Weights of rows,
C, rates and responses meet all of their extremes, 1e-12 to 1e12, and responses and labels every type.
"""

import contextlib
import copy
import inspect
import re
import signal
import traceback
import warnings
import zlib
from pathlib import Path

import dask
import distributed
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

import bayesdrop as bd
from bayesdrop.description import attributes
from bayesdrop.priors import RandomEffects

# Fits are kept short.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

SECONDS, FEW = 20, 2
RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(24, 3)), 2)
Y = np.where(X[:, 0] + 0.5 * RNG.normal(size=24) > 0, "yes", "no")
NUMBERS = X[:, 0] + 0.1 * RNG.normal(size=24)


def _read_only(values):
    values = np.array(values)
    values.setflags(write=False)
    return values


def _surprise(*args, **options):
    raise RuntimeError("called")


VALUES = {
    "none": lambda: None,
    "text": lambda: "text",
    "empty text": lambda: "",
    "bytes": lambda: b"text",
    "minus one": lambda: -1,
    "zero": lambda: 0,
    "half": lambda: 0.5,
    "two": lambda: 2,
    "nan": lambda: float("nan"),
    "infinite": lambda: float("inf"),
    "huge count": lambda: 10**400,
    "huge number": lambda: 1.7e308,
    "unprintable count": lambda: 10**5000,
    "true": lambda: True,
    "complex": lambda: 1j,
    "empty list": lambda: [],
    "list of text": lambda: ["p", "q"],
    "list of none": lambda: [None] * 24,
    "dict": lambda: {},
    "set": lambda: {1, 2},
    "object": object,
    "class": lambda: dict,
    "component as a class": lambda: bd.Newton,
    "component of another kind": lambda: bd.Beta(2.0, 2.0),
    "callable": lambda: _surprise,
    "matrix": lambda: np.ones((2, 2)),
    "cube": lambda: np.ones((2, 2, 2)),
    "nan matrix": lambda: np.full((24, 3), np.nan),
    "masked matrix": lambda: np.ma.masked_greater(X, 1.0),
    "masked vector": lambda: np.ma.masked_greater(X[:, 0], 1.0),
    "huge matrix": lambda: np.full((24, 3), 1e200),
    "object array": lambda: np.array([object()] * 24),
    "dates": lambda: np.array(["2020-01-01"] * 24, dtype="datetime64[D]"),
    "tiny number": lambda: 1e-12,
    "large number": lambda: 1e12,
    "long double": lambda: np.longdouble(0.5),
    "half precision": lambda: np.float16(0.5),
    "eight bits": lambda: np.int8(2),
    "read-only vector": lambda: _read_only(np.ones(24)),
    "read-only matrix": lambda: _read_only(X),
    "long double vector": lambda: np.linspace(0.1, 0.9, 24).astype(np.longdouble),
    "long double matrix": lambda: X.astype(np.longdouble),
    "half a letter": lambda: "\ud800",
    "list of half letters": lambda: ["\ud800", "b", "c"],
}


@pytest.fixture(autouse=True)
def _computed_here():
    """Clients of Dask that other tests closed out of order leave it looking for one."""
    with dask.config.set(scheduler="sync"):
        yield


_POST = []


def _posterior():
    """A posterior made by hand: two chains of twenty draws of a logistic model."""
    if not _POST:
        import xarray as xr

        generator, steps = np.random.default_rng(1), {"chain": [0, 1], "draw": np.arange(20)}
        both = ("chain", "draw")
        draws = xr.Dataset(
            {
                "weight": ((*both, "feature"), generator.normal(size=(2, 20, 3))),
                "intercept": (both, generator.normal(size=(2, 20))),
                "rate": ((*both, "feature"), generator.random((2, 20, 3))),
                "n_active": (both, generator.integers(1, 3, size=(2, 20))),
            },
            coords={**steps, "feature": ["x0", "x1", "x2"]},
        )
        rows = {"obs_id": np.arange(24)}
        groups = {
            "posterior": draws,
            "constant_data": xr.Dataset({f"rate_prior_{end}": ("feature", np.ones(3)) for end in "ab"}),
            "sample_stats": xr.Dataset({"lp": (both, generator.normal(size=(2, 20)))}, coords=steps),
            "observed_data": xr.Dataset({"y": ("obs_id", np.where(Y == "yes", 1, 0))}, coords=rows),
            "log_likelihood": xr.Dataset(
                {"y": ((*both, "obs_id"), -generator.random((2, 20, 24)))}, coords={**steps, **rows}
            ),
            "posterior_predictive": xr.Dataset(
                {"y": ((*both, "obs_id"), generator.choice([-1, 1], (2, 20, 24)))}, coords={**steps, **rows}
            ),
        }
        _POST.append(bd.groups.assemble(groups, attributes(bd.Model(), np.array(["no", "yes"]))))
    return _POST[0]


def _approximate():
    """The same, said to be of a sampler that takes scores as normal."""
    found = copy.deepcopy(_posterior())
    group = bd.groups.dataset(found, "posterior").assign_attrs(approximation="masks", target="noising")
    # Small weights, so that scores are nearly normal.
    return bd.groups.extend(found, {"posterior": group.assign(weight=0.1 * group["weight"])})


def _selected():
    """The same under a spike-and-slab prior."""
    draws = bd.groups.dataset(_posterior(), "posterior").drop_vars(["rate", "n_active"])
    chance = abs(draws["weight"]).clip(max=1)
    included = (chance > 0.5).astype(np.int8)
    draws = draws.assign(
        weight=draws["weight"] * included, included=included, inclusion_probability=chance,
        model_size=included.sum("feature"),
    )  # fmt: skip
    model = bd.Model(rates=bd.Fixed(0.0), weight_prior=bd.SpikeSlab())
    return bd.groups.assemble({"posterior": draws}, attributes(model, np.array(["no", "yes"])))


def _grouped():
    """The same with random intercepts of two sites for its last two features."""
    draws = bd.groups.dataset(_posterior(), "posterior").drop_vars(["rate", "n_active"])
    prior = RandomEffects(bd.Normal(1.0), ["1|site"], [["a", "b"]], [1.0])
    model = bd.Model(rates=bd.Fixed(0.0), weight_prior=prior)
    return bd.groups.assemble({"posterior": draws}, attributes(model, np.array(["no", "yes"])))


def _counts():
    """A posterior of counts with replicated ones."""
    import xarray as xr

    generator, rows = np.random.default_rng(2), {"obs_id": np.arange(24)}
    groups = {
        "observed_data": xr.Dataset({"y": ("obs_id", generator.poisson(3, 24))}, coords=rows),
        "posterior_predictive": xr.Dataset(
            {"y": (("chain", "draw", "obs_id"), generator.poisson(3, (2, 20, 24)))},
            coords={"chain": [0, 1], "draw": np.arange(20), **rows},
        ),
    }
    return bd.groups.assemble(groups, attributes(bd.Model(bd.Poisson())))


def _projection():
    scores = np.array([[-1.0, -1.1], [-0.6, -0.5], [-0.5, -0.5]])
    return bd.Projection(["a", "b"], np.array([0, 1, 2]), scores, np.array([-0.5, -0.5]), None, None)


def _latent():
    return bd.LatentDropoutSVC(0.1, n_hidden=2, n_init=1, max_iter=5, tol=0.1, random_state=0)


def _classifier():
    return bd.DropoutLogisticRegression(0.2)


# What a parameter of this name starts from, where it has no default.
GOOD = {
    "X": lambda: X,
    "y": lambda: Y,
    "model": bd.Model,
    "post": _posterior,
    "tree": _posterior,
    "fit": lambda: bd.fit(bd.Model(), X, Y),
    "estimator": _classifier,
    "models": lambda: _classifier().fit(X, Y),
    "path": lambda: "file.nc",
    "rate": lambda: 0.3,
    "seed": lambda: 0,
    "shape": lambda: 2.0,
    "scale": lambda: 1.0,
    "groups": lambda: ["g", "g", "h"],
    "source": lambda: [X, X],
    "formula": lambda: "y ~ a + b",
    "data": lambda: {"a": X[:, 0], "b": X[:, 1], "y": Y},
    "probabilities": lambda: RNG.random(24),
    "errors": lambda: {"one": {1.0: 0.5, 2.0: [0.4, 0.6]}},
    "n_components": lambda: 2,
    "group": lambda: "posterior",
    "table": lambda: bd.weights_table(bd.fit(bd.Model(), X, Y)),
    "result": lambda: bd.fit(bd.Model(), X, Y),
}
_SHORT = {"draws": 3, "tune": 3, "chains": 2, "progress": False}
# Arguments that keep a call short, or make it sensible, by the name of what is called.
GIVEN = {
    "fit": {"y": lambda: Y},
    "sample": {"y": lambda: Y, **_SHORT},
    "sample_latent": {**_SHORT, "n_hidden": 2},
    "sample_factorization": _SHORT,
    "prior_draws": {"intercept_scale": 1.0, "draws": 5},
    "variational": {"n_init": 1, "max_iter": 5},
    "cluster": {"address": "tcp://127.0.0.1:9", "timeout": 0.05},
    "posterior_predictive": {"draws": 2},
    "reweight": {"post": lambda: _approximate(), "y": lambda: Y},
    "log_likelihood": {"masks": 2, "X": lambda: X, "y": lambda: Y},
    "kfold": {"y": lambda: Y, "cv": 2},
    "elpd": {"y": lambda: Y},
    "predictions_grid": {"variables": lambda: {"x0": 2}},
    "comparisons": {"variables": lambda: ["x0"]},
    "effects": {"table": lambda: bd.predictions_grid(bd.fit(bd.Model(), X, Y), X, {"x0": 2})},
    "regularizer": {"X": lambda: X, "weights": lambda: [0.5, -1.0, 0.2]},
    "intraclass_correlation": {"result": lambda: _grouped()},
    "hypothesis": {"result": lambda: _posterior(), "statements": "x0 > x1"},
    "credible_sets": {"post": lambda: _selected()},
    "inclusion": {"table": lambda: bd.weights_table(_selected())},
    "project": {"draws": 10, "clusters": 3, "cv": None},
    "projection_path": {"path": lambda: _projection()},
    "reliability_curve": {"probabilities": lambda: np.linspace(0.1, 0.9, 24)},
    "rootogram": {"post": lambda: _counts()},
    "largest_r_hat": {"ess": lambda: [400.0, 500.0], "chains": 4, "draws": 100},
    "deletion_robustness": {"repeats": 2, "rates": [0.0, 0.5]},
    "rates_forest": {"post": None, "fit": lambda: bd.fit(bd.Model(), X, Y)},
    "selection": {"estimator": lambda: bd.DropoutSVCCV([0.0, 0.3], Cs=(1.0,), cv=2).fit(X, Y)},
    "rate_path": {"path": lambda: bd.RatePath(_classifier(), [0.0, 0.3]).fit(X, Y)},
    "class_responses": {"model": lambda: _latent().fit(X, Y)},
    "hidden_units": {"model": lambda: _latent().fit(X, Y), "examples": 1},
    "singular_values": {"model": lambda: bd.DropoutMatrixFactorization().fit(X)},
    "ranks": {"bins": 5, "top": 2},
    "WeightsBlock": {"model": lambda: bd.Model(rates=bd.Fixed(0.0))},
    "RatePath": {"rates": [0.0, 0.3]},
    "DropoutLogisticRegressionCV": {"rates": [0.0, 0.3], "Cs": (1.0,), "cv": 2},
    "DropoutRidgeCV": {"rates": [0.0, 0.3], "Cs": (1.0,), "cv": 2},
    "DropoutSVRCV": {"rates": [0.0, 0.3], "Cs": (1.0,), "cv": 2},
    "DropoutSVCCV": {"rates": [0.0, 0.3], "Cs": (1.0,), "cv": 2},
    "ExplicitCorruption": {"copies": 2, "random_state": 0},
    "LatentDropoutLogisticRegression": {"n_hidden": 2, "n_init": 1, "max_iter": 5, "tol": 0.1, "random_state": 0},
    "LatentDropoutSVC": {"n_hidden": 2, "n_init": 1, "max_iter": 5, "tol": 0.1, "random_state": 0},
    "FDROP": {"max_iter": 50},
    "NBSVM": {"loss": "log_loss"},
}
# Results, made by the package and not by its users; and names that are values rather than calls.
RESULTS = {"Diagnosis", "Elpd", "Fit", "FormulaDesign", "Prediction", "Projection", "Variational", "__version__"}
# They import or hold ArviZ objects for other functions, and take no data.
INNER = {"groups.assemble", "groups.extend"}
METHODS = ("fit", "partial_fit", "predict", "predict_proba", "decision_function", "transform")


def _public():
    for name in bd.__all__:
        thing = getattr(bd, name)
        if name not in RESULTS and not (isinstance(thing, type) and issubclass(thing, Warning)):
            yield name, thing
    for module in ("plots", "baselines", "groups"):
        for name in getattr(bd, module).__all__:
            if f"{module}.{name}" not in INNER:
                yield f"{module}.{name}", getattr(getattr(bd, module), name)


def _parameters(function):
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {n: p for n, p in inspect.signature(function).parameters.items() if n != "self" and p.kind not in kinds}


def _features(where):
    """``X``, without signs for what takes counts alone, with names for what takes data frames alone."""
    if "Formula" in where:
        return GOOD["data"]()
    return np.abs(X) if "NBSVM" in where else X


def _start(where, function):
    """Good arguments of a call by name, made anew each time."""
    arguments = {}
    for name, parameter in _parameters(function).items():
        given = GIVEN.get(where.rpartition(".")[2], {})
        if name in given:
            arguments[name] = given[name]
        elif parameter.default is inspect.Parameter.empty:
            assert name in GOOD, f"{where}: no good value to start from for the parameter {name!r}; add one"
            arguments[name] = _features(where) if name == "X" else GOOD[name]
    return {name: value() if callable(value) else value for name, value in arguments.items()}


def _target(kind):
    regression = any(word in kind.__name__ for word in ("SVR", "Ridge", "Regressor"))
    if "Poisson" in kind.__name__ or "Binomial" in kind.__name__:
        return np.abs(np.round(NUMBERS))
    return NUMBERS if regression else Y


def _calls():
    """``where -> (function whose parameters are tried, call with all arguments)``."""
    found = {}
    for where, thing in _public():
        if isinstance(thing, type) and issubclass(thing, BaseEstimator):

            def construct(thing=thing, **arguments):
                return thing(**arguments).fit(_features(thing.__name__), _target(thing))

            found[where] = (thing, construct)
            for name in METHODS:
                method = getattr(thing, name, None)
                if method is None and not (name == "predict" and "Corruption" in where):
                    continue

                def run(where=where, thing=thing, name=name, **arguments):
                    estimator = thing(**_start(where, thing))
                    if name == "partial_fit" and "classes" in _parameters(thing.partial_fit):
                        arguments = {"classes": ["no", "yes"]} | arguments
                    elif name not in ("fit", "partial_fit"):
                        estimator.fit(_features(where), _target(thing))
                    return getattr(estimator, name)(**arguments)

                found[f"{where}.{name}"] = (method, run)
        elif callable(thing):
            found[where] = (thing, thing)
    return found


CALLS = _calls()


class _HangError(BaseException):
    pass


class _SampledError(BaseException):
    """A sampler would start here: its arguments are all accepted."""


def _instead_of_a_run(*args, **options):
    raise _SampledError


@contextlib.contextmanager
def _within(seconds):
    def ring(number, frame):
        raise _HangError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


_POLITE = (TypeError, ValueError, ImportError, TimeoutError, FileNotFoundError, IsADirectoryError)


def _numbers(result, depth=0):
    """Arrays of a result, each with a name."""
    if isinstance(result, np.ndarray):
        if result.dtype.kind == "f":
            yield "array", result
    elif isinstance(result, float):
        yield "number", np.array(result)
    elif isinstance(result, tuple | list) and depth < 3:
        for part in result:
            yield from _numbers(part, depth + 1)
    elif isinstance(result, BaseEstimator) or type(result).__module__.startswith("bayesdrop"):
        for name, part in getattr(result, "__dict__", {}).items():
            # Without missing or centred data these have no number.
            if name not in ("score_errors_", "shrinkage_", "cv_results_"):
                yield from ((name, array) for _, array in _numbers(part, depth + 2) if depth < 2)
    elif hasattr(result, "children") or (hasattr(result, "groups") and callable(result.groups)):
        for group in ("posterior", "prior", "predictions", "posterior_predictive"):
            if group in bd.groups.group_names(result):
                data = bd.groups.dataset(result, group)
                yield from ((str(name), part) for name in data for _, part in _numbers(data[name].values))


def fault(call, parameter):
    """What is wrong with the way in which a call ends, or None."""
    try:
        with _within(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = call()
    except _HangError:
        return f"more than {SECONDS} s"
    except _SampledError:
        return None
    except _POLITE as error:
        text = str(error)
        frames = [Path(frame.filename).as_posix() for frame in traceback.extract_tb(error.__traceback__)]
        named = re.search(rf"(?<!\w){re.escape(parameter)}(?!\w)", text)
        if (
            named
            or isinstance(error, TimeoutError)
            or "/sklearn/" in frames[-1]
            or "/sklearn/" in frames[-2 if len(frames) > 1 else -1]
        ):
            return None
        return f"{type(error).__name__} that does not name it: {text[:150]}"
    except BaseException as error:
        if isinstance(error, RuntimeError) and str(error) == "called":
            return None  # the value is a function of the user's own, which fails
        return f"{type(error).__name__}: {str(error)[:150]}"
    broken = sorted({name for name, array in _numbers(result) if not np.all(np.isfinite(array))})
    return f"an answer that is not finite in {broken}" if broken else None


def _chosen(where, parameter, count):
    """Some of the values, the same at every run, spread over all of them from one parameter to the next."""
    labels = list(VALUES)
    first = zlib.crc32(f"{where} {parameter}".encode())
    return [labels[(first + 13 * step) % len(labels)] for step in range(min(count, len(labels)))]


def _try(where, count):
    import matplotlib.pyplot as plt

    function, call = CALLS[where]
    faults = []
    for parameter in _parameters(function):
        for label in _chosen(where, parameter, count):
            if where == "groups.load" and (parameter, label) == ("model", "none"):
                continue  # the default, with which the refusal is that of the missing file
            arguments = {**_start(where, function), parameter: VALUES[label]()}
            if where.rpartition(".")[2] in METHODS and "y" in arguments and parameter != "y":
                arguments["y"] = _target(getattr(bd, where.split(".")[0], bd.baselines))
            found = fault(lambda arguments=arguments: call(**arguments), parameter)
            if found:
                faults.append(f"{where}({parameter}={label}): {found}")
            plt.close("all")
    return faults


def _ids():
    return sorted(CALLS)


class _NobodyThere(distributed.Client):
    """Instead of a client of Dask, whose threads would outlive a call that an alarm ends."""

    def __init__(self, *address, **options):
        raise TimeoutError

    def __del__(self):
        pass


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a text may be taken for the name of a file
    # What a sampler does once it runs is the business of other tests, and a compilation takes seconds.
    monkeypatch.setattr("bayesdrop.sampling.run.runner.run", _instead_of_a_run)
    monkeypatch.setattr("distributed.Client", _NobodyThere)


@pytest.mark.parametrize("where", _ids())
def test_odd_values_are_answered_or_refused_by_name(where):
    assert not _try(where, FEW)


TYPES = (
    "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 longdouble bool object >i4 >f8".split()
)
SIZES = 10.0 ** np.linspace(-12, 12, 24)
HALF = (Y == "yes").astype(int)
LABELS = {
    **{kind: HALF.astype(kind) for kind in TYPES},
    "-1 and 1": np.where(HALF, 1, -1).astype(np.int8),
    "bytes": np.where(HALF, b"yes", b"no"),
    "objects": Y.astype(object),
    "list": Y.tolist(),
    "tuple": tuple(Y),
    "read-only": _read_only(Y),
    "Series": pd.Series(Y, index=np.arange(24)[::-1]),
    "category": pd.Series(Y).astype("category"),
    "Int64": pd.Series(HALF).astype("Int64"),
    "boolean": pd.Series(HALF).astype("boolean"),
    "Arrow": pd.Series(Y).astype("string[pyarrow]"),
    "dates": np.where(HALF, np.datetime64("2020-01-01"), np.datetime64("2021-01-01")),
}
RESPONSES = {
    **{kind: np.round(NUMBERS).astype(kind) for kind in TYPES if kind[0] != "u"},
    "uint64": np.abs(np.round(NUMBERS)).astype(np.uint64),
    "1e-12": 1e-12 * NUMBERS,
    "1e12": 1e12 * NUMBERS,
    "about 1e12": 1e12 + NUMBERS,
    "of all sizes": np.sign(NUMBERS) * SIZES,
    "read-only": _read_only(NUMBERS),
    "Float64": pd.Series(NUMBERS).astype("Float64"),
    "list": NUMBERS.tolist(),
}
SCALARS = {"1e-12": 1e-12, "1e-6": 1e-6, "1e6": 1e6, "1e12": 1e12, "long double": np.longdouble(1), "int8": np.int8(1)}
EXTREMES = {
    "sample_weight": {
        "1e-12": np.full(24, 1e-12), "1e12": np.full(24, 1e12), "of all sizes": SIZES, "read-only": _read_only(SIZES),
        **{kind: np.ones(24, dtype=kind) for kind in TYPES},
    },
    "C": SCALARS,
    "rate": {"1e-12": 1e-12, "all but 1": 1 - 1e-12, "long double": np.longdouble(0.3), "float16": np.float16(0.3)},
}  # fmt: skip


@pytest.mark.slow_cases(
    *("Quantile", "SVC", "SVR", "Latent", "RatePath", "Corruption", "FDROP", "CV", "MCF", "plots"),
    *("kfold", "loo", "elpd", "reweight", "variational"),
)
@pytest.mark.parametrize("where", [name for name in _ids() if {"y", *EXTREMES} & set(_parameters(CALLS[name][0]))])
def test_extremes_are_answered_or_refused_by_name(where):
    import matplotlib.pyplot as plt

    function, call = CALLS[where]
    kind = getattr(bd, where.split(".")[0]) if "baselines" not in where else None
    of_numbers = isinstance(kind, type) and issubclass(kind, BaseEstimator) and _target(kind) is not Y
    faults = []
    for parameter in _parameters(function):
        values = (RESPONSES if of_numbers else LABELS) if parameter == "y" else EXTREMES.get(parameter, {})
        for label, value in values.items():
            arguments = {**_start(where, function), parameter: value}
            if where.rpartition(".")[2] in METHODS and "y" in arguments and parameter != "y":
                arguments["y"] = _target(kind or bd.baselines)
            found = fault(lambda arguments=arguments: call(**arguments), parameter)
            faults += [f"{where}({parameter}={label}): {found}"] if found else []
            plt.close("all")
    assert not faults


@pytest.mark.slow
@pytest.mark.parametrize("where", _ids())
def test_all_odd_values_are_answered_or_refused_by_name(where):
    assert not _try(where, len(VALUES))


def test_every_good_call_is_answered():
    """What the odd values are put into would end well without them, or their refusal says nothing."""
    from matplotlib import pyplot as plt

    for where, (function, call) in CALLS.items():
        if where in ("cluster", "groups.load"):  # nothing to connect to, and no file
            continue
        arguments = _start(where, function)
        if where.rpartition(".")[2] in METHODS and "y" in arguments:
            arguments["y"] = _target(getattr(bd, where.split(".")[0], bd.baselines))
        found = fault(lambda call=call, arguments=arguments: _answer(call, arguments), "…")
        assert found is None, (where, found)
        plt.close("all")


def _answer(call, arguments):
    try:
        return call(**arguments)
    except Exception as error:
        raise AssertionError(str(error)) from error


def _index(values):
    return [1, 2, 3][values]


def _told(values):
    raise ValueError(f"values: expected numbers, got {values!r}.")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: _index(9), "IndexError"),
        (lambda: float("text"), "does not name"),
        (lambda: np.array([np.nan]), "not finite"),
        (lambda: _told("text"), None),
    ],
)
def test_the_law_finds_planted_errors(call, expected):
    found = fault(call, "values")
    assert (found is None) if expected is None else expected in found
