"""Statistics of columns: plain statements in NumPy, weights as copies of rows, the same of every storage."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import StandardScaler

import bayesdrop as bd
from bayesdrop.designs import DaskDesign, as_design
from bayesdrop.designs import columns as columns_module
from bayesdrop.designs.columns import (
    always_one_signed,
    column_means,
    column_spread,
    differing_scales,
    usually_one_signed,
)
from bayesdrop.designs.compiled import entries

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 5)) * np.array([1.0, 1e-3, 50.0, 1.0, 1.0]) + np.array([0.0, 7.0, -900.0, 3.0, 0.0])
X[:, 3] = 7.1  # does not vary, and its mean is not exact in binary
X[RNG.random(3000) < 0.8, 4] = 0.0
COPIES = RNG.integers(0, 4, size=3000)


@pytest.mark.parametrize("compiled", [False, True])
def test_weights_are_copies_of_rows(monkeypatch, compiled):
    if compiled:
        pytest.importorskip("numba")
        monkeypatch.setattr(columns_module, "_COMPILED", 0)
        monkeypatch.setattr(entries, "_PART", 1000)
    rows, weight = X[COPIES > 0], COPIES[COPIES > 0].astype(float)
    whole = np.repeat(X, COPIES, axis=0)
    np.testing.assert_allclose(column_means(rows, weight), whole.mean(axis=0), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(column_spread(rows, weight), StandardScaler().fit(whole).scale_, rtol=1e-12)
    assert column_means(rows, weight)[3] == 7.1


@pytest.mark.parametrize("storage", ["csr", "duplicates", "float32", "blocks", "dask"])
def test_spread_is_that_of_dense_rows(storage):
    expected, given, rtol = column_spread(X, np.ones(3000)), X, 1e-12
    weight = np.ones(3000)
    if storage == "csr":
        given = sparse.csr_array(X)
    elif storage == "duplicates":
        given = sparse.csr_array((np.tile(X / 2, 2).ravel(), np.tile(np.arange(5), 6000), np.arange(3001) * 10))
        assert not given.has_canonical_format
    elif storage == "float32":
        given, rtol = X.astype(np.float32), 1e-3
    elif storage == "blocks":
        # About zero: the smallest column's mean is 7,000 deviations away.
        given, rtol = bd.Blocks([X[:1000], X[1000:]]), 1e-6
    else:
        da = pytest.importorskip("dask.array")
        given, rtol = DaskDesign(da.from_array(X, chunks=(1000, 5))), 1e-6
        weight = da.from_array(weight, chunks=1000)
    np.testing.assert_allclose(as_design(given).column_spread(weight), expected, rtol=rtol)


@pytest.mark.parametrize("compiled", [False, True])
def test_which_columns_zero_is_no_usual_value_of(monkeypatch, compiled):
    if compiled:
        pytest.importorskip("numba")
        monkeypatch.setattr(columns_module, "_COMPILED", 0)
    n = 100
    half = np.where(np.arange(n) < 50, 2.0 + np.arange(n), 0.0)
    most = np.where(np.arange(n) < 51, 2.0 + np.arange(n), 0.0)
    dummy, constant = (np.arange(n) < 90).astype(float), np.full(n, 3.0)
    table = np.stack([half, most, -most, dummy, constant, most - 3.0, np.zeros(n)], axis=1)
    assert usually_one_signed(table, np.ones(n)).tolist() == [False, True, True, False, False, False, False]
    # A row of weight 2 is the row twice.
    weight = np.where(np.arange(n) < 50, 2.0, 1.0)
    assert usually_one_signed(table, weight).tolist() == [True, True, True, False, False, False, False]


@pytest.mark.parametrize(("size", "compiled"), [(1 << 20, False), (30, False), (30, True)])
def test_unusual_zeros_are_what_each_column_by_itself_says(monkeypatch, size, compiled):
    monkeypatch.setattr(columns_module, "_BLOCK", size)
    if compiled:
        pytest.importorskip("numba")
        monkeypatch.setattr(columns_module, "_COMPILED", 0)
        monkeypatch.setattr(entries, "_PART", size)
    rng = np.random.default_rng(1)
    for _ in range(50):
        n, p = rng.integers(1, 60), rng.integers(1, 9)
        values = np.round(rng.normal(rng.choice([0, 3]), rng.choice([0.2, 1.0]), size=(n, p)))
        table = values * (rng.random((n, p)) < rng.choice([0.3, 0.6, 1.0]))
        weight = rng.integers(1, 4, n).astype(float)
        expected = [
            (min(column) >= 0 or max(column) <= 0)
            and 2 * weight[column != 0].sum() > weight.sum()
            and len(set(column) - {0.0}) > 1
            for column in table.T
        ]
        assert usually_one_signed(table, weight).tolist() == expected


def test_signs_and_scales_of_dense_and_sparse_rows():
    positive, mixed = np.arange(1.0, 2001.0), np.linspace(-1, 1, 2000)
    table = np.stack([positive, -positive, mixed, np.full(2000, 2.0), positive - 1.0], axis=1)
    for storage in (np.asarray, sparse.csr_array):
        assert always_one_signed(storage(table)).tolist() == [0, 1]
        ratio, low, high = differing_scales(storage(table * [1.0, 2.0, 1.0, 1e9, 1.0]), np.ones(2000))
        assert (low, high) == (2, 1)
        np.testing.assert_allclose(ratio, 2 * positive.std() / mixed.std(), rtol=1e-12)
