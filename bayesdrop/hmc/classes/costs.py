r"""Costs of softmax rows that are streamed, and their slopes in the loadings of many classes.

The rows see a point through the contrasts of their scores (:mod:`.classes.density`): ``J`` means ``x·u_j + l_j``, and
with noise the covariances ``x²·a_jl + x·b_jl + c_jl`` of their pairs ``j <= l``. Loadings, as
:class:`.density.Loadings` has them, are those of all contrasts, or pairs, of the first chain, then of the next, so that
one product with the rows serves all chains and classes. With the basis ``B`` (K, J) the scores are ``s = Bm``, their
covariance is ``BVBᵀ``, and

    ∂cost/∂m = Bᵀ ∂cost/∂s,    ∂cost/∂v_jl = (2 − δ_jl) (Bᵀ ∂cost/∂cov B)_jl,    ∂cost/∂s = c (softmax(s) − 1_y)

without noise; what noise adds is of :mod:`bayesdrop.losses.softmax`.

Shapes: ``C`` chains, ``K`` classes, ``J = K − 1`` contrasts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..._typing import Float, PerRow
from ...losses.softmax import FORMS, log_sum_exp
from .density import ClassDensity, contrasts

__all__ = ["ClassCosts"]


@dataclass(frozen=True)
class ClassCosts:
    """Slopes of the cost of some rows, and what is summed over them; see :class:`.streamed.density.RowCosts`.

    Attributes
    ----------
    density : ClassDensity
        What a row costs.
    names : tuple of str
        Other vectors over the rows: none, for each of many classes would have its own.
    level : array (C J,)
        Of the loadings.
    constant : array (C J (J + 1) / 2,)
        The same of the covariances.
    """

    density: ClassDensity
    names: tuple[str, ...]
    level: Float[np.ndarray, " contrasts"]
    constant: Float[np.ndarray, " pairs"]

    @property
    def chains(self) -> int:
        """Number ``C`` of costs of a row."""
        return len(self.level) // (self.density.n_classes - 1)

    @cached_property
    def _basis(self) -> Float[np.ndarray, "K J"]:
        return contrasts(self.density.n_classes)

    def __call__(
        self,
        first: Float[np.ndarray, "rows _"],
        second: Float[np.ndarray, "rows _"],
        target: PerRow,
        weight: PerRow,
    ) -> tuple[Float[np.ndarray, "rows _"], Float[np.ndarray, "rows _"], Float[np.ndarray, "rows _"]]:
        """Given the products of the rows with the loadings, and their classes by number."""
        columns, J, C = len(self.level), self._basis.shape[1], self.chains
        with np.errstate(over="ignore", invalid="ignore"):
            # Rows come last: sums over a few classes are then sums of long vectors.
            mean = np.add(first[:, :columns].T, self.level[:, None], order="C").reshape(C, J, -1)
            score = self._basis @ mean
            level, slope = log_sum_exp(score, axis=1)
            to_pairs = None
            if self.density.has_variance:
                var = np.broadcast_to(self.constant, (len(first), len(self.constant)))
                var = var + second if self.density.quadratic else var
                var = var + first[:, columns:] if self.density.linear else var
                extra, more, to_pairs = self._of_noise(score, var)
                level, slope, to_pairs = level + extra, slope + more, weight[:, None] * to_pairs
            own, rows = np.asarray(target).astype(np.intp), np.arange(len(first))
            cost = weight[:, None] * (level - score[:, own, rows]).T
            slope[:, own, rows] -= 1
            back = ((self._basis.T @ slope) * weight).reshape(columns, -1).T
        if to_pairs is None:
            return back, second, cost
        back = np.concatenate([back, to_pairs], axis=1) if self.density.linear else back
        return back, to_pairs if self.density.quadratic else second, np.concatenate([cost, to_pairs], axis=1)

    def _of_noise(
        self, score: Float[np.ndarray, "C K m"], pairs: Float[np.ndarray, "m _"]
    ) -> tuple[Float[np.ndarray, "C m"], Float[np.ndarray, "C K m"], Float[np.ndarray, "m _"]]:
        """What noise adds to the loss, and its slopes in the scores and in the covariances of pairs of contrasts."""
        (C, K, m), basis = score.shape, self._basis
        one, other = np.triu_indices(K - 1)
        cov = np.empty((m * C, K - 1, K - 1))
        cov[:, one, other] = cov[:, other, one] = pairs.reshape(m * C, len(one))
        mean = score.transpose(2, 0, 1).reshape(m * C, K)
        extra, slope, to_cov, _ = FORMS[self.density.loss.expectation](mean, basis @ cov @ basis.T)
        to_pairs = np.where(one == other, 1.0, 2.0) * (basis.T @ to_cov @ basis)[:, one, other]
        return extra.reshape(m, C).T, slope.reshape(m, C, K).transpose(1, 2, 0), to_pairs.reshape(pairs.shape)
