"""Fit many candidates on many folds at once, as problems of one block in which held-out rows have weight 0.

One pass over the data serves all of them, and the last step of a fit computes the scores of its held-out rows too.
Settings that do not depend on the labels are those of all rows: the centre of the noise and the scales of a relative
prior.

Candidates for the rates are grouped in families, each of which is fitted as one block. A learnt rate ``η̂`` of the sign
rule (Zhuo, Zhu & Zhang 2015, eq. 15) measures how often a feature contradicts its weight, not how much noise is best
for prediction: for a weak feature of a dense table it is nearly one half. A strength ``s`` in [0, 1] scales it,

    η = s η̂ = η̂/(1 + λ),        λ = 1/s − 1,

which is the mode under a Beta prior of mode 0 with the relative strength ``λ`` (their eq. 17), as if each of ``n``
occurrences came with ``λ`` more occurrences that were kept. ``s = 1`` is the published rule, ``s = 0`` no noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ..._memory import BLOCK
from ..._typing import Float, Num
from ...priors.rate_prior import BetaLaw
from ...rates import Fixed, RateMap, Rates
from ..objective.leave_one_out import left_out_scores
from ..problems.block import Task, fit_block
from .folds import Fold

__all__ = ["Block", "BlockSolver", "Family", "Held", "Start", "families_of", "scaled"]

Start: TypeAlias = tuple[Float[np.ndarray, "q K"], Float[np.ndarray, "p ..."]]
"""Weights and rates of a fit, from which another may start."""


@dataclass(frozen=True)
class Held:
    """A fit and the moments of the scores of its held-out rows.

    Attributes
    ----------
    weights, rates : array (p + 1, J), (p, J)
        Weights and rates of J problems; (p, 1) if classes share their rates.
    mean, var : array (m, J)
        Moments of the scores of the held-out rows.
    seen : tuple of two arrays (m, J), optional
        Moments by the fit to all rows, if each row was left out alone.
    """

    weights: Float[np.ndarray, "q J"]
    rates: Float[np.ndarray, "p _"]
    mean: Float[np.ndarray, "m J"]
    var: Float[np.ndarray, "m J"]
    seen: tuple[Float[np.ndarray, "m J"], Float[np.ndarray, "m J"]] | None = None


@dataclass(frozen=True)
class Block:
    """Weights (p + 1, F, S, J) and rates (p, F, S, J) of ``F`` folds, ``S`` members and ``J`` problems, which
    may share their rates, (p, F, S, 1).
    """

    members: tuple[int, ...]
    weights: Float[np.ndarray, "q F S J"]
    rates: Float[np.ndarray, "p F S _"]

    def start(self, members: Sequence[int]) -> tuple[Float[np.ndarray, "q K"], Float[np.ndarray, "p K"]] | None:
        """Start for fits of these members at another ``C``; None unless the block has all of them."""
        if not set(members) <= set(self.members):
            return None
        places = [self.members.index(k) for k in members]
        return tuple(part[:, :, places].reshape(len(part), -1) for part in (self.weights, self.rates))  # type: ignore[return-value]

    @classmethod
    def of_fit(cls, member: int, held_out: Held, times: int) -> Block:
        """The fit of one member, repeated for ``times`` folds."""
        weights, rates = (np.repeat(part[:, None, None], times, axis=1) for part in (held_out.weights, held_out.rates))
        return cls((member,), weights, rates)


@dataclass(frozen=True)
class BlockSolver:
    """Solver of fits with one score per row, or of several classes one against the rest.

    Attributes
    ----------
    task : Task
        Rows and model; each candidate replaces the rates and ``C``.
    at_a_time : int
        Number of single rows that are best held out in one call, each in a separate fold.
    room : int
        Maximum number of entries of an array of a block, (n, K) or (p, K); larger blocks are solved in parts.
    """

    task: Task
    at_a_time: ClassVar[int] = 8
    room: ClassVar[int] = 4 * BLOCK

    def solve(
        self,
        family: Family,
        members: Sequence[int],
        C: float,
        folds: Sequence[Fold],
        earlier: Block | None,
        take: Callable[[int, int, Held], object],
    ) -> Block:
        """Fit members of a family on folds; call ``take(fold, member, fit)`` with the position of each."""
        task = self.task
        J, (n, p) = task.target.shape[1], task.design.shape
        start = None if earlier is None else earlier.start(members)
        shape = (len(folds), len(members), J)
        weights, rates = np.empty((p + 1, *shape)), np.empty((p, *shape))
        # Exact exponential moments are computed for one problem at a time.
        limit = 1 if task.model.loss.exponential else self.room // (max(n, p) * J)
        for few, member_slice in _parts(len(folds), len(members), limit):
            places = np.arange(np.prod(shape)).reshape(shape)[few, member_slice].ravel()
            begin = None if start is None else (start[0][:, places], start[1][:, places])
            rate_map, rate = family.bind(task.names, members[member_slice], J)
            count = folds[few]
            if rate is not None:
                rate = np.tile(rate, len(count))
            elif len(count) > 1:
                rate_map = replace(rate_map, prior=_tiled(rate_map.prior, len(count)))
            row_weight = np.stack([fold.count * task.weight for fold in count], axis=1)
            each = len(members[member_slice]) * J
            result = fit_block(
                task.model, task.design, rate_map, np.tile(task.target, len(places) // J),
                np.repeat(row_weight, each, axis=1), task.method, begin, task.unlabelled,
                strength=np.full(len(places), C), many=J > 1, rate=rate, offset=task.offset,
            )  # fmt: skip
            size = (len(count), len(members[member_slice]), J)
            weights[:, few, member_slice] = result.weights.reshape(p + 1, *size)
            rates[:, few, member_slice] = result.rates.reshape(p, *size)
            mean, var, seen = result.mean, result.var, None
            if count[0].alone:
                seen = result.energy.scores(mean), var
                share = count[0].share
                mean, var = left_out_scores(result.energy, result.weights, mean, var, task.corrupted_inputs, share)
            elif task.corrupted_inputs:
                mean = task.design.matvec(result.weights[:-1]) + result.weights[-1]
                var = np.zeros_like(mean)
            mean = result.energy.scores(mean)
            for f, fold in enumerate(count):
                for s in range(size[1]):
                    columns = slice((f * size[1] + s) * J, (f * size[1] + s + 1) * J)
                    held_out = Held(
                        result.weights[:, columns], result.rates[:, columns], mean[fold.test, columns],
                        var[fold.test, columns],
                        None if seen is None else (seen[0][fold.test, columns], seen[1][fold.test, columns]),
                    )  # fmt: skip
                    take(few.start + f, member_slice.start + s, held_out)
        return Block(tuple(members), weights, rates)


def _tiled(prior: Any, times: int) -> Any:
    """Repeat a prior of scaled rates (k, K) ``times`` times; other priors suit any number of problems."""
    strength: Any = getattr(prior, "strength", 1.0)
    return replace(prior, strength=np.tile(strength, times)) if np.ndim(strength) == 1 else prior


def _parts(folds: int, members: int, limit: int) -> Iterator[tuple[slice, slice]]:
    """Slices of folds and of members, with at most ``limit`` pairs each, and at least one."""
    width = max(1, min(members, limit))
    few = max(1, min(folds, limit // width))
    for first in range(0, folds, few):
        for second in range(0, members, width):
            yield slice(first, min(first + few, folds)), slice(second, min(second + width, members))


def scaled(structure: Any, strength: float) -> Rates:
    """Scale the learnt rates of a structure by a strength; return ``Fixed(0.0)`` at 0.

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
    """Prior of free rates (k, K) that scales the rates of each problem by its strength."""

    prior: Any
    strength: Float[np.ndarray, " K"]
    relative = True

    def law(self, occurrences: Num[np.ndarray, "*law"]) -> BetaLaw:
        law = self.prior.law(occurrences)
        return BetaLaw(law.a, law.b + (1 / self.strength - 1) * occurrences)


@dataclass(frozen=True)
class Family:
    """Candidates that one block can hold.

    Attributes
    ----------
    members : tuple of Rates or None
        Rates objects of the candidates; None for a noise without rates.
    strengths : tuple of float or None
        Factors on the rates of ``structure``; None for given rates.
    numbers : tuple of int
        Places of the members among all candidates.
    structure : Rates or None
        Structure with learnt rates, or None.
    """

    members: tuple[Any, ...]
    strengths: tuple[float | None, ...]
    numbers: tuple[int, ...]
    structure: Any = None

    def bind(self, names: Sequence[str], chosen: Sequence[int], problems: int) -> tuple[RateMap, Any]:
        """Map of the rates, and fixed rates (p, K) or None, for some members with ``problems`` problems each."""
        if self.structure is None:
            maps = [self._fixed(self.members[k]).bind(names) for k in chosen]
            rate = np.stack([rate_map.initial for rate_map in maps], axis=1)
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
        # One family holds all fixed rates, one all strengths of a structure; a structure without strength is a family.
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
