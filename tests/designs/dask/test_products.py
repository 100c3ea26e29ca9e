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


@pytest.mark.parametrize("columns", [None, 1, 3])
def test_products(pair, columns):
    design, X = pair
    rng = np.random.default_rng(1)
    tail = () if columns is None else (columns,)
    w, w2 = rng.normal(size=(2, X.shape[1], *tail))
    r, r2 = rng.normal(size=(2, X.shape[0], *tail))
    assert design.shape == X.shape
    np.testing.assert_allclose(design.matvec(w), X @ w, **SAME)
    np.testing.assert_allclose(design.rmatvec(r), X.T @ r, **SAME)
    np.testing.assert_allclose(design.sq_matvec(w), (X * X) @ w, **SAME)
    np.testing.assert_allclose(design.sq_rmatvec(r), (X * X).T @ r, **SAME)
    if columns is None:
        return
    for got, expected in zip(design.pair_matvec(w, w2), (X @ w, (X * X) @ w2), strict=True):
        np.testing.assert_allclose(got, expected, **SAME)
    for got, expected in zip(design.pair_rmatvec(r, r2), (X.T @ r, (X * X).T @ r2), strict=True):
        np.testing.assert_allclose(got, expected, **SAME)


def test_sampled_products(pair):
    design, X = pair
    rng = np.random.default_rng(4)
    left, right, square = rng.normal(size=(len(X), 2)), rng.normal(size=(X.shape[1], 2)), rng.random(X.shape[1])
    formed = (square * X**2 - X) * (left @ right.T)
    forward, back = design.sampled_products(
        design.persist(design.zeros(2) + left)[0], right, square, -np.ones(len(square))
    )
    np.testing.assert_allclose(forward, formed @ right, **SAME)
    np.testing.assert_allclose(back, formed.T @ left, **SAME)


def test_normal_product(pair):
    """What is done between depends on the row and mixes the two products."""
    design, X = pair
    rng = np.random.default_rng(2)
    w, w2 = rng.normal(size=(2, X.shape[1], 2))
    factor = np.arange(1.0, len(X) + 1)[:, None]
    a, b, *sums = design.normal_product(w, w2, lambda rows, a, b: (factor[rows] * a + b, a - factor[rows] * b))
    np.testing.assert_allclose(a, X @ w, **SAME)
    np.testing.assert_allclose(b, (X * X) @ w2, **SAME)
    r, s = factor * (X @ w) + (X * X) @ w2, X @ w - factor * ((X * X) @ w2)
    for got, expected in zip(sums, (X.T @ r, (X * X).T @ s, r.sum(axis=0), s.sum(axis=0)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-10)


def test_grams_counts_and_rows(pair):
    design, X = pair
    rng = np.random.default_rng(3)
    omega = rng.random(len(X)) * (np.arange(len(X)) % 3 == 0)
    np.testing.assert_allclose(design.gram(omega), X.T @ (omega[:, None] * X), **SAME)
    r = rng.normal(size=(len(X), 2))
    above, below = design.sign_sums(r)
    np.testing.assert_allclose(above, (X > 0).T @ r, **SAME)
    np.testing.assert_allclose(below, (X < 0).T @ r, **SAME)
    assert design.minimum() == X.min()
    np.testing.assert_array_equal(design.zeros(2), np.zeros((len(X), 2)))
    np.testing.assert_allclose(design.total(r), r.sum(axis=0), **SAME)
    squares, roots = design.rowwise(lambda a, b: (a * b, np.abs(a)), r, r, widths=(2, 2))
    np.testing.assert_allclose(squares, r * r, **SAME)
    np.testing.assert_allclose(roots, np.abs(r), **SAME)
    (held,) = design.persist(squares + 1)
    np.testing.assert_allclose(held, r * r + 1, **SAME)


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
