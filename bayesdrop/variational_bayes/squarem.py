r"""Ascent of the mean field: rounds of exact updates, with extrapolation that is kept only where it pays.

Rates and masks follow each other in small steps (a mask is likely dropped where the rate is high, and the rate is high
where masks are likely dropped), so that plain coordinate ascent needs thousands of rounds. Two rounds
``u₀ → u₁ → u₂`` tell how far that leads: with ``r = u₁ − u₀`` and ``v = u₂ − 2u₁ + u₀`` the third starts from

    u₀ + 2t r + t² v,      t = |r| / |v|    (Varadhan & Roland 2008, eq. 9 and scheme S3)

and is undone if the bound is lower after it than before. The norms are those of weights and rates, which lead; the
masks follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

import numpy as np

from .mean_field import MeanField

__all__ = ["Ascent", "AscentStatus", "in_range"]

_FIRST_LONGEST, _GROWTH = 4.0, 4.0


class _OutOfRange(ValueError):
    """A number left double precision."""


@contextmanager
def in_range() -> Iterator[None]:
    """Let no number pass that is not finite: raise a ValueError that says what to do."""
    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            yield
    except (FloatingPointError, np.linalg.LinAlgError) as error:
        raise _OutOfRange(
            f"X: the evidence lower bound leaves double precision ({error}). Bring the features to a common scale, as "
            "sklearn.preprocessing.StandardScaler does, or lower C."
        ) from error


class AscentStatus(Enum):
    """How the ascent ended; the value says what to do."""

    CONVERGED = "Converged: the relative rise of the evidence lower bound is below tol."
    MAX_ITERATIONS = (
        "Stopped at max_iter before the tolerance was met: raise max_iter, loosen tol, or standardise the features."
    )


class Ascent:
    """One ascent, which can go on where it stopped.

    Parameters
    ----------
    field : MeanField
        Where to start; changed in place or replaced.

    Attributes
    ----------
    field : MeanField
        Where it is.
    trace : list of float
        Evidence lower bound at each point reached; it never falls.
    iterations : int
        Rounds of updates, those undone included.
    """

    def __init__(self, field: MeanField) -> None:
        self.field = field
        self.trace: list[float] = []
        self.iterations = 0
        self._longest = _FIRST_LONGEST

    @property
    def elbo(self) -> float:
        """Evidence lower bound at the last point; minus infinity before the first."""
        return self.trace[-1] if self.trace else -np.inf

    def run(self, tol: float, max_iter: int) -> AscentStatus:
        """Go on until a cycle raises the bound by less than ``tol`` relative to its size.

        Raises
        ------
        ValueError
            If the bound is not finite.
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
        except _OutOfRange:
            elbo = -np.inf  # too far: there is no such point in double precision
        if elbo >= self.elbo:
            self.field = extrapolated
            self.trace.append(elbo)
            if step == self._longest:
                self._longest *= _GROWTH
        else:
            self._longest = max(self._longest / 2, 1.5)

    def _round(self, field: MeanField) -> None:
        field.iterate()
        self.iterations += 1
