"""Fits of candidates on folds for many classes jointly: one after the other, each started from the one before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..._typing import Float, PerRow
from ...designs import Design
from ...losses.softmax import expected_log_softmax, expected_softmax
from ...model import Model
from ..objective.energy import row_weights
from ..objective.softmax_leave_one_out import left_out_classes
from ..problems.block import ProblemFit
from ..problems.many_classes import class_chances, fit_classes, softmax_energy
from .blocks import Block, Family, Held
from .folds import Fold

__all__ = ["JointSolver"]


@dataclass(frozen=True)
class JointSolver:
    """Fits of the softmax; the ``mean`` of held-out rows is their class probabilities (m, K).

    Attributes
    ----------
    model : Model
        CentredProblem: its loss, noise, priors; the rates and ``C`` are those of the candidates.
    design : Design (n, p)
        Rows less the centre, those without labels last.
    code, weight : array (n,)
        Class number and weight of each row.
    n_classes : int
        ``K``.
    names : sequence of p str
        Names of the columns.
    tol, max_iter
        As in :func:`bayesdrop.fitting.problems.many_classes.fit_classes`.
    corrupted_inputs : bool
        Whether held-out rows come noised already.
    unlabelled : (int, float), optional
        The last so many rows have no label and count by so much each.
    will_be_noised : bool
        Whether held-out rows are complete, and rows to come will be noised as the fit has it. Chances are then
        ``exp E log softmax``, so that minus their logarithm is the mean loss of such rows.
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
    will_be_noised: bool = False
    at_a_time: ClassVar[int] = 2

    def solve(
        self,
        family: Family,
        members: Sequence[int],
        C: float,
        folds: Sequence[Fold],
        earlier: Block | None,
        take: Callable[[int, int, Held], object],
    ) -> Block:
        """See :meth:`.blocks.BlockSolver.solve`."""
        (_, p), K = self.design.shape, self.n_classes
        weights, rates = np.empty((p + 1, len(folds), len(members), K)), np.empty((p, len(folds), len(members), 1))
        for f, fold in enumerate(folds):
            start = None if earlier is None else (earlier.weights[:, f, -1], earlier.rates[:, f, -1])
            for s, member in enumerate(members):
                model = replace(self.model, C=C, rates=family.members[member])
                found = fit_classes(
                    model, self.design, model.bind(self.names), self.code, fold.count * self.weight, K, tol=self.tol,
                    max_iter=self.max_iter, start=start, unlabelled=self.unlabelled,
                )  # fmt: skip
                weights[:, f, s], rates[:, f, s] = start = found.weights, found.rates
                seen = class_chances(
                    model, self.design, found.weights, found.rates, self.corrupted_inputs, fold.test,
                    average=self._average,
                )  # fmt: skip
                held = self._left_out(model, fold, found)[fold.test] if fold.alone else seen
                inside = (seen, 0 * held) if fold.alone else None
                take(f, s, Held(found.weights, found.rates, held, 0 * held, inside))
        return Block(tuple(members), weights, rates)

    def _left_out(self, model: Model, fold: Fold, found: ProblemFit) -> Float[np.ndarray, "n K"]:
        """Class probabilities of the rows, each by a fit without it."""
        known, noisy = (part[:, 0] for part in row_weights(model, self.weight[:, None], self.unlabelled)[:2])
        energy = softmax_energy(model, self.design, found.rates, self.code, self.n_classes, model.C * known, noisy)
        return self._average(*left_out_classes(energy, found.weights, self.corrupted_inputs, fold.share))

    def _average(self, mean: Float[np.ndarray, "n K"], cov: Float[np.ndarray, "n K K"]) -> Float[np.ndarray, "n K"]:
        """Class chances of normal scores."""
        return np.exp(expected_log_softmax(mean, cov)) if self.will_be_noised else expected_softmax(mean, cov)
