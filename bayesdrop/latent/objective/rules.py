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
    settled, largest : float
        Change of a rate below which it has converged, and largest rate.
    smoothing : float
        Added to the variances of a piecewise-linear loss, which smooths it within a hundredth of a score.
    first, window : float, int
        Share of the steps of L-BFGS for the energy without variance, and steps over which the gain is averaged, since
        the gain of single steps varies.
    inputs : int
        Maximum number of features whose second moments are decomposed, if there are as many rows.
    product, entry, row : int
        Time per operation, relative to three operations of BLAS: of a column of a sparse product, of a compiled loop
        over entries, and of its start of a row.
    block_entries, kept_entries : int
        Numbers of a block, for which a dense design multiplies without a copy, and of all blocks whose designs are
        kept.
    alignments : int
        Maximum number of rounds that align units of draws.
    """

    start_steps: int = 15
    rounds: int = 30
    round_steps: int = 20
    settled: float = 2e-3
    largest: float = 1 - 1e-6
    smoothing: float = 1e-4
    first: float = 0.3
    window: int = 10
    inputs: int = 1000
    product: int = 3
    entry: int = 6
    row: int = 12
    block_entries: int = 1 << 21
    kept_entries: int = 1 << 27
    alignments: int = 5


RULES = Rules()
