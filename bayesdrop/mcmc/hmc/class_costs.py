r"""Costs of softmax rows that are streamed, and their slopes in the loadings of many classes.

The rows see a point through the contrasts of their scores (:mod:`.class_density`): ``J`` means ``x·u_j + l_j``, and
with noise the covariances ``x²·a_jl + x·b_jl + c_jl`` of their pairs ``j <= l``. Loadings, as
:class:`.density.Loadings` has them, are those of all contrasts, or pairs, of the first chain, then of the next, so that
one product with the rows serves all chains and classes. With the basis ``B`` (K, J) the scores are ``s = Bm``, their
covariance is ``BVBᵀ``, and

    ∂cost/∂m = Bᵀ ∂cost/∂s,    ∂cost/∂v_jl = (2 − δ_jl) (Bᵀ ∂cost/∂cov B)_jl,    ∂cost/∂s = c (softmax(s) − 1_y)

without noise; what noise adds is of :mod:`bayesdrop.losses.softmax_forms`.

Shapes: ``C`` chains, ``K`` classes, ``J = K − 1`` contrasts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..._typing import Float, PerRow
from ...losses.softmax_forms import FORMS, log_sum_exp
from .class_density import ClassDensity, contrasts

__all__ = ["ClassCosts"]


@dataclass(frozen=True)
class ClassCosts:
    """Slopes of the cost of some rows, and what is summed over them; see :class:`.streamed_density.RowCosts`.

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
        rows, columns, K = len(first), len(self.level), self.density.n_classes
        with np.errstate(over="ignore", invalid="ignore"):
            score = (first[:, :columns] + self.level).reshape(-1, K - 1) @ self._basis.T
            level, slope = log_sum_exp(score)
            if not self.density.has_variance:
                cost, back = self._finished(score, level, slope, target, weight)
                return back, second, cost
            var = np.broadcast_to(self.constant, (rows, len(self.constant)))
            var = var + second if self.density.quadratic else var
            var = var + first[:, columns:] if self.density.linear else var
            extra, more, to_pairs = self._of_noise(score, var.reshape(len(score), -1))
            cost, back = self._finished(score, level + extra, slope + more, target, weight)
            to_pairs = to_pairs.reshape(var.shape) * weight[:, None]
        back = np.concatenate([back, to_pairs], axis=1) if self.density.linear else back
        return back, to_pairs if self.density.quadratic else second, np.concatenate([cost, to_pairs], axis=1)

    def _finished(
        self,
        score: Float[np.ndarray, "m K"],
        level: Float[np.ndarray, " m"],
        slope: Any,
        target: PerRow,
        weight: PerRow,
    ) -> tuple[Float[np.ndarray, "rows C"], Float[np.ndarray, "rows _"]]:
        """Costs of the rows for every chain, and their slopes in the contrasts of every chain."""
        own, rows = np.repeat(np.asarray(target).astype(np.intp), self.chains), np.arange(len(score))
        cost = (level - score[rows, own]).reshape(len(weight), -1) * weight[:, None]
        slope[rows, own] -= 1
        return cost, (slope @ self._basis).reshape(len(weight), -1) * weight[:, None]

    def _of_noise(
        self, score: Float[np.ndarray, "m K"], pairs: Float[np.ndarray, "m pairs"]
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, "m K"], Float[np.ndarray, "m pairs"]]:
        """What noise adds to the loss, and its slopes in the scores and in the covariances of pairs of contrasts."""
        J, basis = self.density.n_classes - 1, self._basis
        one, other = np.triu_indices(J)
        cov = np.empty((len(pairs), J, J))
        cov[:, one, other] = cov[:, other, one] = pairs
        extra, slope, to_cov, _ = FORMS[self.density.loss.expectation](score, basis @ cov @ basis.T)
        to_pairs = (basis.T @ to_cov @ basis)[:, one, other]
        return extra, slope, np.where(one == other, 1.0, 2.0) * to_pairs
