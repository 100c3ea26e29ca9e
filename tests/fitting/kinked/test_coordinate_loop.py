"""Passes over coordinates: each finds the best of its own, in whatever company, and in any number of threads."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import brentq

import bayesdrop as bd
from bayesdrop.designs import block_threads
from bayesdrop.designs.block_threads import side_by_side
from bayesdrop.designs.compiled import wide
from bayesdrop.fitting.kinked import coordinate_loop, dual, dual_rounds
from bayesdrop.fitting.kinked.coordinate_loop import CompressedRows, Coordinates, Passes

pytest.importorskip("numba")
N, P = 60, 25


def matrix(binary):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P)) * (rng.random((N, P)) < 0.3)
    X[4] = 0.0
    return (X != 0).astype(float) if binary else X


def best(a, q, r, low, high):
    """The zero of ``a − q(β − middle) + r ½(l + u − 2β)/√((β − l)(u − β))``, or what is nearest to it without noise."""
    middle = 0.5 * (low + high)
    if r == 0:
        return np.clip(middle + a / q, low, high)

    def slope(beta):
        return a - q * (beta - middle) + 0.5 * r * (low + high - 2 * beta) / np.sqrt((beta - low) * (high - beta))

    edge = 1e-13 * (high - low)
    return brentq(slope, low + edge, high - edge, xtol=1e-15)


@pytest.mark.parametrize("K", [1, 3, 10])
@pytest.mark.parametrize("kinks", [1, 2])
@pytest.mark.parametrize("binary", [False, True], ids=["real", "binary"])
@pytest.mark.parametrize("noisy", [False, True], ids=["plain", "noisy"])
def test_a_pass_takes_one_coordinate_after_the_other(K, kinks, binary, noisy):
    X, rng = matrix(binary), np.random.default_rng(1)
    csr = sparse.csr_array(X)
    rows = CompressedRows(csr.indptr.astype(np.uint64), csr.indices.astype(np.uint32), csr.data, binary)
    centre = rng.normal(size=(N, kinks, K))
    low, high = -rng.random((N, kinks, K)), rng.random((N, kinks, K))
    beta = low + (high - low) * rng.random((N, kinks, K))
    root = rng.random((N, K)) + 0.1 if noisy else np.zeros((N, K))
    gain, weights, bias = rng.random((P, K)) + 0.5, rng.normal(size=(P, K)), rng.normal(size=K)
    size, stiffness = np.maximum(X**2 @ gain, 1e-100), rng.random(K)
    given = [part.copy() for part in (beta, weights, bias)]
    loop = Passes(rows, N, K)
    loop(Coordinates(centre, low, high, beta, np.zeros_like(beta)), root, size, stiffness, weights, gain, bias, 1)
    # The order that a pass leaves is that of its rows.
    slopes, w, b = given
    for group, order in zip(loop._groups, loop._orders, strict=True):
        assert sorted(order) == list(range(N))
        for c in range(group.start, group.stop):
            for i in order:
                for k in range(kinks):
                    q, ends = size[i, c] + stiffness[c], (low[i, k, c], high[i, k, c])
                    a = centre[i, k, c] - X[i] @ w[:, c] - b[c] + q * (slopes[i, k, c] - 0.5 * sum(ends))
                    change = best(a, q, root[i, c], *ends) - slopes[i, k, c]
                    slopes[i, k, c] += change
                    w[:, c] += change * X[i] * gain[:, c]
                    b[c] += change * stiffness[c]
    for found, wanted in ((beta, slopes), (weights, w), (bias, b)):
        np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("K", [1, 2])
@pytest.mark.parametrize("cached", [True, False])
def test_neighbours_stay_together_where_the_rows_outgrow_a_cache(K, cached, monkeypatch):
    monkeypatch.setattr(coordinate_loop, "_CACHED", 0 if cached else -1)
    rows = CompressedRows(np.zeros(N + 1, np.uint64), np.zeros(0, np.uint32), np.zeros(0), False)
    loop, zero = Passes(rows, N, K), np.zeros((N, 1, K))
    loop(Coordinates(zero, zero, zero, zero.copy(), zero.copy()), zero[:, 0], zero[:, 0] + 1, np.zeros(K),
         np.zeros((P, K)), np.zeros((P, K)), np.zeros(K), 1)  # fmt: skip
    (order,) = loop._orders
    assert sorted(order) == list(range(N))
    follows = np.diff(order.astype(int)) == 1
    assert (follows.mean() < 0.2) if cached else (0.7 < follows.mean() < 1)


def classes(K=19, n=400, p=30):
    rng = np.random.default_rng(3)
    code = np.arange(n) % K
    X = rng.poisson(0.2 + 2.0 * (np.arange(p) % K == code[:, None])).astype(float)
    return sparse.csr_array(X), code


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_threads_change_no_bit_of_a_fit(rate, monkeypatch):
    monkeypatch.setattr(dual, "_WORTHWHILE", 0)
    monkeypatch.setattr(wide, "_THREADED", 0)
    X, code = classes()
    found = []
    for threads in (1, 2, 5):
        for place in (block_threads, wide):
            monkeypatch.setattr(place, "cores", lambda threads=threads: threads)
        fit = bd.DropoutSVC(rate, tol=1e-6).fit(X, code)
        found.append((fit.coef_, fit.intercept_))
    for other in found[1:]:
        assert all(np.array_equal(one, two) for one, two in zip(found[0], other, strict=True))


@pytest.mark.parametrize("room", [1 << 21, 1000], ids=["at once", "in parts"])
def test_classes_together_are_those_by_themselves(room, monkeypatch):
    """Each within a bound of its own, which is one of what another solve by itself finds."""
    monkeypatch.setattr(dual, "_WORTHWHILE", 0)
    monkeypatch.setattr(dual, "_ROOM", room)
    gaps = []
    descend = dual_rounds.descend

    def told(*given):
        gaps.append(descend(*given))
        return gaps[-1]

    monkeypatch.setattr(dual, "descend", told)
    X, code = classes(K=10)
    tol = 1e-5
    many = bd.DropoutSVC(0.3, tol=tol).fit(X, code)
    assert many.n_iter_ == 1
    assert sum(len(part.gap) for part in gaps) == 10
    gap = np.concatenate([part.gap for part in gaps])
    for k in range(10):
        alone = bd.DropoutSVC(0.3, tol=1e-9).fit(X, code == k)
        here, best = many.objective_trace_[-1, k], alone.objective_trace_[-1]
        assert -1e-9 * best <= here - best <= gap[k] + 1e-9 * best
        assert gap[k] <= tol * here


def test_an_error_of_one_call_is_raised_when_all_have_ended(monkeypatch):
    monkeypatch.setattr(block_threads, "cores", lambda: 3)
    done = []

    def fail():
        raise ArithmeticError("of the second")

    with pytest.raises(ArithmeticError, match="of the second"):
        side_by_side([lambda: done.append(1), fail, lambda: done.append(3)])
    assert sorted(done) == [1, 3]
