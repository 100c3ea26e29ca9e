r"""What noise adds to the curvature of softmax regression, with a matrix for each feature or by single entries.

With the quadratic penalty ``R_i = ½ tr((diag π_i − π_iπ_iᵀ) V_i)`` and the variances ``v_ij`` of the noised entries
the second derivative along ``u`` for given ``π`` is ``Σ_j u_jᵀ H_j u_j``, ``H_j = Σ_i d_i v_ij (diag π_i − π_iπ_iᵀ)``.
Either all ``H_j`` are held, p K² numbers that cost K(K + 1)/2 sums over the data, or the product is formed as

    (H u)_j = (Σ_i d_i v_ij π_i) ∘ u_j − Σ_i √d_i π_i v_ij ⟨√d_i π_i, u_j⟩,

one inner product over the classes for each entry of the data that is not zero, so that K classes cost K. So does the
penalty, for ``tr((diag π − ππᵀ) V) = Σ_j v_j (Σ_k π_k w_jk² − ⟨π, w_j⟩²)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from ..._typing import Float, PerRow
from ...moments import ScoreMoments

__all__ = ["ByEntries", "ByFeature", "NoiseCurvature"]


@runtime_checkable
class NoiseCurvature(Protocol):
    """Protocol of the curvature."""

    def times(self, direction: Float[np.ndarray, "p K"]) -> Float[np.ndarray, "p K"]:
        """``H u`` for a direction (p, K)."""

    def diagonal(self) -> Float[np.ndarray, "p K"]:
        """Diagonal of every ``H_j``."""


@dataclass(frozen=True)
class ByFeature:
    """The matrix of each feature, (p, K, K).

    Examples
    --------
    >>> ByFeature(np.array([[[2.0, -1.0], [-1.0, 1.0]]])).times(np.ones((1, 2))).tolist()
    [[1.0, 0.0]]
    """

    matrices: Float[np.ndarray, "p K K"]

    def times(self, direction: Float[np.ndarray, "p K"]) -> Float[np.ndarray, "p K"]:
        """See :class:`NoiseCurvature`."""
        return np.matmul(self.matrices, direction[:, :, None])[:, :, 0]

    def diagonal(self) -> Float[np.ndarray, "p K"]:
        """See :class:`NoiseCurvature`."""
        return np.einsum("pkk->pk", self.matrices)


@dataclass(frozen=True)
class ByEntries:
    """Products by single entries.

    Attributes
    ----------
    moments : ScoreMoments
        Design, noise that leaves zeros alone, and rates (p, 1).
    left : array (n, K)
        ``√d π``.
    level : array (p, K)
        ``Σ_i d_i v_ij π_i``.
    """

    moments: ScoreMoments
    left: PerRow
    level: Float[np.ndarray, "p K"]

    def times(self, direction: Float[np.ndarray, "p K"]) -> Float[np.ndarray, "p K"]:
        """See :class:`NoiseCurvature`."""
        return self.level * direction - self.moments.sampled_products(self.left, direction)[1]

    def diagonal(self) -> Float[np.ndarray, "p K"]:
        """See :class:`NoiseCurvature`."""
        return self.level - self.moments.spread(self.left * self.left)
