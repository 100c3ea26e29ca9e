"""Which Gaussian draw of the weights a Gibbs sampler has: one table, of which the first row holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..fitting.solvers.choices import Choice

__all__ = ["CHOICES", "Case", "Limits", "choose"]


@dataclass(frozen=True)
class Limits:
    """Sizes up to which a way is taken.

    Attributes
    ----------
    factored : int
        Side of a matrix that is factored for every chain and draw.
    """

    factored: int = 1500


class Case(NamedTuple):
    """What a choice depends on: rows, features, and whether the features are a dense matrix."""

    n: int
    p: int
    dense: bool


CHOICES = (
    Choice(
        "cholesky", lambda case, limits: case.dense and case.p <= min(case.n, limits.factored),
        "a Cholesky factor of the p × p precision", "exact, and cheap at this size",
    ),
    Choice(
        "woodbury", lambda case, limits: case.dense and case.n <= limits.factored,
        "a Cholesky factor of an n × n matrix (Woodbury)", "exact, for fewer rows than features",
    ),
    Choice(
        "conjugate_gradient", lambda case, limits: True, "a perturbed linear system, by conjugate gradients",
        "forms no n × n or p × p matrix, and sparse features stay sparse",
    ),
)  # fmt: skip
"""Ways from the first that is taken if it can be."""


def choose(case: Case, limits: Limits) -> Choice:
    """The first row whose condition holds.

    Examples
    --------
    >>> cases = Case(500, 30, True), Case(40, 300, True), Case(2000, 5000, False)
    >>> [choose(case, Limits()).name for case in cases]
    ['cholesky', 'woodbury', 'conjugate_gradient']
    """
    return next(choice for choice in CHOICES if choice.when(case, limits))
