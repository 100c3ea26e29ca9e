"""Whether a block is what it was: by its bits where they are the same, by sums where it was rounded otherwise."""

import numpy as np
import pytest
from scipy import sparse

from bayesdrop.designs.blocks import records as block_records
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


def test_the_same_bits_need_no_other_sum(monkeypatch):
    """The sum of the numbers is asked for only where the bits differ; entries of sparse rows likewise."""
    X = np.random.default_rng(0).normal(size=(40, 30)).astype(np.float32)
    for block in (X, sparse.csr_array(X)):
        record = record_of(block, "here", 0)
        wrong = record._replace(sums=record.sums + [1, 0])
        assert is_same(wrong, block, 30)
        with monkeypatch.context() as patch:
            patch.setattr(block_records, "_bits", lambda values: 0)
            assert is_same(record, block, 30)
            assert not is_same(wrong, block, 30)
