"""Sums over the rows in one pass: by compiled products or BLAS, by one thread or several, they are the same."""

import threading

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.designs.blocks import design as blocks
from bayesdrop.designs.threads import Limits


def rowwise(first, second, target):
    """Slopes and a sum that see both products and a vector over the rows."""
    return np.tanh(first) + target[:, None], first[:, :1] * second, np.concatenate([first**2, second], axis=1)


def problem(n, p, K, L, dtype=np.float64):
    rng = np.random.default_rng(n)
    return rng.normal(size=(n, p)).astype(dtype), rng.normal(size=(p, K)), rng.normal(size=(p, L)), rng.normal(size=n)


def plain(X, w, w_sq, target):
    X = X.astype(float)
    r, s, t = rowwise(X @ w, X**2 @ w_sq, target)
    return X.T @ r, (X**2).T @ s, r.sum(axis=0), s.sum(axis=0), t.sum(axis=0)


@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_threads_change_no_bit(monkeypatch, storage):
    """Blocks are summed in the order of the rows, whoever was first; a mask leaves rows, and a whole block, out."""
    X, w, w_sq, target = problem(60, 3, 2, 1)
    parts = np.split(X, [7, 9, 30, 31])
    parts = [sparse.csr_array(part) for part in parts] if storage == "sparse" else parts
    keep = np.arange(60) // 2 != 4
    keep[7:9] = False
    found, seen = [], []
    for count in (1, 4):
        busy = set()

        def function(*arguments, busy=busy):
            busy.add(threading.get_ident())
            return rowwise(*arguments)

        monkeypatch.setattr(blocks, "cores", lambda count=count: count)
        design = bd.Blocks(lambda: iter(parts))[keep]
        found.append(design.product_sums(w, w_sq, function, target[keep]))
        assert design.passes == 2
        seen.append(len(busy))
    assert seen[0] == 1
    for one, several, expected in zip(*found, plain(X[keep], w, w_sq, target[keep]), strict=True):
        np.testing.assert_allclose(one, several, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(one, expected, rtol=1e-12, atol=1e-12)


def test_large_blocks_are_not_held_by_many_threads(monkeypatch):
    monkeypatch.setattr(blocks, "cores", lambda: 8)
    design = bd.Blocks([np.ones((50, 4))] * 3)
    assert design._threads() == 8
    monkeypatch.setattr(blocks, "LIMITS", Limits(block_bytes=3 * 16 * 200))
    assert design._threads() == 3
    monkeypatch.setattr(blocks, "LIMITS", Limits(block_bytes=0))
    assert design._threads() == 1


def test_an_error_in_a_thread_is_told():
    def broken(first, second, target):
        raise ZeroDivisionError("planted")

    X, w, w_sq, target = problem(20, 3, 1, 0)
    with pytest.raises(ZeroDivisionError, match="planted"):
        bd.Blocks(lambda: iter(np.split(X, 4))).product_sums(w, w_sq, broken, target)
