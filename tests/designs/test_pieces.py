"""Blocks of files that threads read on their own, into memory that they use again."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse

from bayesdrop.designs.block_threads import Scratch, falling, in_threads
from bayesdrop.designs.blocks import sources


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


@pytest.mark.parametrize("threads", [1, 2, 16])
@pytest.mark.parametrize("total", [1, 5, 97])
def test_shares_of_the_blocks_fall_to_single_ones(total, threads):
    """All are given away, never more than asked for, and in the end one by one, so that no thread waits for long."""
    sizes = list(falling(total, threads, 4))
    assert sum(sizes) == total
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) <= 4
    assert all(size == 1 for size in sizes[-2 * threads + 1 :])


def test_several_items_at_once_keep_their_order_and_errors():
    """Each group is one thread's; what fails comes after what was before it; no item is read ahead of its group."""
    read, at = [], {}

    def items():
        for k in range(9):
            read.append(k)
            yield (k,)

    def work(k):
        at[k] = threading.get_ident()
        if k == 6:
            raise ValueError("six")
        return k

    made = in_threads(items(), work, 2, [3, 2, 2, 1, 1])
    assert next(made) == 0
    assert read == [*range(7)]
    assert [next(made) for _ in range(4)] == [1, 2, 3, 4]
    with pytest.raises(ValueError, match="six"):
        next(made)
    assert at[0] == at[1] == at[2]
    assert at[3] == at[4]


def test_which_blocks_are_given_several_at_once(tmp_path):
    """Those of dense files, which nobody holds before they are read; not blocks in memory, nor whole archives."""
    X = matrix()
    np.save(tmp_path / "x.npy", X)
    sparse.save_npz(tmp_path / "x.npz", sparse.csr_array(X))
    made = [sources.open_source(given, 10, None).at_once for given in ([X], lambda: iter([X]), tmp_path / "x.npz")]
    assert made == [1, 1, 1]
    assert sources.open_source(tmp_path / "x.npy", 10, None).at_once > 1
