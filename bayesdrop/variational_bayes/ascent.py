"""Raise the evidence lower bound by rounds of updates with extrapolation, for :mod:`.fitting`.

Rates and masks change together in small steps, so that plain coordinate ascent needs thousands of rounds. Therefore two
rounds ``u₀ → u₁ → u₂`` are extrapolated: with ``r = u₁ − u₀`` and ``v = u₂ − 2u₁ + u₀`` the third round starts from

    u₀ + 2t r + t² v,      t = |r| / |v|    (Varadhan & Roland 2008, eq. 9 and scheme S3)

and is undone if it lowers the bound. The norms are over weights and rates.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from .mean_field import MeanField
from .result import AscentStatus

__all__ = ["Ascent", "in_range"]


@dataclass(frozen=True)
class Rules:
    """Length of the extrapolations.

    Attributes
    ----------
    longest, growth, shortest : float
        Maximum extrapolation at first, its factor after each extrapolation of maximum length, and its minimum.
    """

    longest: float = 4.0
    growth: float = 4
    shortest: float = 1.5


RULES = Rules()


@contextmanager
def in_range() -> Iterator[None]:
    """Raise a ValueError with advice if a number is not finite."""
    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            yield
    except (FloatingPointError, np.linalg.LinAlgError) as error:
        raise ValueError(
            f"X: the evidence lower bound overflows double precision ({error}). Bring the features to a common scale, "
            "as sklearn.preprocessing.StandardScaler does, or lower C."
        ) from error


class Ascent:
    """Ascent from one start, which can be continued.

    Attributes
    ----------
    field : MeanField
        Current point; the start is changed in place or replaced.
    trace : list of float
        Evidence lower bound after each step; it never falls.
    iterations : int
        Rounds of updates, including those undone.
    """

    def __init__(self, field: MeanField) -> None:
        self.field = field
        self.trace: list[float] = []
        self.iterations = 0
        self._longest = RULES.longest

    @property
    def elbo(self) -> float:
        """Evidence lower bound at the last point; minus infinity before the first."""
        return self.trace[-1] if self.trace else -np.inf

    def run(self, tol: float, max_iter: int) -> AscentStatus:
        """Continue until a cycle raises the bound by less than ``tol`` relative to its size.

        Raises ValueError if the bound is not finite.
        """
        while self.iterations < max_iter:
            before = self.elbo
            self._cycle()
            if self.elbo - before <= tol * abs(self.elbo):
                return AscentStatus.CONVERGED
        return AscentStatus.MAX_ITERATIONS

    def _cycle(self) -> None:
        field = self.field
        start = field.coordinates()
        with in_range():
            self._round(field)
            middle = field.coordinates()
            self._round(field)
            self.trace.append(field.elbo())
        end = field.coordinates()
        first = [b - a for a, b in zip(start, middle, strict=True)]
        second = [c - b - r for b, c, r in zip(middle, end, first, strict=True)]
        second_size = float(np.linalg.norm(second[0]))
        ratio = float(np.linalg.norm(first[0])) / second_size if second_size > 0 else np.inf
        step = min(ratio, self._longest)
        if step <= 1:
            return
        extrapolated = field.copy()
        extrapolated.move_to(*(a + 2 * step * r + step**2 * v for a, r, v in zip(start, first, second, strict=True)))
        try:
            with in_range():
                self._round(extrapolated)
                elbo = extrapolated.elbo()
        except ValueError:
            elbo = -np.inf  # the extrapolation overflowed
        if elbo >= self.elbo:
            self.field = extrapolated
            self.trace.append(elbo)
            if step == self._longest:
                self._longest *= RULES.growth
        else:
            self._longest = max(self._longest / 2, RULES.shortest)

    def _round(self, field: MeanField) -> None:
        field.iterate()
        self.iterations += 1
