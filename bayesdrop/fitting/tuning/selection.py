"""Choose among the candidates of a search, and describe the choice."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._display import Shown
from ..._typing import Float
from .calibration import Calibration
from .scores import Key
from .search import Search

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Candidate", "Selection", "conclude"]

_log = logging.getLogger("bayesdrop")


@dataclass(frozen=True)
class Candidate:
    """One candidate and its losses.

    Attributes
    ----------
    C : float
        Weight of the loss.
    rates : Rates or None
        Rates of the candidate as an estimator takes them; None for a noise without rates.
    strength : float or None
        Factor on the learnt rates: 1 is the published rule, 0 no noise; None for rates that are not scaled.
    losses : array (folds,)
        Mean loss of the held-out rows of each fold, by their weights; NaN for folds on which it was not tried.
    loss : float
        Mean loss of all these rows, by their weights; with a user's score the mean over the folds.
    worse : float
        Loss of the candidate minus that of the choice, on their common rows.
    worse_error : float
        Standard error of this paired difference.
    error : float
        Standard error of the loss, over the folds, or over the rows of a single fold.
    """

    C: float
    rates: Any
    strength: float | None
    losses: Float[np.ndarray, " folds"]
    loss: float
    worse: float
    worse_error: float
    error: float

    @property
    def name(self) -> str:
        """The candidate in a few words."""
        if self.strength == 0 or self.rates is None:
            return "no noise" if self.rates is not None else "the noise as given"
        if self.strength is None:
            return repr(self.rates) if not hasattr(self.rates, "rate") else f"fixed rates of {self.rates.rate}"
        kind = {"PerFeature": "per feature", "Shared": "shared", "PerGroup": "per group"}.get(
            type(self.rates).__name__, repr(self.rates)
        )
        factor = "as the sign rule has them" if self.strength == 1 else f"{_share(self.strength)} of the sign rule's"
        return f"learnt rates, {kind}, {factor}"


def _share(value: float) -> str:
    """A factor as text, as a fraction if it is a simple one."""
    simple = Fraction(value).limit_denominator(20)
    return str(simple) if abs(float(simple) - value) < 1e-9 else f"{value:.3g}"


@dataclass(frozen=True, repr=False)
class Selection(Shown):
    """A choice by cross-validation; ``print`` describes it and compares it with others.

    Attributes
    ----------
    candidates : list of Candidate
        All candidates that were tried, by ``C``.
    best : int
        Index of the choice among the candidates.
    scoring : str
        Name of the score; smaller is better.
    within : float
        Distance from the best, in standard errors of the paired difference, within which the most regular candidate is
        chosen (smallest ``C``, then most noise): 0.25, 1, or 0 for a user's score.
    alone : bool
        Whether each row was left out alone, approximately; there is then one fold, of all rows.
    calibration : Calibration, optional
        Probabilities from held-out scores of the choice, for a loss that defines none.
    """

    candidates: list[Candidate]
    best: int
    scoring: str
    within: float = 0.0
    alone: bool = False
    calibration: Calibration | None = field(default=None, repr=False, compare=False)

    @property
    def chosen(self) -> Candidate:
        """The chosen candidate."""
        return self.candidates[self.best]

    def rival(self, strength: float) -> Candidate | None:
        """The best candidate of this strength, at any ``C``; 0 is no noise, 1 the published rule."""
        same = [one for one in self.candidates if one.strength == strength]
        full = [one for one in same if not np.any(np.isnan(one.losses))]
        return min(full or same, key=lambda one: one.loss, default=None)

    def __repr__(self) -> str:
        chosen = self.chosen
        return f"<Selection: C = {chosen.C:g}, {chosen.name}, {self.scoring} {chosen.loss:{self._digits}}>"

    @property
    def _digits(self) -> str:
        """Format of losses: four decimals, or four digits if the response has tiny or huge units."""
        return ".4f" if 0.01 <= abs(self.chosen.loss) < 1e6 else ".4g"

    def __str__(self) -> str:
        chosen, several, digits = self.chosen, len({one.C for one in self.candidates}) > 1, self._digits
        folds = len(chosen.losses)
        rows = "rows left out one at a time" if self.alone else f"held-out rows, {folds} fold{'s' * (folds > 1)}"
        lines = [
            f"Chosen by the {self.scoring} of {rows}"
            + (f", the smallest C and most noise within {_in_words(self.within)} of the best:" if self.within else ":"),
            f"  C = {chosen.C:g}, {chosen.name}",
            f"  {self.scoring} {chosen.loss:{digits}}" + _plus_minus(chosen.error, folds, digits),
        ]
        for strength, words in ((0.0, "no noise"), (1.0, "the full learnt noise")):
            rival = self.rival(strength)
            if rival is None or rival is chosen:
                continue
            where = f" at its best C = {rival.C:g}" if several else ""
            lines.append(
                f"  {words}{where}: {rival.loss:{digits}}, {abs(rival.worse):{digits}} ± {rival.worse_error:{digits}} "
                f"{'worse' if rival.worse >= 0 else 'better'}" + _partly(rival)
            )
        lines.append(f"Of {len(self.candidates)} candidates; ± is one standard error, of differences in pairs.")
        return "\n".join(lines)

    def to_dataset(self) -> xr.Dataset:
        """``loss`` on dims ``candidate`` and ``fold``, and of each candidate ``mean_loss`` and its other attributes."""
        import xarray as xr

        def column(name: str) -> tuple[str, list[Any]]:
            return "candidate", [np.nan if (v := getattr(one, name)) is None else v for one in self.candidates]

        losses = np.stack([one.losses for one in self.candidates])
        parts = {name: column(name) for name in ("C", "strength", "worse", "worse_error", "name")}
        parts["mean_loss"] = column("loss")  # not the mean of ``loss`` over folds of different weight
        attrs = {"scoring": self.scoring, "best": self.best}
        return xr.Dataset({"loss": (("candidate", "fold"), losses), **parts}, attrs=attrs)


def _in_words(errors: float) -> str:
    return {0.25: "a quarter of a standard error", 1.0: "a standard error"}.get(errors, f"{errors:g} standard errors")


def _plus_minus(error: float, folds: int, digits: str) -> str:
    return "" if np.isnan(error) else f" ± {error:{digits}} over the {'folds' if folds > 1 else 'rows'}"


def _partly(candidate: Candidate) -> str:
    tried, folds = int(np.sum(~np.isnan(candidate.losses))), len(candidate.losses)
    return "" if tried == folds else f" (dismissed after {tried} of {folds} folds)"


def conclude(
    search: Search,
    keys: list[Key],
    scoring: str,
    one_standard_error: bool = False,
) -> Selection:
    """Choose among the candidates that were tried on every fold.

    The most regular candidate within a quarter of a standard error (of the paired difference) of the best is chosen,
    which costs little if it is in fact worse.
    """
    table, best = search.table, search.table.best(keys)
    rules = search.rules
    within = 1.0 if one_standard_error else rules.tie * search.by_row

    def near(key: Key) -> bool:
        worse, error = table.difference(key, best)
        return bool(worse <= max(within * np.nan_to_num(error), rules.same * abs(table.mean(best))))

    # The most regular: the smallest C, and at this C the most noise.
    regular = sorted(keys, key=lambda key: (key[0], -(search.member(key[1])[1] or 0.0), key[1]))
    for key in regular[: regular.index(best)] if within else []:
        if near(key) and not (search.check(key) and not near(key)):
            best = key
            break
    calibration = None if search.calibrate is None else search.calibrate(search.scores[best])
    candidates = [
        Candidate(
            key[0],
            *search.member(key[1]),
            table.means(key)[search.tried],
            table.mean(key),
            *table.difference(key, best),
            table.error(key),
        )  # fmt: skip
        for key in sorted(table.losses)
    ]
    place = sorted(table.losses).index(best)
    selection = Selection(candidates, place, scoring, within, search.folds[0].alone, calibration)
    _log.info("chosen of %d candidates: %r", len(candidates), selection)
    return selection
