"""A design on a Dask cluster gives the products of the matrix in memory, and bad blocks are an error."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from bayesdrop.designs import DaskDesign, Design, as_design

SAME = {"rtol": 1e-12, "atol": 1e-12}


def _sparse(X, rows):
    return da.from_array(X, chunks=(rows, -1)).map_blocks(sparse.csr_array)


STORAGES = {
    "one block": lambda X: da.from_array(X, chunks=-1),
    "blocks": lambda X: da.from_array(X, chunks=(4, -1)),
    "cut in both directions": lambda X: da.from_array(X, chunks=(5, 3)),
    "many blocks": lambda X: da.from_array(X, chunks=(1, -1)),
    "sizes unknown": lambda X: da.from_array(X, chunks=(6, -1))[da.from_array(np.ones(len(X), bool), chunks=6)],
    "an empty block": lambda X: da.concatenate([da.from_array(X[:0]), da.from_array(X)]),
    "sparse": lambda X: _sparse(X, 4),
    "data frame": lambda X: dd.from_pandas(
        pd.DataFrame(X, columns=[f"c{d}" for d in range(X.shape[1])]), npartitions=3
    ),
}


@pytest.fixture(scope="module", params=STORAGES, name="pair")
def _pair(request):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(23, 7)) * (rng.random((23, 7)) < 0.5)
    design = as_design(STORAGES[request.param](X))
    assert isinstance(design, DaskDesign)
    assert isinstance(design, Design)
    assert as_design(design) is design
    return design, X


def test_products(pair, check_products, check_sums):
    design, X = pair
    check_products(design, X, has_outer_gram=False)
    check_sums(design, X)
    assert design.minimum() == X.min()


def test_vectors_over_the_rows(pair):
    design, X = pair
    r = np.random.default_rng(3).normal(size=(len(X), 2))
    np.testing.assert_array_equal(design.zeros(2), np.zeros((len(X), 2)))
    np.testing.assert_allclose(design.total(r), r.sum(axis=0), **SAME)
    squares, roots = design.rowwise(lambda a, b: (a * b, np.abs(a)), r, r, widths=(2, 2))
    np.testing.assert_allclose(squares, r * r, **SAME)
    np.testing.assert_allclose(roots, np.abs(r), **SAME)
    (stored,) = design.persist(squares + 1)
    np.testing.assert_allclose(stored, r * r + 1, **SAME)


def test_vectors_over_the_rows_stay_on_the_workers(pair):
    """Neither a product nor what is made of it is computed before a sum is asked for."""
    design, X = pair
    made = design.rowwise(np.square, design.matvec(np.ones(X.shape[1])))
    assert all(dask.is_dask_collection(part) for part in (made, design.zeros(1), *design.persist(made)))


def _failing(block):
    raise OSError("the disk is gone")


GOOD = np.ones((6, 2))


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (lambda: da.from_array(np.where(np.arange(6)[:, None] == 4, np.nan, GOOD), chunks=(3, 2)), "block 1 has a NaN"),
        (lambda: da.from_array(GOOD, chunks=(3, 2)).map_blocks(lambda b: b * np.inf), "infinite entry in its row 0"),
        (lambda: da.from_array(GOOD + 1j, chunks=(3, 2)), "real numbers"),
        (lambda: da.from_array(np.full((6, 2), "red"), chunks=(3, 2)), "got the text 'red' in column 0, row 0"),
        (lambda: da.from_array(GOOD[:, 0], chunks=3), "two dimensions"),
        (lambda: da.from_array(GOOD[:0]), "no rows"),
        (lambda: da.from_array(GOOD[:, :0]), "no columns"),
        (
            lambda: da.concatenate(
                [da.from_delayed(dask.delayed(np.ones)((3, width)), shape=(3, 2), dtype=float) for width in (2, 3)]
            ),
            "block 1 has 3 columns, and the blocks before it have 2",
        ),
    ],
)
def test_bad_blocks(X, words):
    with pytest.raises(ValueError, match=words):
        as_design(X())


def test_an_error_of_the_source_is_told_as_it_is():
    with pytest.raises(OSError, match="the disk is gone"):
        as_design(da.from_array(GOOD, chunks=(3, 2)).map_blocks(_failing, dtype=float))


def test_bad_vectors():
    design = as_design(da.from_array(GOOD, chunks=(4, 2)))
    with pytest.raises(ValueError, match="y: expected 6 entries, one per row of X, got shape"):
        design.vector(np.ones(5), "y")
    with pytest.raises(ValueError, match="y: expected 6 entries"):
        design.vector(da.ones((6, 2)), "y")
    assert design.vector(da.ones(6, chunks=1), "y").chunks == ((4, 2),)


def test_what_needs_the_entries_is_refused():
    design = as_design(da.from_array(GOOD, chunks=(4, 2)))
    with pytest.raises(TypeError, match=r"pass X.compute\(\)"):
        np.asarray(design)
    with pytest.raises(TypeError, match=r"pass X.compute\(\)"):
        design.entries()
    with pytest.raises(TypeError, match="is not formed"):
        design.outer_gram(np.ones(2))


@pytest.mark.parametrize("storage", ["blocks", "sparse"])
def test_blocks_tell_their_size(storage):
    """Dask asks for it before it moves one to another worker."""
    from dask.sizeof import sizeof

    X = np.ones((400, 50))
    for block in dask.compute(*as_design(STORAGES[storage](X))._blocks):
        assert sizeof(block) >= X.nbytes * block.shape[0] / 400
