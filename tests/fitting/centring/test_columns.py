"""Summaries of columns: plain statements in NumPy, weights as copies of rows, the same of every storage."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import StandardScaler

import bayesdrop as bd
from bayesdrop.designs import DaskDesign, as_design, with_missing
from bayesdrop.designs import columns as columns_module
from bayesdrop.designs.columns import ColumnSummary, summarise

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 6)) * np.array([1.0, 1e-3, 50.0, 1.0, 1.0, 1.0]) + np.array(
    [0.0, 7.0, -900.0, 3.0, 0.0, 1e6]
)
X[:, 3] = 7.1  # does not vary, and its mean is not exact in binary
X[RNG.random(3000) < 0.8, 4] = 0.0
COPIES = RNG.integers(0, 4, size=3000)


def plainly(X, weight):
    """The summary, column by column."""
    parts = []
    for column in X.T:
        here = (weight > 0) & ~np.isnan(column)
        x, s = column[here], weight[here]
        mean = np.average(x, weights=s) if len(x) else 0.0
        some = np.abs(x[x != 0])
        parts.append(
            [s.sum(), s[x != 0].sum(), mean, np.sum(s * (x - mean) ** 2)]
            + ([x.min(), x.max()] if len(x) else [np.inf, -np.inf])
            + [some.min() if len(some) else np.inf]
        )
    return ColumnSummary(int(np.sum(weight > 0)), *np.array(parts).T)


def same(found, expected):
    assert found.rows == expected.rows
    for name in ("total", "nonzero", "low", "high", "smallest"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-13, err_msg=name)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12, atol=1e-13)
    # A spread of 1 at a mean of a million has ten digits left.
    np.testing.assert_allclose(found.spread, expected.spread, rtol=1e-9)


def dask(X, weight):
    da = pytest.importorskip("dask.array")
    return DaskDesign(da.from_array(X, chunks=(700, X.shape[1]))), da.from_array(weight, chunks=700)


STORAGES = {
    "dense": lambda X, s: (as_design(X), s),
    "fortran": lambda X, s: (as_design(np.asfortranarray(X)), s),
    "csr": lambda X, s: (as_design(sparse.csr_array(X)), s),
    "csc": lambda X, s: (as_design(sparse.csc_array(X)), s),
    "duplicates": lambda X, s: (
        as_design(sparse.csr_array((np.tile(X / 2, 2).ravel(), np.tile(np.arange(6), 6000), np.arange(3001) * 12))),
        s,
    ),
    "blocks": lambda X, s: (bd.Blocks([X[:1000], X[1000:1001], X[1001:]]), s),
    "sparse blocks": lambda X, s: (bd.Blocks([sparse.csr_array(X[:1000]), sparse.csr_array(X[1000:])]), s),
    "dask": dask,
    "missing": lambda X, s: (as_design(with_missing(np.where(HOLES, np.nan, X))), s),
    "sparse missing": lambda X, s: (as_design(with_missing(sparse.csr_array(np.where(HOLES, np.nan, X)))), s),
}
HOLES = RNG.random(X.shape) < 0.3
HOLES[:, 2] = True


@pytest.mark.parametrize("storage", STORAGES)
def test_every_storage_has_the_summary_of_its_entries(monkeypatch, storage):
    monkeypatch.setattr(columns_module, "BLOCK", 5000)
    design, weight = STORAGES[storage](X, COPIES.astype(float))
    entries = np.where(HOLES, np.nan, X) if "missing" in storage else X
    same(design.column_summary(weight), plainly(entries, COPIES.astype(float)))


def test_weights_are_copies_of_rows():
    found, whole = summarise(X, COPIES.astype(float)), np.repeat(X, COPIES, axis=0)
    np.testing.assert_allclose(found.mean, whole.mean(axis=0), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(found.spread, StandardScaler().fit(whole).scale_, rtol=1e-9)
    assert found.mean[3] == 7.1
    assert not found.varies[3]


def test_rows_of_no_weight_and_no_rows():
    for rows in (X[:3], sparse.csr_array(X[:3])):
        found, empty = summarise(rows, np.zeros(3)), ColumnSummary.empty(6)
        for one, other in zip(found, empty, strict=True):
            np.testing.assert_array_equal(one, other)
    assert not found.usually_one_signed.any()
    assert not found.always_one_signed.any()
    assert found.extreme_spreads() == (1.0, 0, 0)


def test_columns_without_a_centre_may_be_selected_of_centred_ones():
    table = np.diag([4.0, 0.0, 2.0])
    design = as_design(sparse.csr_array(table)).shifted(np.array([1.0, 0.0, 0.0])).select_columns(np.array([1, 2]))
    same(design.column_summary(np.ones(3)), plainly(table[:, 1:], np.ones(3)))


@pytest.mark.parametrize("size", [1 << 20, 30])
def test_unusual_zeros_are_what_each_column_by_itself_says(monkeypatch, size):
    monkeypatch.setattr(columns_module, "BLOCK", size)
    rng = np.random.default_rng(1)
    for _ in range(50):
        n, p = rng.integers(1, 60), rng.integers(1, 9)
        values = np.round(rng.normal(rng.choice([0, 3]), rng.choice([0.2, 1.0]), size=(n, p)))
        table = values * (rng.random((n, p)) < rng.choice([0.3, 0.6, 1.0]))
        weight = rng.integers(1, 4, n).astype(float)
        # Half of the rows by weight is half of them, even where sums of the weights are rounded.
        half = n // 2
        weight[half : 2 * half], table[:half, 0], table[half:, 0] = weight[:half], 2.0 + np.arange(half), 0.0
        expected = [
            (min(column) >= 0 or max(column) <= 0)
            and 2 * weight[column != 0].sum() > weight.sum()
            and len(set(column) - {0.0}) > 1
            for column in table.T
        ]
        for rows, size in itertools.product((table, sparse.csr_array(table)), (1.0, 0.1)):
            assert summarise(rows, size * weight).usually_one_signed.tolist() == expected


def test_signs_and_scales_of_dense_and_sparse_rows():
    positive, mixed = np.arange(1.0, 2001.0), np.linspace(-1, 1, 2000)
    table = np.stack([positive, -positive, mixed, np.full(2000, 2.0), positive - 1.0], axis=1)
    for storage in (np.asarray, sparse.csr_array):
        assert np.flatnonzero(summarise(storage(table), np.ones(2000)).always_one_signed).tolist() == [0, 1]
        ratio, low, high = summarise(storage(table * [1.0, 2.0, 1.0, 1e9, 1.0]), np.ones(2000)).extreme_spreads()
        assert (low, high) == (2, 1)
        np.testing.assert_allclose(ratio, 2 * positive.std() / mixed.std(), rtol=1e-12)
    far = np.column_stack([positive + 1e5, positive, mixed])
    assert summarise(far, np.ones(2000)).far_from_zero(3.0).tolist() == [True, False, False]
