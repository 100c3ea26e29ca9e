"""Blocks worked on a few rows at a time say what they say as a whole, however many threads there are."""

from threading import Barrier

import numpy as np
import pytest

from bayesdrop.designs import threads
from bayesdrop.designs.threads import in_pieces, side_by_side


@pytest.mark.parametrize("count", [1, 3])
def test_every_row_is_in_one_piece(monkeypatch, count):
    monkeypatch.setattr(threads, "cores", lambda: count)
    for rows, width in ((0, 3), (1, 10**6), (70_000, 1), (200_000, 1), (9_999, 20)):
        found = np.concatenate(in_pieces(lambda some, rows=rows: np.arange(rows)[some], rows, width))
        np.testing.assert_array_equal(found, np.arange(rows))


def test_threads_say_of_overflow_what_the_caller_wants(monkeypatch):
    monkeypatch.setattr(threads, "cores", lambda: 3)
    together = Barrier(3, timeout=60)

    def overflow():
        together.wait()  # each thread has one of the calls
        return np.float64(1e300) * np.float64(1e300)

    with np.errstate(over="ignore"):
        side_by_side([overflow] * 3)
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        side_by_side([overflow] * 3)
