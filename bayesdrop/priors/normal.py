"""Normal prior of the weights, ``w ~ N(0, scale²)``; the intercept stays flat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

__all__ = ["Normal"]


@dataclass(frozen=True)
class Normal:
    """Normal prior with mean 0.

    Parameters
    ----------
    scale : float or array of shape (p,)
        Standard deviation, above 0; one per feature if an array.

    Examples
    --------
    >>> Normal(2.0).precision(3).tolist()
    [0.25, 0.25, 0.25]
    """

    scale: Any = 1.0
    gaussian: ClassVar[bool] = True

    def __post_init__(self) -> None:
        scale = np.asarray(self.scale, dtype=float)
        if not (np.all(np.isfinite(scale)) and np.all(scale > 0)):
            raise ValueError(f"Normal scale: expected finite numbers above 0, got {self.scale!r}.")

    def precision(self, n_features: int) -> np.ndarray:
        """Diagonal of the prior precision ``P``, shape (p,)."""
        scale = np.asarray(self.scale, dtype=float)
        if scale.ndim and scale.shape != (n_features,):
            raise ValueError(
                f"Normal scale: expected one number or {n_features} of them (one per feature), got shape {scale.shape}."
            )
        return np.broadcast_to(1 / scale**2, (n_features,)).copy()
