"""Fits of candidates on folds for many classes jointly: one after the other, each started from the one before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..._typing import Float
from ...losses.softmax import expected_log_softmax, expected_softmax
from ...model import Model
from ..objective.energy import row_weights
from ..objective.softmax_leave_one_out import left_out_classes
from ..problems.block import ProblemFit, Task
from ..problems.many_classes import class_chances, fit_classes, softmax_energy
from .blocks import Block, Family, Held
from .folds import Fold

__all__ = ["JointSolver"]


@dataclass(frozen=True)
class JointSolver:
    """Fits of the softmax; the ``mean`` of held-out rows is their class probabilities (m, K).

    Attributes
    ----------
    task : Task
        The rows; the rates and ``C`` of the model are those of the candidates. If the rows to come will be noised,
        chances are ``exp E log softmax``, so that minus their logarithm is the mean loss of such rows.
    """

    task: Task
    at_a_time: ClassVar[int] = 2

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.task.n_classes or 0

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
        task, K = self.task, self.n_classes
        p = task.design.shape[1]
        weights, rates = np.empty((p + 1, len(folds), len(members), K)), np.empty((p, len(folds), len(members), 1))
        for f, fold in enumerate(folds):
            start = None if earlier is None else (earlier.weights[:, f, -1], earlier.rates[:, f, -1])
            for s, member in enumerate(members):
                model = replace(task.model, C=C, rates=family.members[member])
                solution = fit_classes(
                    model, task.design, model.bind(task.names), task.target, fold.count * task.weight, K,
                    tol=task.method.tol, max_iter=task.method.max_iter, start=start, unlabelled=task.unlabelled,
                )  # fmt: skip
                weights[:, f, s], rates[:, f, s] = start = solution.weights, solution.rates
                seen = class_chances(
                    model, task.design, solution.weights, solution.rates, task.corrupted_inputs, fold.test,
                    average=self._average,
                )  # fmt: skip
                chances = self._left_out(model, fold, solution)[fold.test] if fold.alone else seen
                inside = (seen, 0 * chances) if fold.alone else None
                take(f, s, Held(solution.weights, solution.rates, chances, 0 * chances, inside))
        return Block(tuple(members), weights, rates)

    def _left_out(self, model: Model, fold: Fold, solution: ProblemFit) -> Float[np.ndarray, "n K"]:
        """Class probabilities of the rows, each by a fit without it."""
        task = self.task
        label_weight, noisy = (part[:, 0] for part in row_weights(model, task.weight[:, None], task.unlabelled)[:2])
        energy = softmax_energy(
            model, task.design, solution.rates, task.target, self.n_classes, model.C * label_weight, noisy
        )
        return self._average(*left_out_classes(energy, solution.weights, task.corrupted_inputs, fold.share))

    def _average(self, mean: Float[np.ndarray, "n K"], cov: Float[np.ndarray, "n K K"]) -> Float[np.ndarray, "n K"]:
        """Class chances of normal scores."""
        return np.exp(expected_log_softmax(mean, cov)) if self.task.will_be_noised else expected_softmax(mean, cov)
