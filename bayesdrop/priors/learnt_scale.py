r"""Normal weights whose scales are learnt, one for all features or one per group of them.

    w_d ~ N(0, (σ_j u_d)²)  for every feature d of group j,      σ_j ~ HalfNormal or HalfCauchy

with known units ``u_d``. This is what a sampler reads of such a prior; ``bd.Normal`` is what a user writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._typing import Float, Int

__all__ = ["LearntScale"]


@dataclass(frozen=True)
class LearntScale:
    """Groups of weights and the law of their scales.

    Attributes
    ----------
    index : int array (p,)
        Group of each feature; ``g``, one beyond the last, where the scale is known and is the unit.
    names : list of str
        The groups; empty where all features share one scale.
    unit : array (p,)
        ``u``.
    law : :class:`~bayesdrop.priors.scale_prior.ScaleLaw` of shape (g,)
        Prior of the scales.
    """

    index: Int[np.ndarray, " p"]
    names: list[str]
    unit: Float[np.ndarray, " p"]
    law: Any

    @property
    def groups(self) -> int:
        """Number ``g`` of scales."""
        return max(len(self.names), 1)

    @property
    def dims(self) -> tuple[str, ...]:
        """Dims of ``weight_scale`` in a posterior, behind chain and draw."""
        return ("weight_group",) if self.names else ()

    def scale(self, per_group: Float[np.ndarray, "*draws g"]) -> Float[np.ndarray, "*draws p"]:
        """Standard deviation of each weight at given ``σ`` (..., g)."""
        every = np.concatenate([per_group, np.ones((*per_group.shape[:-1], 1))], axis=-1)
        found: Float[np.ndarray, "*draws p"] = every[..., self.index] * self.unit
        return found

    def sums(self, per_weight: Float[np.ndarray, " p"], repeats: int = 1) -> Float[np.ndarray, " g"]:
        """Sum over the weights of each group, (g,), of values of the weights of ``repeats`` classes one after another.

        Examples
        --------
        >>> LearntScale(np.array([0, 0, 1]), ["a"], np.ones(3), None).sums(np.array([1.0, 2.0, 4.0])).tolist()
        [3.0]
        """
        index = np.tile(self.index, repeats)
        return np.bincount(index, per_weight, minlength=self.groups)[: self.groups]
