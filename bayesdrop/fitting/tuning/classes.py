"""Fit candidates on folds for a softmax over classes, each started at the fit before; used by :mod:`.choose`."""

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
    """Solver of softmax fits; the ``mean`` of held-out rows holds their class probabilities (m, K).

    Attributes
    ----------
    task : Task
        Rows and model; each candidate replaces the rates and ``C``. If new rows will be noised, class probabilities
        are ``exp E log softmax``, whose negative logarithm is the mean loss of such rows.
    at_a_time : int
        Number of single rows that are best held out in one call, each in a separate fold.
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
                in_sample = class_chances(
                    model, task.design, solution.weights, solution.rates, task.corrupted_inputs, fold.test,
                    average=self._average,
                )  # fmt: skip
                held_out = self._left_out(model, fold, solution)[fold.test] if fold.alone else in_sample
                seen = (in_sample, 0 * held_out) if fold.alone else None
                take(f, s, Held(solution.weights, solution.rates, held_out, 0 * held_out, seen))
        return Block(tuple(members), weights, rates)

    def _left_out(self, model: Model, fold: Fold, solution: ProblemFit) -> Float[np.ndarray, "n K"]:
        """Class probabilities of the rows, each approximately from a fit without it."""
        task = self.task
        label_weight, noisy = (part[:, 0] for part in row_weights(model, task.weight[:, None], task.unlabelled)[:2])
        energy = softmax_energy(
            model, task.design, solution.rates, task.target, self.n_classes, model.C * label_weight, noisy
        )
        return self._average(*left_out_classes(energy, solution.weights, task.corrupted_inputs, fold.share))

    def _average(self, mean: Float[np.ndarray, "n K"], cov: Float[np.ndarray, "n K K"]) -> Float[np.ndarray, "n K"]:
        """Class probabilities for normal scores."""
        return np.exp(expected_log_softmax(mean, cov)) if self.task.will_be_noised else expected_softmax(mean, cov)
