"""Warn of averages whose errors are larger than they may be."""

from __future__ import annotations

import numpy as np

from ..._typing import Float
from ...warnings import AccuracyWarning, warn

__all__ = ["Doubt"]


class Doubt:
    """Averages whose errors are estimated to be larger than they may be."""

    def __init__(self, allowed: float) -> None:
        self.allowed, self.failed, self.worst = allowed, 0, 0.0

    def add(self, error: Float[np.ndarray, " some"]) -> None:
        """Count those of some that are, by their errors."""
        large = error[~(error <= self.allowed)]
        if len(large):
            self.failed, self.worst = self.failed + len(large), max(self.worst, float(large.max()))

    def tell(self, total: int, why: str) -> None:
        """Warn of them, if there are any."""
        if self.failed:
            warn(
                f"{self.failed} of {total} averages over the noise of a row have errors of about {self.worst:.2g} or "
                f"less (expected {self.allowed:g}): {why}.",
                AccuracyWarning,
            )
