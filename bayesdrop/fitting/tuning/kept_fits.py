"""Fits of a search that others start from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .blocks import Block, Start
from .families import Family

__all__ = ["KeptFits"]

# Numbers (p, K) up to which fits are kept.
_MOST = 20_000_000


@dataclass(frozen=True)
class _Kept:
    """Fits of members of a family at one ``C``, on a group of folds by its first."""

    family: int
    C: float
    first: int
    block: Block


@dataclass
class KeptFits:
    """Fits by their family, ``C`` and folds."""

    blocks: list[_Kept] = field(default_factory=list)

    def add(self, family: int, C: float, first: int, block: Block) -> None:
        """Keep a block of fits on the folds from the ``first`` on, unless it is too large."""
        if block.rates.size <= _MOST:
            self.blocks.append(_Kept(family, C, first, block))

    def of(self, family: int, C: float, member: int) -> dict[int, Block]:
        """Blocks that a candidate is in, by the first of their folds."""
        return {
            kept.first: kept.block
            for kept in self.blocks if (kept.family, kept.C) == (family, C) and member in kept.block.members
        }  # fmt: skip

    def mean(self, family: int, C: float, member: int) -> Start | None:
        """Mean weights and rates of a candidate over the folds; None if there are none."""
        starts = [
            (block.weights[:, fold, place], block.rates[:, fold, place])
            for block in self.of(family, C, member).values() for place in [block.members.index(member)]
            for fold in range(block.weights.shape[1])
        ]  # fmt: skip
        if not starts:
            return None
        weights, rates = (np.mean(parts, axis=0) for parts in zip(*starts, strict=True))
        return weights, rates

    def nearest(self, family: int, C: float, first: int, members: Sequence[int]) -> Block | None:
        """Fits of all these members on the same folds at the nearest ``C``.

        Not on another fold, which has seen the rows that are held out: a loose fit would keep some of that.
        """
        known = [
            kept
            for kept in self.blocks
            if (kept.family, kept.first) == (family, first) and set(members) <= set(kept.block.members)
        ]
        near = min(known, key=lambda kept: abs(np.log(kept.C / C)), default=None)
        return None if near is None else near.block

    def least_noise(self, families: Sequence[Family], C: float, first: int, members: Sequence[int]) -> Block | None:
        """Where members begin that have no fit nearby: at the least noise of other candidates."""
        others = [
            (1.0 if strength is None else strength, number, place)
            for number, kept in enumerate(self.blocks) if (kept.C, kept.first) == (C, first)
            for place, member in enumerate(kept.block.members)
            for strength in [families[kept.family].strengths[member]]
        ]  # fmt: skip
        if not others:
            return None
        _, number, place = min(others)
        block, same = self.blocks[number].block, [place] * len(members)
        return Block(tuple(members), block.weights[:, :, same], block.rates[:, :, same])
