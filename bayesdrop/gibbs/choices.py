"""Choose how a Gibbs sampler draws its weights: the first row of a table whose condition holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..fitting.solvers.choices import Choice

__all__ = ["CHOICES", "Case", "Limits", "choose"]


@dataclass(frozen=True)
class Limits:
    """Sizes that decide how the weights are drawn, and settings of the moves under a spike-and-slab prior.

    Attributes
    ----------
    factored : int
        Maximum side of a matrix that is factored for every chain and draw.
    swaps : int
        Maximum number of proposals, per sweep and class, to swap an included feature for a correlated one.
    neighbours : int
        Number of its most correlated features for which each feature may be swapped.
    correlation : float
        Minimum absolute correlation of features that are swapped.
    at_once : int
        Number of features or groups whose log odds are updated together after a move.
    first_size : int
        Maximum number of free features in the first model of the last chain; the first chain starts without any.
    proposals : int
        Pairs of a weight and a dropout rate that the update of an indicator compares, if entries may be dropped.
    """

    factored: int = 1500
    swaps: int = 30
    neighbours: int = 20
    correlation: float = 0.3
    at_once: int = 512
    first_size: int = 40
    proposals: int = 4


class Case(NamedTuple):
    """Properties that a choice depends on: rows, features, whether they are dense, and whether some may be left out."""

    n: int
    p: int
    dense: bool
    selects: bool = False


CHOICES = (
    Choice(
        "active_set", lambda case, limits: case.selects, "a Cholesky factor of the features that are in the model",
        "the indicators of a spike-and-slab prior are drawn with all weights integrated out",
    ),
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
"""Ways to draw the weights, in order of preference."""


def choose(case: Case, limits: Limits) -> Choice:
    """The first row whose condition holds.

    Examples
    --------
    >>> cases = Case(500, 30, True), Case(40, 300, True), Case(2000, 5000, False)
    >>> [choose(case, Limits()).name for case in cases]
    ['cholesky', 'woodbury', 'conjugate_gradient']
    """
    return next(choice for choice in CHOICES if choice.when(case, limits))
