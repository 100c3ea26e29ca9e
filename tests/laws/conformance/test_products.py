"""Products of compressed rows in parts and in threads equal those of the array; calls side by side are all made."""

from functools import partial

import numpy as np
import pytest
from scipy import sparse

from bayesdrop.designs import threads
from bayesdrop.designs.products import SparseProducts

N, P = 23, 9


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("widths", [(1, 0), (0, 1), (1, 1), (3, 2), (0, 0)])
@pytest.mark.parametrize("kind", ["binary", "real", "empty"])
def test_parts_in_threads_equal_the_array(monkeypatch, kind, widths, count):
    monkeypatch.setattr(threads, "cores", lambda: count)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P)) * (rng.random((N, P)) < 0.4) * (kind != "empty")
    X[3], X[:, 2] = 0, 0
    X = (X != 0).astype(float) if kind == "binary" else X
    products = SparseProducts(sparse.csr_array(X), kind == "binary", threads.Limits(products=0))
    w, w_sq, r, r_sq = (rng.normal(size=(size, width)) for size in (P, N) for width in widths)
    found = *products.forward(w, w_sq), *products.backward(r, r_sq)
    for got, expected in zip(found, (X @ w, X**2 @ w_sq, X.T @ r, (X**2).T @ r_sq), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


def test_calls_side_by_side_are_all_made_and_an_error_is_raised(monkeypatch):
    monkeypatch.setattr(threads, "cores", lambda: 3)
    made: list[int] = []

    def call(number):
        made.append(number)
        if number == 5:
            raise IndexError("the sixth")

    with pytest.raises(IndexError, match="the sixth"):
        threads.side_by_side([partial(call, number) for number in range(20)])
    # The thread that failed makes no more; the others make those that are left.
    assert sorted(made) == list(range(20))


def test_a_worker_keeps_to_its_share_of_the_cores(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    whole = threads.cores()
    for asked, expected in (("1", 1), ("100000", whole), ("0", 1), ("2,4", whole)):
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
        assert threads.cores() == expected
