r"""Eigenvectors that the contrasts of many classes share, and the covariance that follows.

In the notation of :mod:`.classes.factor`: found anew for every curvature of the rows, while the approximation is looked
for.

Shapes: ``n`` rows, ``p`` features, ``J`` contrasts, ``m`` the shorter of the two sides.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._typing import Float
from ..approximations.row_factor import centred_gram

__all__ = ["ClassSpace"]

# Numbers that are held at a time where eigenvectors go in parts.
_VALUES = 1 << 22

Coefficients = Float[np.ndarray, "q J"]


class ClassSpace:
    """Eigenvectors for curvatures of the rows (n,), and what follows from them.

    Parameters
    ----------
    design : Design (n, p)
        ``X``.
    gain, prior, extra : array (p,)
        ``g``, precisions of the weights, and ``e``.
    outer : array (n, n), optional
        ``XP⁻¹Xᵀ`` where the eigenvectors are those of rows.
    curvature : array (n,)
        ``d``.
    intercept : bool
        There are intercepts.
    """

    def __init__(
        self,
        design: Any,
        gain: Float[np.ndarray, " p"],
        prior: Float[np.ndarray, " p"],
        extra: Float[np.ndarray, " p"],
        outer: Float[np.ndarray, "n n"] | None,
        curvature: Float[np.ndarray, " n"],
        intercept: bool,
    ) -> None:
        self.design, self.gain, self.curvature, self.intercept = design, gain, curvature, intercept
        self.by_rows, self.total = outer is not None, float(curvature.sum())
        self.mean_row = gain * design.rmatvec(curvature) / self.total if intercept else np.zeros(len(gain))
        if outer is not None:
            self.precision = prior + extra
            root, gram = np.sqrt(curvature), centred_gram(outer, curvature, intercept)
        else:
            self.precision = prior
            root = prior**-0.5
            gram = gain[:, None] * design.gram(curvature) * gain
            gram += np.diag(extra) - self.total * np.outer(self.mean_row, self.mean_row)
        square = root[:, None] * gram * root
        value, self.basis = np.linalg.eigh(0.5 * (square + square.T))
        self.value, self.root = np.maximum(value, 0), root

    def centred(self, weight: Float[np.ndarray, "p k"]) -> Float[np.ndarray, "n k"]:
        """``A₀w``."""
        scores: Float[np.ndarray, "n k"] = self.design.matvec(self.gain[:, None] * weight) - self.mean_row @ weight
        return scores

    def back(self, rows: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "p k"]:
        """``A₀ᵀr``."""
        found: Float[np.ndarray, "p k"] = self.gain[:, None] * self.design.rmatvec(rows)
        return found - np.outer(self.mean_row, rows.sum(axis=0))

    def inverse(self, right: Coefficients, rotated: Float[np.ndarray, " J"]) -> Coefficients:
        """The covariance times a gradient, each contrast of rotated ones its own."""
        shrink = 1 / (1 + rotated[None] * self.value[:, None])
        slope, level = right[:-1] - np.outer(self.mean_row, right[-1]), right[-1] / (rotated * self.total)
        if self.by_rows:
            prior = slope / self.precision[:, None]
            inside = self.root[:, None] * self.centred(prior)
            inside = self.root[:, None] * (self.basis @ (rotated[None] * shrink * (self.basis.T @ inside)))
            weight = prior - self.back(inside) / self.precision[:, None]
        else:
            weight = self.root[:, None] * (self.basis @ (shrink * (self.basis.T @ (self.root[:, None] * slope))))
        return np.vstack([weight, level - self.mean_row @ weight if self.intercept else np.zeros((1, len(rotated)))])

    def _parts(self, side: int) -> Any:
        step = max(1, _VALUES // max(side, 1))
        return (slice(start, start + step) for start in range(0, len(self.value), step))

    def variances(self, rotated: Float[np.ndarray, " J"]) -> Float[np.ndarray, "n J"]:
        """Variances of the mean scores of the rows."""
        shrink = 1 / (1 + rotated[None] * self.value[:, None])
        if self.by_rows:
            found = (self.basis**2 @ (self.value[:, None] * shrink)) / self.curvature[:, None]
        else:
            found = np.zeros((len(self.curvature), len(rotated)))
            for part in self._parts(len(self.curvature)):
                found += self.centred(self.root[:, None] * self.basis[:, part]) ** 2 @ shrink[part]
        return np.maximum(found + (1 / (rotated * self.total) if self.intercept else 0.0), 1e-12)

    def weight_variances(self, rotated: Float[np.ndarray, " J"]) -> Float[np.ndarray, "p J"]:
        """Variances of the weights."""
        shrink = 1 / (1 + rotated[None] * self.value[:, None])
        if not self.by_rows:
            inside: Float[np.ndarray, "p J"] = self.root[:, None] ** 2 * (self.basis**2 @ shrink)
            return inside
        told = np.zeros((len(self.precision), len(rotated)))
        for part in self._parts(len(self.precision)):
            told += self.back(self.root[:, None] * self.basis[:, part]) ** 2 @ (rotated[None] * shrink[part])
        own = 1 / self.precision[:, None]
        return np.maximum(own - told * own**2, 1e-6 * own)
