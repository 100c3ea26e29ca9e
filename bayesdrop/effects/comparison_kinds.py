"""Compare two averaged predictions by a difference, a ratio, odds or a user's function, for ``bd.comparisons``.

A user's function is differentiated by a central difference, for the delta method of a point fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._typing import Float
from .._validation import check_choice
from .averages import RULES, Averages

__all__ = ["ComparisonKind", "kind_of"]


@dataclass(frozen=True)
class ComparisonKind:
    """A way to compare two averaged predictions.

    Attributes
    ----------
    sign : str
        Sign between the two values in a label.
    compare : callable
        Returns effects from the averages after and before the change, (G, S, …) each.
    needs_probabilities : bool
        Whether predictions must be probabilities between 0 and 1.
    """

    sign: str
    compare: Callable[[Averages, Averages], Averages]
    needs_probabilities: bool = False

    def combine(self, averages: Averages) -> Averages:
        """Effects (G, S, …) of pairs of averages (G, S, …, 2)."""
        high, low = averages[..., 0], averages[..., 1]
        if self.needs_probabilities and not np.all((averages.real > 0) & (averages.real < 1)):
            raise ValueError(
                "comparison: odds need averaged probabilities above 0 and below 1, and some are 0 or 1; take "
                "'difference', or 'ratio'."
            )
        return np.asarray(self.compare(high, low))


def _odds(average: Averages) -> Averages:
    return np.asarray(average / (1 - average))


_KINDS = {
    "difference": ComparisonKind("-", lambda high, low: high - low),
    "ratio": ComparisonKind("/", lambda high, low: high / low),
    "odds_ratio": ComparisonKind("/", lambda high, low: _odds(high) / _odds(low), needs_probabilities=True),
    "log_odds_ratio": ComparisonKind(
        "/", lambda high, low: np.log(_odds(high)) - np.log(_odds(low)), needs_probabilities=True
    ),
}


def kind_of(comparison: Any, loss: Any) -> ComparisonKind:
    """Comparison by its name or by a function of (high, low).

    Raises
    ------
    ValueError
        If there is no such comparison, or it needs probabilities and the loss predicts other numbers.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> float(kind_of("odds_ratio", bd.Logistic()).combine(np.array([0.75, 0.5])))
    3.0
    """
    if callable(comparison) and not isinstance(comparison, type):
        return ComparisonKind(",", _checked(comparison))
    kind = _KINDS[check_choice(comparison, "comparison", tuple(_KINDS), "or a function of (high, low)")]
    if kind.needs_probabilities and not (loss.binary or loss.multiclass or loss.ratio == "odds_ratio"):
        raise ValueError(f"comparison: the predictions of {loss!r} are not probabilities; use 'difference' or 'ratio'.")
    return kind


def _checked(function: Callable[[Any, Any], Any]) -> Callable[[Averages, Averages], Averages]:
    """Wrap a user's function: check its values, and give its derivative in the imaginary part."""

    def value(high: Averages, low: Averages) -> Float[np.ndarray, ...]:
        compared = np.asarray(function(high, low), dtype=np.float64)
        if compared.shape != high.shape or not np.all(np.isfinite(compared)):
            problem = f"shape {compared.shape}" if compared.shape != high.shape else "numbers that are not finite"
            raise ValueError(
                "comparison: expected a function of (high, low), two arrays of averaged predictions, that returns a "
                f"finite number for each, of shape {high.shape}; got {problem}."
            )
        return compared

    def compare(high: Averages, low: Averages) -> Averages:
        if not (np.iscomplexobj(high) or np.iscomplexobj(low)):
            return value(high, low)
        # The caller asks for a derivative by an imaginary step, which a user's function need not accept.
        step = RULES.function * np.where(high.real == 0, 1.0, np.abs(high.real))
        length = np.maximum(np.abs(high.imag), np.abs(low.imag))
        moves = [step * np.divide(part.imag, length, out=0 * length, where=length > 0) for part in (high, low)]
        up, down = (value(high.real + sign * moves[0], low.real + sign * moves[1]) for sign in (1, -1))
        return value(high.real, low.real) + 1j * length * (up - down) / (2 * step)

    return compare
