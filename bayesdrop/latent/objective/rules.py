"""Name the numbers of fits of a hidden layer, for the files of this room."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RULES", "Rules"]


@dataclass(frozen=True)
class Rules:
    """Steps, sizes and tolerances of fits of a hidden layer.

    Attributes
    ----------
    start_steps : int
        Steps on each of several random starts.
    rounds, round_steps : int
        Maximum number of updates of the rates, and steps of the weights before each.
    rate_change, largest : float
        Change of a rate below which it has converged, and largest rate.
    smoothing : float
        Added to the variances of a piecewise-linear loss, which smooths it within a hundredth of a score.
    window : int
        Steps over which the gain is averaged, since the gain of single steps varies.
    block_entries : int
        Numbers of a block, for which a dense design multiplies without a copy.
    alignments : int
        Maximum number of rounds that align units of draws.
    """

    start_steps: int = 15
    rounds: int = 30
    round_steps: int = 20
    rate_change: float = 2e-3
    largest: float = 1 - 1e-6
    smoothing: float = 1e-4
    window: int = 10
    block_entries: int = 1 << 21
    alignments: int = 5


RULES = Rules()
