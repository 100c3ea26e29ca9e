r"""Candidates for the rates, in families that are fitted as one block.

A learnt rate ``η̂`` of the sign rule (Zhuo, Zhu & Zhang 2015, eq. 15) says how often a feature speaks against its
weight, not how much noise the prediction wants: for a weak feature of a dense table it is nearly one half. A strength
``s`` in [0, 1] scales it,

    η = s η̂ = η̂/(1 + λ),        λ = 1/s − 1,

which is the mode under a Beta prior of mode 0 with the relative strength ``λ`` (their eq. 17): as if each of ``n``
occurrences came with ``λ`` more that were kept. ``s = 1`` is the published rule, ``s = 0`` no noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._typing import Float, Num
from ...priors.beta import BetaLaw
from ...rates import Fixed, RateMap, Rates

__all__ = ["Family", "families_of", "scaled"]


def scaled(structure: Any, strength: float) -> Rates:
    """The structure with its learnt rates scaled by a strength; ``Fixed(0.0)`` at 0.

    Raises
    ------
    ValueError
        If the rates of the structure have no prior that can be scaled.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> scaled(bd.PerFeature(), 0.25)
    PerFeature(prior=Beta(a=1.0, b=1.0, a_per_count=0.0, b_per_count=3.0), start=0.5, class_ratio=None)
    """
    if strength == 0:
        return Fixed(0.0)
    if strength == 1:
        return structure
    return replace(structure, prior=structure.prior.scaled(strength))


@dataclass(frozen=True)
class _Scaled:
    """Prior of free rates (k, K) that scales those of each problem by a strength of its own."""

    prior: Any
    strength: Float[np.ndarray, " K"]
    relative = True

    def law(self, occurrences: Num[np.ndarray, "*law"]) -> BetaLaw:
        own = self.prior.law(occurrences)
        return BetaLaw(own.a, own.b + (1 / self.strength - 1) * occurrences)

    @staticmethod
    def stored_law(constants: Any) -> None:
        return


@dataclass(frozen=True)
class Family:
    """Candidates that one block can hold.

    Attributes
    ----------
    members : tuple of Rates or None
        The candidates as a user would write them; None for a noise without rates.
    strengths : tuple of float or None
        By which the rates of ``structure`` are scaled; None for rates that are given.
    numbers : tuple of int
        Their places among all candidates.
    structure : Rates or None
        The structure that learns, or None.
    """

    members: tuple[Any, ...]
    strengths: tuple[float | None, ...]
    numbers: tuple[int, ...]
    structure: Any = None

    def bind(self, names: Sequence[str], chosen: Sequence[int], problems: int) -> tuple[RateMap, Any]:
        """Map of the rates, and fixed rates (p, K) or None, for some members with so many problems each."""
        if self.structure is None:
            maps = [self._fixed(self.members[k]).bind(names) for k in chosen]
            rate = np.stack([found.initial for found in maps], axis=1)
            return maps[0], np.repeat(rate, problems, axis=1)
        bound = self.structure.bind(names)
        strength = np.repeat(np.array([self.strengths[k] for k in chosen], dtype=float), problems)
        plain = len(self.members) == 1 and self.strengths[0] == 1
        return (bound if plain else replace(bound, prior=_Scaled(bound.prior, strength))), None

    @staticmethod
    def _fixed(member: Any) -> Any:
        return Fixed(0.0) if member is None else member


def families_of(candidates: Sequence[Any], names: Sequence[str]) -> list[Family]:
    """Families of candidates: rates objects, ``(structure, strength)`` pairs, or None for a noise without rates."""
    groups: dict[Any, list[tuple[Any, float | None, int]]] = {}
    structures: dict[Any, Any] = {}
    for number, candidate in enumerate(candidates):
        structure, strength = candidate if isinstance(candidate, tuple) else (candidate, None)
        member = structure if strength is None else scaled(structure, strength)
        free = member is not None and member.bind(names).is_free
        # One block holds all fixed rates, or the strengths of one structure; a structure alone is its own.
        key: Any = "fixed" if not free else ("alone", number) if strength is None else ("scaled", id(structure))
        if strength is None and member is not None:
            strength = 1.0 if free else 0.0 if not np.any(member.bind(names).initial) else None
        groups.setdefault(key, []).append((member, strength, number))
        structures[key] = structure if free else None
    families = []
    for key, group in groups.items():
        members, strengths, numbers = zip(*group, strict=True)
        families.append(Family(members, strengths, numbers, structures[key]))
    return families
