"""Fits of candidates on folds for many classes jointly: one after the other, each started from its neighbour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._typing import Float, PerRow
from ...designs import Design
from ...model import Model
from ..many_classes import class_chances, fit_classes
from .blocks import Block, Held
from .families import Family
from .folds import Fold

__all__ = ["JointSolver"]


@dataclass(frozen=True)
class JointSolver:
    """Fits of the softmax; the ``mean`` of held-out rows is their class probabilities (m, K).

    Attributes
    ----------
    model : Model
        Settled: its loss, noise, priors; the rates and ``C`` are those of the candidates.
    design : Design (n, p)
        Rows less the centre, those without labels last.
    code, weight : array (n,)
        Class number and weight of each row.
    n_classes : int
        ``K``.
    names : sequence of p str
        Names of the columns.
    tol, max_iter
        As in :func:`bayesdrop.fitting.many_classes.fit_classes`.
    corrupted_inputs : bool
        Whether held-out rows come noised already.
    unlabelled : (int, float), optional
        The last so many rows have no label and count by so much each.
    """

    model: Model
    design: Design
    code: PerRow
    weight: Float[np.ndarray, " n"]
    n_classes: int
    names: Sequence[str]
    tol: float
    max_iter: int
    corrupted_inputs: bool = False
    unlabelled: tuple[int, float] | None = None

    def solve(
        self,
        family: Family,
        members: Sequence[int],
        C: float,
        folds: Sequence[Fold],
        earlier: Block | None,
        take: Callable[[int, int, Held], None],
    ) -> Block:
        """See :class:`.search.Solver`."""
        (_, p), K = self.design.shape, self.n_classes
        sets = K if self.model.loss.class_rates else 1
        weights, rates = np.empty((p + 1, len(folds), len(members), K)), np.empty((p, len(folds), len(members), sets))
        for f, fold in enumerate(folds):
            before: Any = None
            for s, member in enumerate(members):
                start = before
                if earlier is not None and member in earlier.members:
                    place = earlier.members.index(member)
                    start = earlier.weights[:, f, place], earlier.rates[:, f, place]
                model = replace(self.model, C=C, rates=family.members[member])
                found = fit_classes(
                    model, self.design, model.bind(self.names), self.code, fold.count * self.weight, K, tol=self.tol,
                    max_iter=self.max_iter, start=start, unlabelled=self.unlabelled,
                )  # fmt: skip
                before = found.weights, found.rates
                weights[:, f, s], rates[:, f, s] = found.weights, found.rates.reshape(p, sets)
                chances = class_chances(model, self.design, found.weights, found.rates, None, self.corrupted_inputs)
                held = chances[fold.test]
                take(f, s, Held(found.weights, found.rates.reshape(p, sets), held, 0 * held))
        return Block(tuple(members), weights, rates)
