r"""Search for the best rates and ``C`` on folds: decide which candidates to fit on which folds.

A complete search tries every pair of ``C`` and rates on every fold. The default search omits most of these fits:

- It climbs from the ``C`` nearest to that of a plain fit, with all strengths, to larger and smaller ``C`` as long as
  the loss falls. It continues with the few best strengths only, none of them worse than the best so far by more than
  two standard errors of the paired difference.
- The last candidate is the smallest ``C`` without noise, at which the weights are nearly 0.
- For large data it begins with one fold, or as many as hold out enough rows, and continues on a second and third fold,
  as one block, with the candidates that are not clearly worse.

Fits start at the weights of the previous ``C``, and only reach the accuracy that a comparison needs.

If rows are left out one at a time, losses are approximate, and too small for rows whose removal changes the fit most:
outliers, or the positive rows of a rare class. Therefore the best candidate is refitted without the rows whose losses
changed most, some at a time, until its loss is constant; another candidate may then be the best. If this does not end,
the approximation fails for the candidate (``unsettled``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ..._progress import quietly, step, waiting
from ..._typing import Float
from .blocks import Block, BlockSolver, Family, Held
from .calibration import Calibration
from .classes import JointSolver
from .folds import Fold, Rows
from .scores import Key, Table

__all__ = ["Losses", "Search", "SearchRules", "Solver", "candidate_Cs"]

Solver: TypeAlias = BlockSolver | JointSolver
"""Solver that fits candidates on folds."""

Losses: TypeAlias = Callable[[Key, Fold, Held], Float[np.ndarray, " m"]]
"""Losses of the held-out rows of a candidate on a fold."""

Take: TypeAlias = Callable[[int, int, Held], object]
"""Called with the positions of a fold and a member, and the fit."""

_log = logging.getLogger("bayesdrop")


@dataclass(frozen=True)
class SearchRules:
    """Candidates of a search, and its stopping rules.

    Attributes
    ----------
    worse : float
        Number of standard errors of the paired difference beyond which a candidate is dropped.
    finalists : int
        Maximum number of candidates that continue to the next ``C`` or to other folds.
    large : float
        Number of entries of a block of all folds, (n or p, K), above which the search begins with one fold.
    folds, rows : int
        Number of folds in this case, and minimum number of held-out rows of the first folds.
    worth, worth_errors : float
        Minimum gain of a step along ``C``, as shares of the loss and of the standard error, for another step.
    times : int
        Maximum number of refits, each without some rows.
    left : float
        Maximum total of ``m min(m, 1)``, in standard errors, over rows without a refit, with ``m`` the increase of the
        loss of a row that is left out, relative to the mean loss if it is in units of the response. The error of ``m``
        is about ``m min(m, 1)/4``.
    tie : float
        Distance from the best, in standard errors of the paired difference, within which a more regular candidate is
        chosen. 0.5 chose too much noise for short texts, 0 too little for a few columns without effect (decision 0061).
    same : float
        Relative accuracy of the losses of fits: smaller differences are ignored.
    decades : tuple of float
        Common logarithms of the candidates for ``C`` relative to the start. At the first, weights are nearly 0.
    """

    worse: float = 2.0
    finalists: int = 3
    large: float = 100_000
    folds: int = 3
    rows: int = 200
    worth: float = 0.005
    worth_errors: float = 0.2
    times: int = 6
    left: float = 0.6
    tie: float = 0.25
    same: float = 5e-4
    decades: tuple[float, ...] = (-4, -3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 2.5, 3, 4)


def candidate_Cs(start: float) -> Float[np.ndarray, " c"]:
    """Candidates of ``C`` around a start, ascending: half a decade apart near it.

    Examples
    --------
    >>> candidate_Cs(1.0)[[0, 5, 6, 7, -1]].round(3).tolist()
    [0.0, 0.316, 1.0, 3.162, 10000.0]
    """
    return np.asarray(start * 10.0 ** np.array(SearchRules.decades))


@dataclass
class Search:
    """A search, its settings and its results.

    Attributes
    ----------
    solver : Solver
        Solver of the candidates.
    families : list of Family
        Candidates of the rates, with numbers across families.
    Cs : array (c,)
        Candidates for ``C``, ascending.
    folds : list of Fold
        The folds.
    weight : array (n,)
        Row weights.
    rows : Rows
        The rows with labels.
    losses : callable
        Losses of held-out rows, see :data:`Losses`; one number per fold unless ``by_row``.
    size : float
        Number of entries of an array of the block of all candidates and folds at one ``C``.
    by_row : bool
        Whether each row has a loss, (m,), rather than each fold.
    n_jobs : int, optional
        Number of processes for the folds.
    without : callable, optional
        Returns the fold that holds out a row, for checking the losses of rows that are left out alone.
    start : float
        Value of ``C`` near which a climb begins.
    calibrate : callable, optional
        Calibrates probabilities on held-out scores, if the loss defines none.
    unsettled : bool
        Whether the approximate losses of rows left out alone failed for a candidate.
    """

    solver: Solver
    families: list[Family]
    Cs: Float[np.ndarray, " c"]
    folds: list[Fold]
    weight: Float[np.ndarray, " n"]
    rows: Rows
    losses: Losses
    size: float = 0.0
    by_row: bool = True
    n_jobs: int | None = None
    without: Callable[[int], Fold] | None = None
    start: float = 1.0
    calibrate: Callable[[Sequence[tuple[Fold, Held]]], Calibration] | None = None
    rules: ClassVar[SearchRules] = SearchRules()
    unsettled: bool = field(init=False, default=False)
    table: Table = field(init=False)
    scores: dict[Key, list[tuple[Fold, Held]]] = field(init=False, default_factory=dict)
    _last: dict[tuple[int, int], Block] = field(init=False, default_factory=dict)
    _whole: dict[Key, Held] = field(init=False, default_factory=dict)
    _moves: dict[Key, Float[np.ndarray, " m"]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        weights = units = [np.ones(1)] * len(self.folds)
        if self.by_row:
            weights = [self.weight[fold.test] for fold in self.folds]
            units = [self.weight[fold.test] * self.rows.share[fold.test] for fold in self.folds]
        self.table = Table(weights, units)
        self._place = {m: (f, k) for f, family in enumerate(self.families) for k, m in enumerate(family.numbers)}

    def member(self, number: int) -> tuple[Any, float | None]:
        """Rates and strength of candidate ``number``; the strength is None for rates that are not scaled."""
        family, place = self._place[number]
        return self.families[family].members[place], self.families[family].strengths[place]

    @property
    def tried(self) -> list[int]:
        """Folds on which some candidate was tried."""
        return sorted({fold for fold_losses in self.table.losses.values() for fold in fold_losses})

    @waiting("search", "fit")
    def complete(self) -> list[Key]:
        """Try every candidate on every fold; return all candidates."""
        keys = [(float(C), m) for C in self.Cs for m in range(len(self._place))]
        self._try(keys, range(len(self.folds)))
        return keys

    @waiting("search", "fit")
    def climb(self) -> list[Key]:
        """Run the default search; return the candidates that were tried on every fold."""
        count = len(self.folds)
        rounds = [range(count)]
        rows = np.cumsum([len(fold.test) for fold in self.folds])
        first = int(np.searchsorted(rows, self.rules.rows)) + 1
        if self.size > self.rules.large and first <= min(count, self.rules.folds):
            rounds = [part for part in (range(first), range(first, min(count, self.rules.folds))) if part]
        self._climb(rounds[0])
        # If the features have no effect, the loss may rise on the way from the start to weights of 0.
        if len(self.Cs) > 1:
            self._try([(float(self.Cs[0]), min(range(len(self._place)), key=self._strength))], rounds[0])
        for later in rounds[1:]:
            fold_count = max(len(fold_losses) for fold_losses in self.table.losses.values())
            still = [key for key, fold_losses in self.table.losses.items() if len(fold_losses) == fold_count]
            left = self._left(still)[: self.rules.finalists]
            if len(left) == 1 and len(self._place) * len(self.Cs) > 1:
                # One is left: no other can be chosen, and its loss is known well enough to be reported.
                return left
            self._try(left, later)
        fold_count = max(len(fold_losses) for fold_losses in self.table.losses.values())
        return [key for key, fold_losses in self.table.losses.items() if len(fold_losses) == fold_count]

    def _climb(self, group: range) -> None:
        first = int(np.argmin(np.abs(np.log(self.Cs / self.start))))
        C, members = float(self.Cs[first]), sorted(range(len(self._place)), key=self._strength)
        self._try([(C, m) for m in members], group)
        for direction in (1, -1):
            place, climbs = first, True
            while climbs and 0 <= place + direction < len(self.Cs):
                left = [m for C, m in self._left(list(self.table.losses)) if C == self.Cs[place]]
                going = [m for m in left if self._goes_on(m, place, first, direction)][: self.rules.finalists]
                place, climbs = place + direction, bool(going)
                self._try([(float(self.Cs[place]), m) for m in going], group)

    def _strength(self, number: int) -> float:
        strength = self.member(number)[1]
        return 1.0 if strength is None else strength

    def _goes_on(self, member: int, place: int, first: int, direction: int) -> bool:
        """Whether to continue along C: the last step in this direction gained, or the first in the other did not."""
        key = float(self.Cs[place]), member
        other = place - direction
        if not 0 <= other < len(self.Cs) or (float(self.Cs[other]), member) not in self.table.losses:
            return True
        earlier_key = float(self.Cs[other]), member
        worse, error = self.table.difference(key, earlier_key)
        worth = max(
            self.rules.worth * abs(self.table.mean(earlier_key)), self.rules.worth_errors * np.nan_to_num(error)
        )
        return bool(worse < (worth if place == first else -worth))

    def _left(self, keys: list[Key]) -> list[Key]:
        """Candidates worse than the best by at most two standard errors of the paired difference, best first."""
        best = self.table.best(keys)
        left = []
        for key in keys:
            worse, error = self.table.difference(key, best)
            if key == best or not worse > self.rules.worse * error:
                left.append(key)
        return [left[place] for place in np.argsort(self.table.rounded(left), kind="stable")]

    def _try(self, keys: Sequence[Key], group: range) -> None:
        """Fit and score some candidates on a group of folds."""
        folds = [self.folds[f] for f in group]
        for C in sorted({C for C, _ in keys}, key=lambda C: abs(np.log(C / self.start))):
            for number in range(len(self.families)):
                numbers = [m for c, m in keys if c == C and self._place[m][0] == number]
                if numbers:
                    self._solve(number, numbers, C, group, folds)
        while self.check(self.table.best(list(self.table.losses))):
            pass

    def _solve(self, number: int, numbers: list[int], C: float, group: range, folds: list[Fold]) -> None:
        numbers = sorted(numbers)  # similar strengths are adjacent
        chosen = [self._place[m][1] for m in numbers]

        def take(fold: int, member: int, held_out: Held) -> None:
            key = (C, numbers[member])
            losses = self.losses(key, folds[fold], held_out)
            self.table.add(key, group[fold], losses)
            if self.calibrate is not None:
                self.scores.setdefault(key, []).append((folds[fold], held_out))
            if held_out.seen is not None:
                seen = self.losses(key, folds[fold], replace(held_out, mean=held_out.seen[0], var=held_out.seen[1]))
                self._moves[key] = np.abs(losses - seen)
                self._whole[key] = held_out
            step()

        self._spread(number, chosen, C, folds, group, take)
        for m in numbers:
            name, strength = type(self.member(m)[0]).__name__, self.member(m)[1]
            _log.debug("C = %g, %s, strength %s: loss %.6g", C, name, strength, self.table.mean((C, m)))

    def check(self, key: Key) -> bool:
        """Correct the losses of a candidate whose rows were left out alone; False if there is nothing to correct.

        The candidate is refitted without the rows whose losses changed most, some at a time, and once for equal rows.
        """
        move = self._moves.pop(key, None)
        if move is None or self.without is None or self.unsettled:
            return False
        number, place = self._place[key[1]]
        losses, (whole,) = self.table.losses[key][0].copy(), self.folds
        loss = self.solver.task.model.loss
        numbers = not (loss.binary or loss.multiclass) and loss.largest_count is None
        unit = (self.table.size(key) or 1.0) if numbers else 1.0
        # Equal rows have equal losses in all fits, so leave out one of them.
        facts = np.column_stack([self.rows.classes[whole.test], losses / unit, move / unit]).round(9)
        _, one, group = np.unique(facts, axis=0, return_index=True, return_inverse=True)
        group = group.ravel()
        share = np.bincount(group, self.table.weights[0]) / self.table.weights[0].sum()
        order, doubt = np.argsort(-move[one] * share, kind="stable"), share * move[one] * np.minimum(move[one], unit)
        few = self.solver.at_a_time
        for first in few * np.arange(self.rules.times + 1):
            if doubt[order[first:]].sum() <= self.rules.left * np.nan_to_num(self.table.error(key)) * unit:
                break
            if first == self.rules.times * few:
                self.unsettled = True
                break
            checked = order[first : first + few]
            folds = [self.without(int(row)) for row in whole.test[one[checked]]]

            def take(f: int, _: int, held_out: Held, checked: Any = checked, folds: Any = folds) -> None:
                losses[group == checked[f]] = self.losses(key, folds[f], held_out)[0]

            start = Block.of_fit(place, self._whole[key], len(checked))
            self.solver.solve(self.families[number], [place], key[0], folds, start, take)
            self.table.add(key, 0, losses)
        return True

    def _spread(self, number: int, chosen: list[int], C: float, folds: list[Fold], group: range, take: Take) -> None:
        """Fit in this process, or each fold in one of ``n_jobs`` processes."""
        family = self.families[number]
        if self.n_jobs is None or len(folds) == 1:
            earlier = self._last.get((number, group.start))
            self._last[number, group.start] = self.solver.solve(family, chosen, C, folds, earlier, take)
            return
        from sklearn.utils.parallel import Parallel, delayed

        jobs = (delayed(_alone)(self.solver, family, chosen, C, fold) for fold in folds)
        for fold, fits in enumerate(Parallel(n_jobs=self.n_jobs)(jobs)):
            for member, held_out in enumerate(fits):
                take(fold, member, held_out)


def _alone(solver: Solver, family: Family, chosen: list[int], C: float, fold: Fold) -> list[Held]:
    """Fits on one fold, each with the scores of the held-out rows."""
    fits: list[Held] = []
    with quietly():
        solver.solve(family, chosen, C, [fold], None, lambda _, member, held_out: fits.append(held_out))
    return fits
