"""Blocks worked on a few rows at a time say what they say as a whole, however many threads there are."""

from threading import Barrier

import numpy as np
import pytest

from bayesdrop.designs import block_threads, pieces
from bayesdrop.designs.block_threads import side_by_side

BLOCK = np.random.default_rng(0).normal(size=(101, 3))


@pytest.fixture(params=[1, 3])
def small(monkeypatch, request):
    monkeypatch.setattr(pieces, "_NUMBERS", 12)
    monkeypatch.setattr(pieces, "_THREADED", 0)
    monkeypatch.setattr(block_threads, "cores", lambda: request.param)


@pytest.mark.usefixtures("small")
def test_pieces_make_the_whole():
    scale = BLOCK[:, :1] ** 2
    np.testing.assert_array_equal(pieces.scaled(scale, BLOCK), scale * BLOCK)
    total = np.ones_like(BLOCK)
    pieces.add_scaled(total, scale, BLOCK)
    np.testing.assert_array_equal(total, 1 + scale * BLOCK)
    np.testing.assert_allclose(pieces.inner_products(BLOCK, total), np.sum(BLOCK * total, axis=0), rtol=1e-13)
    whole = np.sum(scale * BLOCK * total, axis=0)
    np.testing.assert_allclose(pieces.weighted_products(scale, BLOCK, total), whole, rtol=1e-13)
    np.testing.assert_array_equal(pieces.by_number(lambda w, s: s * w**2, BLOCK, scale), scale * BLOCK**2)


def test_every_row_is_in_one_piece():
    for rows, width in ((0, 3), (1, 10**6), (70_000, 1), (9_999, 20)):
        found = np.concatenate([np.arange(rows)[some] for some in pieces.pieces(rows, width)])
        np.testing.assert_array_equal(found, np.arange(rows))


def test_threads_say_of_overflow_what_the_caller_wants(monkeypatch):
    monkeypatch.setattr(block_threads, "cores", lambda: 3)
    together = Barrier(3, timeout=60)

    def overflow():
        together.wait()  # each thread has one of the calls
        return np.float64(1e300) * np.float64(1e300)

    with np.errstate(over="ignore"):
        side_by_side([overflow] * 3)
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        side_by_side([overflow] * 3)
