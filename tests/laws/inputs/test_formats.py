"""One matrix, one answer: whatever holds it, results agree to 1e-8, and what cannot be taken is refused by name.

The numbers are small integers, which every type holds exactly, so that any difference is the library's.
"""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import bayesdrop as bd
from bayesdrop.warnings import NarrowIntervalsWarning

RNG = np.random.default_rng(3)
N, P = 40, 4
X = np.where(RNG.random((N, P)) < 0.6, RNG.integers(-3, 4, size=(N, P)), 0).astype(float)
X[0], X[1] = 1.0, -1.0  # no empty column
Y = np.where(X[:, 0] - X[:, 1] + RNG.normal(size=N) > 0, "yes", "no")
NUMBERS = X @ [1.0, -1.0, 0.5, 0.0] + 0.3 * RNG.normal(size=N)
NAMES = [f"x{d}" for d in range(P)]


def _unsorted(X):
    """Compressed rows whose columns are in no order, with an entry in two parts and a zero that is stored."""
    rows, columns = np.nonzero(X)
    values = X[rows, columns]
    data = np.concatenate([values - 1, np.ones(len(rows)), [0.0]])
    place = (np.append(np.tile(rows, 2), 5), np.append(np.tile(columns, 2), 2))
    coo = sparse.coo_array((data, place), shape=X.shape)
    order = np.lexsort((-coo.coords[1], coo.coords[0]))
    indptr = np.searchsorted(coo.coords[0][order], np.arange(len(X) + 1))
    return sparse.csr_array((coo.data[order], coo.coords[1][order], indptr), shape=X.shape)


def _long_indices(X):
    csr = sparse.csr_array(X)
    csr.indices, csr.indptr = csr.indices.astype(np.int64), csr.indptr.astype(np.int64)
    return csr


def _read_only(X):
    copy = X.copy()
    copy.setflags(write=False)
    return copy


def _memory_map(X, folder):
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


def _jax(X):
    import jax

    with jax.enable_x64(True):
        return jax.numpy.asarray(X)


FORMATS = {
    "list": lambda X, _: X.tolist(),
    "tuple of arrays": lambda X, _: tuple(X),
    "by columns": lambda X, _: np.asfortranarray(X),
    "every second row of a larger one": lambda X, _: np.repeat(X, 2, axis=0)[::2],
    "reversed view": lambda X, _: X[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": lambda X, _: _read_only(X),
    "memory map": _memory_map,
    "float32": lambda X, _: X.astype(np.float32),
    "float16": lambda X, _: X.astype(np.float16),
    "big-endian": lambda X, _: X.astype(">f8"),
    "int8": lambda X, _: X.astype(np.int8),
    "int64": lambda X, _: X.astype(np.int64),
    "objects": lambda X, _: X.astype(object),
    "long double": lambda X, _: X.astype(np.longdouble),
    "csr_array": lambda X, _: sparse.csr_array(X),
    "csr_matrix": lambda X, _: sparse.csr_matrix(X),
    "csr, int64 indices": lambda X, _: _long_indices(X),
    "csr, unsorted and double": lambda X, _: _unsorted(X),
    "csc_array": lambda X, _: sparse.csc_array(X),
    "coo_array": lambda X, _: sparse.coo_array(X),
    "bsr_array": lambda X, _: sparse.bsr_array(X, blocksize=(2, 2)),
    "lil_array": lambda X, _: sparse.lil_array(X),
    "dok_array": lambda X, _: sparse.dok_array(X),
    "dia_array": lambda X, _: sparse.dia_array(X),
    "csr of integers": lambda X, _: sparse.csr_array(X.astype(np.int32)),
    "pandas": lambda X, _: pd.DataFrame(X, columns=NAMES),
    "pandas, nullable": lambda X, _: pd.DataFrame(X, columns=NAMES).astype("Int64"),
    "pandas, Arrow": lambda X, _: pd.DataFrame(X, columns=NAMES).astype("float64[pyarrow]"),
    "pandas, sparse": lambda X, _: pd.DataFrame.sparse.from_spmatrix(sparse.csr_array(X), columns=NAMES),
    "pandas, mixed": lambda X, _: pd.DataFrame(X, columns=NAMES).astype({"x0": np.int64, "x1": np.float32}),
    "polars": lambda X, _: pl.DataFrame(X, schema=NAMES),
    "polars, integers": lambda X, _: pl.DataFrame(X.astype(np.int64), schema=NAMES),
    "pandas, categories": lambda X, _: pd.DataFrame(X, columns=NAMES).astype("category"),
    "pandas, objects": lambda X, _: pd.DataFrame(X, columns=NAMES).astype(object),
    "pandas, default labels": lambda X, _: pd.DataFrame(X),
    "polars, Decimal": lambda X, _: pl.DataFrame(X, schema=NAMES).cast(pl.Decimal(10, 2)),
    "pyarrow": lambda X, _: pa.table(dict(zip(NAMES, X.T, strict=True))),
    "pyarrow, integers": lambda X, _: pa.table(dict(zip(NAMES, X.T.astype(np.int8), strict=True))),
    "pyarrow, RecordBatch": lambda X, _: pa.record_batch(dict(zip(NAMES, X.T, strict=True))),
    "dict": lambda X, _: dict(zip(NAMES, X.T, strict=True)),
    "dict of lists": lambda X, _: dict(zip(NAMES, X.T.tolist(), strict=True)),
    "dict of columns of polars": lambda X, _: {name: pl.Series(x) for name, x in zip(NAMES, X.T, strict=True)},
    "records": lambda X, _: pd.DataFrame(X, columns=NAMES).to_records(index=False),
    "xarray": lambda X, _: xr.DataArray(X, coords={"feature": NAMES}, dims=("row", "feature")),
    "xarray without labels": lambda X, _: xr.DataArray(X),
    "xarray, Dataset": lambda X, _: xr.Dataset({name: ("row", x) for name, x in zip(NAMES, X.T, strict=True)}),
    "text that is numbers": lambda X, _: X.astype(str),
    "jax": lambda X, _: _jax(X),
}
MOST = {
    # What may lie elsewhere, for what goes through the rows a block at a time.
    "blocks": lambda X, _: bd.Blocks([X[:15], sparse.csr_array(X[15:])]),
    "blocks of tables": lambda X, _: bd.Blocks(
        [pd.DataFrame(X[:15], columns=NAMES).astype("Int64"), pl.DataFrame(X[15:], NAMES)]
    ),
}
FRAMES = {
    "dask, pandas": lambda X, _: _dask_frame(X),
    "dask, nullable": lambda X, _: _dask_frame(X, "Int64"),
    "dask, Arrow": lambda X, _: _dask_frame(X, "float64[pyarrow]"),
}
DASK = {"predict": {"dask": lambda X, _: _dask(X), **FRAMES}, "DropoutRidge": {"dask, Arrow": FRAMES["dask, Arrow"]}}


def _dask(X):
    da = pytest.importorskip("dask.array")
    return da.from_array(X, chunks=(16, P))


def _dask_frame(X, dtype=None):
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(X, columns=NAMES)
    return dd.from_pandas(frame if dtype is None else frame.astype(dtype), npartitions=3)


def _model():
    return bd.Model(rates=bd.PerFeature(bd.Beta(2.0, 2.0)))


def _fit(X):
    result = bd.fit(_model(), X, Y, method=bd.Newton(tol=1e-15))
    return np.concatenate([result.weight, [result.intercept], result.rates])


def _variational(X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NarrowIntervalsWarning)
        result = bd.variational(_model(), X, Y, n_init=1, max_iter=20, tol=0.1)
    return np.concatenate([result.weight_mean, result.rates])


def _estimator(estimator, y, method="predict_proba"):
    def run(X):
        return np.asarray(getattr(estimator().fit(X, y), method)(X), dtype=float)

    return run


def _partial(X):
    model = bd.DropoutSVC(0.2)
    return model.partial_fit(X, Y, ["no", "yes"]).partial_fit(X, Y).coef_


def _corruption(X):
    model = bd.baselines.ExplicitCorruption(LogisticRegression(tol=1e-12, max_iter=1000), random_state=0, copies=2)
    return model.fit(X, Y).estimator_.coef_


def _unlabelled(X):
    return bd.DropoutLogisticRegression(0.3).fit(X, Y, unlabelled=X).coef_


def _posterior():
    import xarray as xr

    from bayesdrop.description import attributes

    generator = np.random.default_rng(1)
    draws = {"weight": generator.normal(size=(1, 5, P)), "rate": generator.random((1, 5, P))}
    data = xr.Dataset({name: (("chain", "draw", "feature"), value) for name, value in draws.items()})
    data = data.assign(intercept=(("chain", "draw"), generator.normal(size=(1, 5))))
    data = data.assign_coords(chain=[0], draw=np.arange(5), feature=NAMES)
    observed = xr.Dataset({"y": ("obs_id", np.where(Y == "yes", 1, 0))}, coords={"obs_id": np.arange(N)})
    groups = {"posterior": data, "observed_data": observed}
    return bd.groups.assemble(groups, attributes(_model(), np.array(["no", "yes"])))


def _simulated(X):
    tree = bd.posterior_predictive(_posterior(), X, new=True)
    return bd.groups.dataset(tree, "predictions")["y"].values


def _log_likelihood(X):
    tree = bd.log_likelihood(_posterior(), X, Y, masks=16)
    return bd.groups.dataset(tree, "log_likelihood")["y"].values


def _frame(table):
    return table.select_dtypes("number").to_numpy()


def _effects(result):
    return lambda X: _frame(bd.marginal_effects(result(), X))


def _fitted():
    return bd.fit(_model(), X, Y, method=bd.Newton(tol=1e-15), feature_names=NAMES)


def _plain():
    return bd.fit(bd.Model(rates=bd.Fixed(0.0)), X, Y, method=bd.Newton(tol=1e-15), feature_names=NAMES)


def _of_factors(X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bd.MixingWarning)
        tree = bd.sample_factorization(X, 1, draws=2, tune=2, chains=1, progress=False)
    return bd.groups.dataset(tree, "posterior")["n_active"].values


def _sampled(X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bd.MixingWarning)
        tree = bd.sample(_model(), X, Y, draws=2, tune=2, chains=1, progress=False)
    return bd.groups.dataset(tree, "posterior")["rate"].values


def _prior(X):
    tree = bd.prior_draws(_model(), X, draws=5, intercept_scale=1.0)
    return bd.groups.dataset(tree, "prior_predictive")["y"].values


def _deleted(X):
    left = bd.delete_features(X, 0.5, 0)
    return left.toarray() if sparse.issparse(left) else np.asarray(left, dtype=float)


CALLS = {
    "fit": _fit,
    "variational": _variational,
    "DropoutLogisticRegression": _estimator(lambda: bd.DropoutLogisticRegression(bd.PerFeature(), tol=1e-15), Y),
    "DropoutSVC": _estimator(lambda: bd.DropoutSVC(bd.PerFeature()), Y),
    "DropoutRidge": _estimator(lambda: bd.DropoutRidge(tol=1e-15), NUMBERS, "predict"),
    "DropoutSVR": _estimator(bd.DropoutSVR, NUMBERS, "predict"),
    "softmax": _estimator(lambda: bd.DropoutLogisticRegression(0.5, multiclass="softmax"), np.arange(N) % 3),
    "unlabelled": _unlabelled,
    "partial_fit": _partial,
    "LatentDropoutSVC": _estimator(
        lambda: bd.LatentDropoutSVC(0.1, n_hidden=2, n_init=1, tol=0.1, max_iter=5, random_state=0), Y
    ),
    "DropoutSVCCV": _estimator(lambda: bd.DropoutSVCCV([0.2], Cs=(1.0,), cv=2), Y),
    "RatePath": lambda X: bd.RatePath(bd.DropoutRidge(), [0.0, 0.3]).fit(X, NUMBERS).coefs_,
    "DropoutMatrixFactorization": lambda X: bd.DropoutMatrixFactorization(2).fit(X).singular_values_,
    "ExplicitCorruption": _corruption,
    "FDROP": _estimator(lambda: bd.baselines.FDROP(max_iter=50), Y, "decision_function"),
    "MCFLogistic": _estimator(bd.baselines.MCFLogistic, Y, "decision_function"),
    "predict": lambda X: bd.predict(_posterior(), X).mean,
    "posterior_predictive": _simulated,
    "log_likelihood": _log_likelihood,
    "predict of a fit": lambda X: _fitted().predict(X).mean,
    "elpd": lambda X: bd.elpd(_posterior(), X, Y).pointwise,
    "elpd of a fit": lambda X: bd.elpd(_fitted(), X, Y).pointwise,
    "marginal_effects": _effects(_posterior),
    "marginal_effects of a fit": _effects(_plain),
    "sample_factorization": _of_factors,
    "sample": _sampled,
    "prior_draws": _prior,
    "delete_features": _deleted,
}
# float32 stays what it is in a factorisation, as its documentation says, and in an estimator of scikit-learn.
# There the steps of its logistic regression end where the energy, flat at its least, is the same to the last digit.
SINGLE = {("DropoutMatrixFactorization", "float32"): 1e-5, ("ExplicitCorruption", "float32"): 2**-11.5}
SPARSE = {label for label in FORMATS if any(word in label for word in ("_array", "_matrix", "csr", "pandas, sparse"))}
# The draws of sparse rows are others, and a factorisation is sampled of dense ones alone.
KEPT = {"sample": SPARSE, "sample_factorization": SPARSE}
ANYWHERE = ("fit", "DropoutLogisticRegression", "DropoutRidge", "predict", "log_likelihood", "elpd")


@pytest.mark.default_cases(
    "DropoutRidge", "DropoutMatrixFactorization", "ExplicitCorruption", "MCFLogistic", "delete_features"
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", CALLS)
def test_every_format_gives_the_same_answer(name, tmp_path):
    expected = CALLS[name](X)
    assert np.all(np.isfinite(expected))
    formats = {**FORMATS, **(MOST if name in ANYWHERE else {}), **DASK.get(name, {})}
    for label, make in formats.items():
        if label in KEPT.get(name, ()):
            continue
        found = CALLS[name](make(X, tmp_path))
        tolerance = SINGLE.get((name, label), 1e-8)
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=f"{name}: {label}")


def test_the_callers_matrix_stays_as_it_is(tmp_path):
    for label in ("by columns", "csr, unsorted and double", "csc_array", "coo_array", "pandas", "float32"):
        given, again = (FORMATS[label](X, tmp_path) for _ in range(2))
        for call in (CALLS["fit"], CALLS["ExplicitCorruption"], CALLS["delete_features"], CALLS["predict"]):
            call(given)
        for part in ("data", "indices", "indptr"):
            if sparse.issparse(given) and hasattr(given, part):
                np.testing.assert_array_equal(getattr(given, part), getattr(again, part), err_msg=label)
        if not sparse.issparse(given):
            np.testing.assert_array_equal(np.asarray(given), np.asarray(again), err_msg=label)


OF_RESULTS = {"posterior_predictive", "log_likelihood"}
OF_RESULTS |= {name for name in CALLS if name.startswith(("predict", "elpd", "marginal"))}
MASKED = np.ma.masked_array(X, mask=X == 3.0)
DATED = {
    "dates": np.array(["2020-01-01"] * N * P, dtype="datetime64[D]").reshape(N, P),
    "durations": np.ones((N, P), dtype="timedelta64[s]"),
    "pandas dates": pd.DataFrame({"when": pd.date_range("2020-01-01", periods=N), "b": X[:, 1]}),
    "time zones": pd.DataFrame({"when": pd.date_range("2020-01-01", periods=N, tz="UTC"), "b": X[:, 1]}),
    "periods": pd.DataFrame({"when": pd.period_range("2020-01-01", periods=N), "b": X[:, 1]}),
    "polars dates": pl.DataFrame({"when": pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 2, 9), eager=True)}),
}


@pytest.mark.parametrize("name", CALLS)
def test_masks_and_dates_are_refused(name):
    for bad in (MASKED, list(MASKED)):
        with pytest.raises(TypeError, match=r"X: expected a plain array, got a masked one.*\.filled|unlabelled: "):
            CALLS[name](bad)
    if name in OF_RESULTS:  # other columns, which is said first
        return
    for bad in DATED.values():
        with pytest.raises(TypeError, match=r"(X|unlabelled): expected numbers, got .*; turn dates into numbers"):
            CALLS[name](bad)


WRONG = {
    "a lazy frame": (lambda: pl.DataFrame(X, schema=NAMES).lazy(), r"collect\(\) them before"),
    "a column of pandas": (lambda: pd.Series(X[:, 0]), "got one column"),
    "a column of polars": (lambda: pl.Series(X[:, 0]), "got one column"),
    "a column of Arrow": (lambda: pa.chunked_array([X[:, 0]]), "got one column"),
    "a DataArray of one dimension": (lambda: xr.DataArray(X[:, 0]), "got a DataArray with the dimensions"),
    "a Dataset of matrices": (lambda: xr.Dataset({"a": (("row", "column"), X)}), "variables lie along one dimension"),
    "blocks of Dask in xarray": (lambda: xr.DataArray(X).chunk(), r"load\(\) it"),
    "columns of two lengths": (lambda: {"x0": X[:, 0], "x1": X[:5, 0]}, "a dict of columns of one length"),
    "a dict of numbers": (lambda: dict.fromkeys(NAMES, 1.0), "a dict of columns of one length"),
    "rows as dicts": (lambda: [dict(zip(NAMES, x, strict=True)) for x in X], "give each number a column"),
    "rows of two lengths": (lambda: [[1.0], [1.0, 2.0]], "rows of different lengths"),
    "one name twice": (lambda: pd.DataFrame(X, columns=["x0", "x0", "x2", "x3"]), "called 'x0'; rename them"),
    "names that are one as text": (lambda: pd.DataFrame(X, columns=[7, "7", 8, 9]), "called '7'; rename them"),
    "text": (lambda: pd.DataFrame(X, columns=NAMES).assign(x2="red"), "'red' in column 'x2', row 0; encode it"),
    "categories": (
        lambda: pl.DataFrame(X, schema=NAMES).with_columns(x2=pl.lit("red", pl.Categorical)), "'red' in column 'x2'"
    ),
    "lists": (lambda: pl.DataFrame(X, schema=NAMES).with_columns(x2=pl.concat_list("x2")), "in column 'x2', row 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_what_is_no_matrix_is_refused_in_words(name):
    """Whoever asks first, the columns of the fit or the numbers, says what to do."""
    for label, (make, message) in WRONG.items():
        other = "|columns of the fit" if name in OF_RESULTS else ""
        with pytest.raises((TypeError, ValueError), match=f"(X|unlabelled): .*({message}{other})"):
            CALLS[name](make())
        assert label


def test_masked_labels_and_weights_are_refused():
    mask = np.arange(N) % 7 == 0
    y, numbers = np.ma.masked_array(Y, mask), np.ma.masked_array(NUMBERS, mask)
    weight = np.ma.masked_array(np.ones(N), mask)
    for call in (
        lambda: bd.fit(_model(), X, y),
        lambda: bd.variational(_model(), X, y),
        lambda: bd.sample(_model(), X, y),
        lambda: bd.log_likelihood(_posterior(), X, y),
        lambda: bd.DropoutSVC().fit(X, y),
        lambda: bd.DropoutSVC().partial_fit(X, y, ["no", "yes"]),
        lambda: bd.DropoutRidge().fit(X, numbers),
        lambda: bd.LatentDropoutSVC().fit(X, y),
        lambda: bd.DropoutSVCCV().fit(X, y),
        lambda: bd.RatePath(bd.DropoutSVC()).fit(X, y),
        lambda: bd.baselines.FDROP().fit(X, y),
        lambda: bd.baselines.ExplicitCorruption(LogisticRegression()).fit(X, y),
    ):
        with pytest.raises(TypeError, match="y: expected a plain array, got a masked one"):
            call()
    for call in (
        lambda: bd.fit(_model(), X, Y, sample_weight=weight),
        lambda: bd.DropoutSVC().fit(X, Y, weight),
        lambda: bd.baselines.MCFLogistic().fit(X, Y, weight),
        lambda: bd.LatentDropoutSVC().fit(X, Y, weight),
    ):
        with pytest.raises(TypeError, match="sample_weight: expected a plain array, got a masked one"):
            call()
