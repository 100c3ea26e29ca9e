"""Whether a block is what it was: by sums, which may be rounded otherwise."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import bayesdrop as bd
from bayesdrop.designs.blocks.records import is_same, record_of


@pytest.mark.parametrize("layout", ["C", "F", "strided"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_a_block_is_itself_and_no_other(layout, dtype):
    """Of 200 rows every third is in the sums that depend on the order."""
    X = (np.random.default_rng(0).normal(size=(200, 6)) * 9).astype(dtype)
    X = np.asfortranarray(X) if layout == "F" else X
    X = X[:, ::2] if layout == "strided" else X
    p = X.shape[1]
    record = record_of(X, "here", 0)
    assert is_same(record, X.copy(), p)
    assert is_same(record, X.astype(float), p)
    for change in (lambda Y: Y.__setitem__((4, 1), Y[4, 1] + 1),
                   lambda Y: Y.__setitem__([0, 3], Y[[3, 0]])):  # fmt: skip
        other = X.copy(order="K")
        change(other)
        assert not is_same(record, other, p)
    assert not is_same(record, X[:-1], p)


def test_rounding_is_no_change():
    X = np.random.default_rng(0).normal(size=(7, 6))
    record = record_of(X, "here", 0)
    assert is_same(record, X * (1 + 1e-15), 6)
    assert not is_same(record, X * (1 + 1e-9), 6)
    assert not is_same(record, np.where(X == X[2, 2], np.nan, X), 6)


@pytest.mark.parametrize("storage", [np.asarray, csr_array])
@pytest.mark.parametrize("entries", [[1e308, 1e308], [1e308, -1e308]])
def test_entries_whose_sums_overflow_are_refused(storage, entries):
    """A later pass could not tell their sums from those of other entries."""
    with pytest.raises(ValueError, match=r"source: block 1 has entries of size 1e\+308, whose sums overflow"):
        bd.Blocks([storage(np.ones((1, 2))), storage(np.array([entries]))])
