"""Blocks of files that threads read on their own, into memory that they use again."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse

from bayesdrop.designs import sources
from bayesdrop.designs.block_threads import Scratch


def matrix():
    return np.random.default_rng(12).normal(size=(40, 3))


@pytest.mark.parametrize("kind", ["rows", "columns", "stored", "packed", "text"])
def test_blocks_may_be_read_in_any_order(kind, tmp_path):
    """Each into the memory of the one before, where it is used again."""
    from sklearn.datasets import dump_svmlight_file

    X = matrix()
    paths = [tmp_path / f"{k}.{dict(rows='npy', columns='npy', text='svm').get(kind, 'npz')}" for k in range(2)]
    for path, part in zip(paths, (X[:25], X[25:]), strict=True):
        if kind == "text":
            dump_svmlight_file(part, np.ones(len(part)), str(path))
        elif kind in ("rows", "columns"):
            np.save(path, np.asarray(part, order="C" if kind == "rows" else "F"))
        else:
            sparse.save_npz(path, sparse.csr_array(part), compressed=kind == "packed")
    found = sources.open_source(paths, 10, None)
    scratch, blocks = Scratch(), list(found.read())
    assert len(blocks) == (2 if kind in ("stored", "packed") else 5)
    rows = [m.toarray() if sparse.issparse(m) else m for _, m in blocks]
    np.testing.assert_allclose(np.concatenate(rows), X, rtol=1e-12)
    pieces = list(found.pieces())
    for k in reversed(range(len(blocks))):
        assert pieces[k][0] == blocks[k][0]
        again = pieces[k][1](scratch.empty)
        np.testing.assert_array_equal(again.toarray() if sparse.issparse(again) else again, rows[k])


def test_a_file_that_ends_while_it_is_read(tmp_path, monkeypatch):
    """Whatever its size and time say, what is not there is an error, and no number left from the block before."""
    X = matrix()
    np.save(tmp_path / "x.npy", X)
    pieces = [load for _, load in sources.open_source(tmp_path / "x.npy", 10, None).pieces()]
    scratch = Scratch()
    monkeypatch.setattr(sources, "_unchanged", lambda path, stamp: None)
    os.truncate(tmp_path / "x.npy", 128 + 8 * (3 * 25 - 1))
    for k in (1, 0):
        np.testing.assert_array_equal(pieces[k](scratch.empty), X[10 * k : 10 * k + 10])
    with pytest.raises(ValueError, match=r"x.npy cannot be read.*ends early, 16 numbers are missing"):
        pieces[2](scratch.empty)


def test_threads_have_memory_of_their_own():
    scratch = Scratch()
    mine = scratch.empty(3, np.float64)
    with ThreadPoolExecutor(1) as pool:
        theirs = pool.submit(scratch.empty, 3, np.float64).result()
    assert not np.shares_memory(mine, theirs)
    assert np.shares_memory(mine, scratch.empty(2, np.int16))
    assert len(scratch.empty(9, np.float64)) == 9
