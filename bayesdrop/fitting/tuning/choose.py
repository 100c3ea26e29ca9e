"""Choose the strength of learnt rates, and ``C`` if it is not given, on folds of the rows of a fit, for ``bd.Tuned``.

If the rows allow no folds, the published rule is used, with a warning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ..._typing import Float
from ..._validation import check_folds
from ...losses.protocols import Curved
from ...model import Model
from ...warnings import SelectionWarning, warn
from ..objective.softmax_leave_one_out import MOST_COORDINATES
from ..problems.block import Task
from ..solvers.newton import Newton
from .blocks import BlockSolver, Held, families_of
from .calibration import Calibration
from .classes import JointSolver
from .folds import LEAVE_ONE_OUT, Fold, Rows, few_rows, make_folds
from .scores import Key, RowLosses, joint_losses, noised_scores
from .search import Losses, Search, Solver
from .selection import Selection, conclude

__all__ = ["FOLDS", "Comparison", "choose_strength", "search_on"]


def _possible_folds(comparison: Comparison, cv: Any, name: str, by_row: bool) -> Any:
    """``cv``, or the largest number of folds that the rows allow, with a warning; None if there are none.

    ``None`` stands for the default of the task. Leaving out rows one at a time requires a loss for each row
    (``by_row``), and a score of a whole fold requires rows of every class.

    Raises
    ------
    ValueError
        If ``cv`` is "loo" and the task does not allow it.
    """
    if cv is None:
        cv = comparison.default_cv if by_row else FOLDS
    elif isinstance(cv, str) and cv == LEAVE_ONE_OUT:
        reason = comparison.no_leave_one_out if by_row else "scoring= is that of a fitted estimator on many rows"
        reason = reason if comparison.rows.groups is None else "groups= says which rows belong together"
        if reason:
            raise ValueError(f'cv: "loo" leaves out rows one at a time, and {reason}; give a number of folds.')
    else:
        check_folds(cv, LEAVE_ONE_OUT)
    enough = few_rows(cv, comparison.rows, every_class=not by_row)
    if enough is None:
        return cv
    if enough < 2:
        return None
    which = "rows" if comparison.task.code is None else f"rows of the {'largest' if by_row else 'rarest'} class"
    warn(f"{name}: {enough} {which} allow {enough} folds, which are used instead of {cv}.", SelectionWarning)
    return enough


def choose_strength(task: Task) -> tuple[Model, Selection | None]:
    """Replace the ``bd.Tuned`` of a model of centred rows by its structure with the chosen strength, and choose ``C``.

    Returns
    -------
    model : Model
        With the chosen rates and ``C``.
    selection : Selection or None
        None if the published rule was used without a choice.
    """
    model = task.model
    tuned: Any = model.rates
    if not task.is_here:
        return _published(model, "rows outside this process cannot be held out", "give rows in memory, or bd.Blocks")
    Cs = np.array([model.C]) if task.Cs is None else task.Cs
    search_and_keys = search_on(task, tuned.cv, "rates", tuned.candidates, Cs)
    if search_and_keys is None:
        reason = "cross-validation needs two rows, and two in each of two classes if there are classes"
        return _published(model, reason, "give more rows")
    chosen = conclude(*search_and_keys, Comparison(task).scoring, tuned.one_standard_error)
    return replace(model, rates=chosen.chosen.rates, C=chosen.chosen.C), chosen


def search_on(
    task: Task,
    cv: Any,
    name: str,
    candidates: Sequence[Any],
    Cs: Float[np.ndarray, " c"],
    scores: Losses | None = None,
    *,
    climbs: bool = True,
    n_jobs: int | None = None,
) -> tuple[Search, list[Key]] | None:
    """Search among candidates on the folds of ``cv``; return also the candidates that were tried on every fold.

    By default rows are left out one at a time if this is cheap, and in folds if its approximation fails for the best
    candidate.

    Parameters
    ----------
    task : Task
        Data and model.
    cv : object
        Folds; None for the default of the task.
    name : str
        Name of the candidates in messages.
    candidates : sequence
        Candidates for the rates, see :func:`.blocks.families_of`.
    Cs : array (c,)
        Candidates for ``C``.
    scores : callable, optional
        Minus the score of each fold; by default each row has a loss.
    climbs : bool
        Whether to climb, or to try all pairs of rates and ``C``.
    n_jobs : int, optional
        Number of processes for the folds.

    Returns
    -------
    tuple or None
        None if the rows allow no folds.
    """
    by_row = scores is None
    comparison = Comparison(task)
    allowed = _possible_folds(comparison, cv, name, by_row)
    if allowed is None:
        return None
    folds = comparison.folds(allowed)
    search = Search(
        comparison.solver(loose=by_row, alone=folds[0].alone), families_of(candidates, task.names), Cs, folds,
        task.weight, comparison.rows, scores or (lambda key, fold, held_out: comparison.losses(fold, key[0], held_out)),
        comparison.size * len(folds) * len(candidates), by_row, n_jobs, comparison.without, task.model.C,
        comparison.calibration if comparison.calibrates else None,
    )  # fmt: skip
    keys = search.climb() if climbs else search.complete()
    if cv is None and search.unsettled:
        return search_on(task, FOLDS, name, candidates, Cs, scores, climbs=climbs, n_jobs=n_jobs)
    return search, keys


def _published(model: Model, reason: str, advice: str) -> tuple[Model, None]:
    tuned: Any = model.rates
    strength = "C was not chosen" if len(tuned.candidates) == 1 else "the strength of the noise was not chosen"
    rule = f"that of C = {model.C:g}" if len(tuned.candidates) == 1 else "that of the full learnt noise"
    warn(
        f"rates: {strength}, because {reason}; the fit is {rule}, rates=bd.{tuned.structure!r}, which gives no warning "
        f"when it is requested. To have it chosen {advice}.",
        SelectionWarning,
    )
    return replace(model, rates=tuned.structure), None


# Default number of folds, unless rows are left out one at a time.
FOLDS = 5


@dataclass(frozen=True)
class ComparisonLimits:
    """Accuracy of a comparison, and limits for leaving out rows one at a time.

    Attributes
    ----------
    loose : float
        Tolerance of fits that are compared. On tables and text their held-out losses then have relative errors of about
        0.002, a tenth of the standard error of a difference.
    loose_alone : float
        Tolerance of fits for leaving out rows one at a time, whose approximation assumes a zero gradient.
    steps : int
        Maximum number of steps of these fits.
    products : float
        Maximum number of multiplications per candidate for leaving out rows one at a time by default.
    columns : int
        Maximum number of columns for leaving out rows one at a time.
    rows_per_weight : int
        Minimum number of rows per weight (of all classes but one) for leaving out rows one at a time by default.
    """

    loose: float = 3e-4
    loose_alone: float = 1e-6
    steps: int = 50
    products: float = 1e9
    columns: int = 2000
    rows_per_weight: int = 4


@dataclass(frozen=True)
class Comparison:
    """Candidates of a task, compared on folds of its rows."""

    task: Task
    limits: ClassVar[ComparisonLimits] = ComparisonLimits()

    @cached_property
    def rows(self) -> Rows:
        """The rows with labels, which are split into folds."""
        return replace(self.task.origins, code=None if self.task.code is None else self.task.code.astype(int))

    @property
    def scoring(self) -> str:
        """Name of the score of held-out rows."""
        return "log loss" if self.task.n_classes is not None else self._row_losses.name

    @property
    def _row_losses(self) -> RowLosses:
        return RowLosses(self.task.model.loss, self.task.target, self.task.weight)

    @property
    def size(self) -> float:
        """Number of entries of an array for one candidate on one fold; infinite if candidates are fitted one by one."""
        return np.inf if self.task.n_classes is not None else max(self.task.design.shape) * self.task.target.shape[1]

    @property
    def no_leave_one_out(self) -> str:
        """Why rows cannot be left out one at a time; empty if they can."""
        loss, columns = self.task.model.loss, self.task.design.shape[1]
        if (K := self.task.n_classes) is not None:
            size = (columns + 1) * (K - 1)
            few = size <= MOST_COORDINATES
            return "" if few else f"there are {size} weights of {K} classes, of which it takes a Hessian"
        if loss.piecewise_linear or loss.exponential or not isinstance(loss, Curved):
            return f"{type(loss).__name__} has no second derivatives in closed form"
        return f"there are {columns} columns, of which it takes a Hessian" if columns > self.limits.columns else ""

    @property
    def default_cv(self) -> Any:
        """``"loo"`` if it costs at most as much as folds and there are many rows per column, else the number of folds.

        With fewer rows, removing one changes the fit too much for the approximation.
        """
        n, design = len(self.rows.weight), self.task.design
        p = design.shape[1]
        p = p if self.task.n_classes is None else (p + 1) * (self.task.n_classes - 1)
        many = self.rows.sizes(alone=True).sum() >= self.limits.rows_per_weight * p and self.rows.groups is None
        cheap = (n + p / 3) * p**2 <= self.limits.products and (design.prefers_gram or not design.is_sparse)
        return LEAVE_ONE_OUT if cheap and many and not self.no_leave_one_out else FOLDS

    def folds(self, cv: Any) -> list[Fold]:
        """Folds of the rows with labels; rows without labels are in the training rows of every fold."""
        return [self._with_all(fold) for fold in make_folds(cv, self.rows)]

    def without(self, row: int) -> Fold:
        """The fold that holds out one row with a label."""
        return self._with_all(self.rows.without(row))

    def _with_all(self, fold: Fold) -> Fold:
        if self.task.unlabelled is None:
            return fold
        more = np.zeros(self.task.unlabelled[0])
        share = np.append(fold.share, more + 1.0) if fold.alone else fold.share
        return replace(fold, count=np.append(fold.count, more), share=share)

    def solver(self, loose: bool, alone: bool = False) -> Solver:
        """Solver of the candidates, ``loose`` for a comparison, and less so if rows are left out ``alone``."""
        method = self.task.method
        if loose and isinstance(method, Newton) and not self.task.model.loss.quadratic:
            loosest = self.limits.loose_alone if alone else self.limits.loose
            method = replace(method, tol=max(method.tol, loosest), max_iter=min(method.max_iter, self.limits.steps))
        task = replace(self.task, method=method)
        return BlockSolver(task) if task.n_classes is None else JointSolver(task)

    @property
    def calibrates(self) -> bool:
        """Whether to calibrate probabilities on held-out scores, because the loss defines none."""
        return self.task.n_classes is None and self._row_losses.by_margin

    def calibration(self, held_out: Sequence[tuple[Fold, Held]]) -> Calibration:
        """Calibration from the held-out scores of a candidate, on all folds on which it was tried."""
        rows = np.concatenate([fold.test for fold, _ in held_out])
        mean, var = (np.concatenate(parts) for parts in zip(*((one.mean, one.var) for _, one in held_out), strict=True))
        target, weight = self.task.target[rows], self.task.weight[rows]
        if not self.task.will_be_noised:
            return Calibration.fitted(mean, target, weight, self.task.corrupted_inputs)
        shares, scores = zip(*noised_scores(mean, var), strict=True)
        target, weight = np.tile(target, (len(shares), 1)), np.outer(shares, weight).ravel()
        return Calibration.fitted(np.concatenate(scores), target, weight, corrupted_inputs=True)

    def losses(self, fold: Fold, C: float, held_out: Held) -> Float[np.ndarray, " m"]:
        """Losses of the held-out rows, (m,)."""
        if self.task.n_classes is not None:
            return joint_losses(self.task.target[fold.test], held_out.mean)
        scores = self._row_losses
        return (scores.of_noised if self.task.will_be_noised else scores)(fold.test, held_out.mean, held_out.var, C)
