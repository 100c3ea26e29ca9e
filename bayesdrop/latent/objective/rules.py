"""Define the constants of fits and draws of a hidden layer, for the modules of ``bayesdrop.latent``."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RULES", "Rules"]


@dataclass(frozen=True)
class Rules:
    """Steps, sizes and tolerances of fits and draws of a hidden layer.

    Attributes
    ----------
    start_steps : int
        Number of steps from each of several random starts.
    rounds, round_steps : int
        Maximum number of updates of the rates, and number of steps of the weights before each.
    rate_change, largest : float
        Change of a rate below which it counts as converged, and maximum rate.
    smoothing : float
        Number added to the variances of a piecewise-linear loss, which smooths it within 0.01 of its corner.
    window : int
        Number of steps over which the gain is averaged, because gains of single steps vary.
    block_entries : int
        Maximum number of entries of a block: a dense design of this size is not copied to compressed rows.
    alignments : int
        Maximum number of rounds that align the units of draws.
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
