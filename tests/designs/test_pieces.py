"""Blocks of files that threads read on their own, and what is made of them in order."""

import numpy as np
import pytest
from scipy import sparse

from bayesdrop.designs.blocks import sources
from bayesdrop.designs.threads import in_threads


def matrix():
    return np.random.default_rng(12).normal(size=(40, 3))


@pytest.mark.parametrize("kind", ["rows", "columns", "stored", "packed", "text"])
def test_blocks_may_be_read_in_any_order(kind, tmp_path):
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
    blocks = [(where, load()) for where, load in found.pieces()]
    assert len(blocks) == (2 if kind in ("stored", "packed") else 5)
    rows = [m.toarray() if sparse.issparse(m) else m for _, m in blocks]
    np.testing.assert_allclose(np.concatenate(rows), X, rtol=1e-12)
    pieces = list(found.pieces())
    for k in reversed(range(len(blocks))):
        assert pieces[k][0] == blocks[k][0]
        again = pieces[k][1]()
        np.testing.assert_array_equal(again.toarray() if sparse.issparse(again) else again, rows[k])


def test_items_keep_their_order_and_errors():
    """What fails comes after what was before it; no more is read ahead than there are threads."""
    read = []

    def items():
        for k in range(9):
            read.append(k)
            yield (k,)

    def work(k):
        if k == 6:
            raise ValueError("six")
        return k

    made = in_threads(items(), work, 2)
    assert next(made) == 0
    assert read == [0, 1, 2]
    assert [next(made) for _ in range(5)] == [1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match="six"):
        next(made)
