"""One response for each row, whatever holds it: the same fit and the same labels, or words that say what to do."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr
from scipy import sparse

import bayesdrop as bd

RNG = np.random.default_rng(4)
N = 24
X = RNG.normal(size=(N, 2))
TRUE = X[:, 0] + RNG.normal(size=N) > 0
WHOLE, TEXT = TRUE.astype(int), np.where(TRUE, "yes", "no")
MODEL = bd.Model(rates=bd.Fixed(0.2))


def _read_only(y):
    copy = y.copy()
    copy.setflags(write=False)
    return copy


# Whole numbers, truth values and text in everything that may hold them.
HELD = {
    "list": lambda y: y.tolist(),
    "tuple": lambda y: tuple(y.tolist()),
    "read-only": _read_only,
    "every second of a longer one": lambda y: np.repeat(y, 2)[::2],
    "objects": lambda y: y.astype(object),
    "pandas": pd.Series,
    "pandas, objects": lambda y: pd.Series(y.astype(object)),
    "pandas, nullable": lambda y: pd.Series(y).convert_dtypes(),
    "pandas, Arrow": lambda y: pd.Series(y).convert_dtypes(dtype_backend="pyarrow"),
    "pandas, categories": lambda y: pd.Series(y, dtype="category"),
    "pandas, an array of its own": lambda y: pd.array(y),
    "pandas, Index": pd.Index,
    "polars": pl.Series,
    "Arrow": lambda y: pa.array(y.tolist()),
    "Arrow, chunks": lambda y: pa.chunked_array([y[:5].tolist(), y[5:].tolist()]),
    "Arrow, dictionary": lambda y: pa.array(y.tolist()).dictionary_encode(),
    "xarray": xr.DataArray,
}
NUMBERS = ("int8", "int64", "uint8", "uint64", "float16", "float32", "float64", "longdouble", ">i4", ">f8")
WORDS = {
    "StringDType": lambda y: y.astype(np.dtypes.StringDType()),
    "polars, Categorical": lambda y: pl.Series(y.tolist(), dtype=pl.Categorical),
    "polars, Enum": lambda y: pl.Series(y.tolist(), dtype=pl.Enum(["no", "yes"])),
}
MATRICES = {
    "one column": lambda y: y[:, None],
    "pandas": lambda y: pd.DataFrame({"y": y}),
    "polars": lambda y: pl.DataFrame({"y": y}),
    "pyarrow": lambda y: pa.table({"y": y}),
}


FIT = {name: bd.fit(MODEL, X, y) for name, y in (("whole", WHOLE), ("true", TRUE), ("text", TEXT))}
# What takes classes, and what is compared of it; the labels come back as those of an array do.
CLASSES = {
    "bd.fit": lambda y, _: ((fit := bd.fit(MODEL, X, y)).weight, fit.classes),
    "bd.elpd": lambda y, kind: (bd.elpd(FIT[kind], X, y).pointwise, FIT[kind].classes),
    "estimator": lambda y, _: ((fit := bd.DropoutLogisticRegression(0.2).fit(X, y)).coef_[0], fit.classes_),
    "partial_fit": lambda y, _: (bd.DropoutSVC(0.2).partial_fit(X, y, np.unique(np.asarray(y))).coef_, None),
    "search": lambda y, _: ((fit := bd.DropoutSVCCV([0.2], Cs=[1.0], cv=2).fit(X, y)).coef_, fit.classes_),
}
RESPONSES = {
    "bd.fit": lambda y: bd.fit(bd.Model(bd.Squared(), rates=bd.Fixed(0.1)), X, y).weight,
    "bd.fit of counts": lambda y: bd.fit(bd.Model(bd.Poisson(), rates=bd.Fixed(0.1)), X, y).weight,
    "bd.elpd": lambda y: bd.elpd(bd.fit(bd.Model(bd.Squared(), rates=bd.Fixed(0.1)), X, WHOLE), X, y).pointwise,
    "estimator": lambda y: bd.DropoutRidge(0.1).fit(X, y).coef_,
    "partial_fit": lambda y: bd.DropoutSVR(0.1).partial_fit(X, y).coef_,
    "score": lambda y: np.array(bd.DropoutPoissonRegressor(0.1).fit(X, WHOLE).score(X, y)),
}


@pytest.mark.default_cases("bd.elpd", "partial_fit")
@pytest.mark.parametrize("name", CLASSES)
def test_labels_are_the_same_whatever_holds_them(name):
    for kind, y in (("whole", WHOLE), ("true", TRUE), ("text", TEXT)):
        expected, classes = CLASSES[name](y, kind)
        for label, make in {**HELD, **(WORDS if kind == "text" else {})}.items():
            if name == "partial_fit" and (kind, label) not in (("whole", "pandas"), ("text", "Arrow")):
                continue  # whose classes are given beside
            found, labels = CLASSES[name](make(y), kind)
            np.testing.assert_allclose(found, expected, rtol=1e-10, err_msg=f"{kind}: {label}")
            if classes is not None:
                assert labels.tolist() == classes.tolist(), label
                assert [type(one) for one in labels.tolist()] == [type(one) for one in classes.tolist()], label


@pytest.mark.parametrize("name", RESPONSES)
def test_responses_are_the_same_whatever_holds_them(name):
    expected = RESPONSES[name](WHOLE)
    for dtype in NUMBERS:
        np.testing.assert_allclose(RESPONSES[name](WHOLE.astype(dtype)), expected, rtol=1e-10, err_msg=dtype)
    for label, make in HELD.items():
        np.testing.assert_allclose(RESPONSES[name](make(WHOLE)), expected, rtol=1e-10, err_msg=label)
    for label, make in MATRICES.items():
        with pytest.warns(UserWarning, match="A column-vector y was passed"):
            np.testing.assert_allclose(RESPONSES[name](make(WHOLE)), expected, rtol=1e-10, err_msg=label)


def test_numbers_of_every_type_are_labels():
    expected = FIT["whole"].weight
    for dtype in NUMBERS:
        fit = bd.fit(MODEL, X, WHOLE.astype(dtype))
        np.testing.assert_allclose(fit.weight, expected, rtol=1e-12)
        assert fit.classes.tolist() == [0, 1]
        np.testing.assert_allclose(fit.predict(X).mean, FIT["whole"].predict(X).mean, rtol=1e-12)
        assert fit.predict(X).label.dtype == np.dtype(dtype)


@pytest.mark.parametrize("name", ["sample_weight", "offset"])
def test_weights_and_offsets_are_the_same_whatever_holds_them(name):
    numbers = 1 + RNG.integers(0, 3, size=N)
    expected = bd.fit(MODEL, X, WHOLE, **{name: numbers}).weight
    for make in HELD.values():
        np.testing.assert_allclose(bd.fit(MODEL, X, WHOLE, **{name: make(numbers)}).weight, expected, rtol=1e-12)
    for dtype in NUMBERS:
        given = numbers.astype(dtype)
        np.testing.assert_allclose(bd.fit(MODEL, X, WHOLE, **{name: given}).weight, expected, rtol=1e-12)


GAPS = np.where(np.arange(N) == 3, None, WHOLE)
NONE = r"y: expected a value in each row, got none \(NaN, None or NA\) in 1 of 24, the first of them row 3"
WRONG = {
    "None": (GAPS, NONE),
    "NaN": (np.where(np.arange(N) == 3, np.nan, WHOLE), NONE),
    "pandas' NA": (pd.Series(GAPS, dtype="Int64"), NONE),
    "pandas' NA among text": (pd.Series(TEXT, dtype="string").where(np.arange(N) != 3), NONE),
    "null of polars": (pl.Series(GAPS.tolist()), NONE),
    "null of Arrow": (pa.array(GAPS.tolist()), NONE),
    "null of text": (pa.array(np.where(np.arange(N) == 3, None, TEXT).tolist()), NONE),
    "bytes": (TEXT.astype(bytes), "y: expected numbers or text, got bytes"),
    "complex numbers": (WHOLE + 0j, "y: Complex data not supported"),
    "a sparse column": (sparse.csr_array(WHOLE[:, None]), "Sparse data was passed for y"),
    "too few": (WHOLE[:5], "y: expected 24 values, one for each row of X, got 5"),
    "two columns": (np.stack([WHOLE, WHOLE], axis=1), "1d array"),
    "a set": (set(WHOLE.tolist()), "1d array"),
}


@pytest.mark.parametrize("label", WRONG)
def test_what_is_no_response_is_refused_in_words(label):
    y, message = WRONG[label]
    for call in (
        *(lambda y, call=call: call(y, "whole") for name, call in CLASSES.items() if name != "partial_fit"),
        lambda y: bd.DropoutSVC(0.2).partial_fit(X, y, [0, 1]),
        *RESPONSES.values(),
    ):
        with pytest.raises((TypeError, ValueError), match=f"{message}|inconsistent numbers"):
            call(y)


def test_dates_and_text_are_no_responses():
    dates = np.where(TRUE, np.datetime64("2020-01-01"), np.datetime64("2021-01-01"))
    for call in RESPONSES.values():
        with pytest.raises(TypeError, match="y: expected numbers, got datetime64.*turn dates into numbers|dtype"):
            call(dates)
        with pytest.raises(ValueError, match="y: expected numbers, got the text 'yes'|could not convert string"):
            call(TEXT)
    assert bd.fit(MODEL, X, dates).classes.tolist() == np.unique(dates).tolist()  # and may be labels


def test_long_doubles_beyond_double_precision():
    with pytest.raises(ValueError, match="infinity"):
        bd.fit(MODEL, X.astype(np.longdouble) * np.longdouble("1e400"), WHOLE)
    with pytest.raises(ValueError, match="infinity"):
        bd.fit(bd.Model(bd.Squared(), rates=bd.Fixed(0.1)), X, WHOLE * np.longdouble("1e400"))
