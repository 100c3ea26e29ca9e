"""Fits of one linear estimator at rate after rate, to rows that are checked once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from .._typing import Float
from ..fitting.minimisers.neighbours import Neighbours
from ..fitting.objective.centring import Settled
from ..rates import Fixed

__all__ = ["FittedPath"]


class FittedPath:
    """What the fits along a path of fixed rates have in common.

    Parameters
    ----------
    estimator : estimator of :mod:`bayesdrop.estimators`
        Set and fitted at each rate.
    X, y, sample_weight
        As ``estimator.fit`` takes them.

    Attributes
    ----------
    settled : Settled or None
        Centre and scales of the columns, which are those of every rate above zero.
    near : Neighbours
        The last fits.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> path = FittedPath(bd.DropoutRidge(), [[1.0], [2.0], [4.0]], [1.0, 2.0, 3.0], None)
    >>> [(place, round(float(fit.coef_[0]), 2)) for place, fit in path.fits(np.array([0.1, 0.2]))]
    [(1, 0.51), (0, 0.52)]
    """

    def __init__(self, estimator: Any, X: Any, y: Any, sample_weight: Any) -> None:
        self.estimator, self.settled, self.near = estimator, None, Neighbours()
        estimator.warm_start = True
        self._data = X, y, sample_weight
        self._rows: Any = None
        self._model: Any = None

    settled: Settled | None

    def fits(self, rates: Float[np.ndarray, " r"]) -> Iterator[tuple[int, Any]]:
        """Place in ``rates`` and fitted estimator, one after the other, in the order that is quickest.

        A large rate rounds off kinks and makes for a small problem, and where the rates are small the optima before
        say the most of the next. What is not convex is followed in the order given.
        """
        if self._convex(float(rates[0])):
            order = np.argsort(-rates, kind="stable")
        else:
            order = np.arange(len(rates))
        for place in order:
            yield int(place), self.fit(float(rates[place]))

    def _convex(self, rate: float) -> bool:
        """Check the settings and the data, and say whether the energy is convex."""
        own = self.estimator
        own.rates = rate
        if not hasattr(own, "_fit_rows"):  # with a hidden layer
            return False
        self._model = own._model()
        own._check_limits()
        self._rows = own._check_rows(*self._data)
        return bool(own._convex(self._rows))

    def fit(self, rate: float) -> Any:
        """Fit the estimator at the next rate, and return it."""
        own = self.estimator
        own.rates = rate
        if not hasattr(own, "_fit_rows"):
            X, y, weight = self._data
            return own.fit(X, y, sample_weight=weight)
        self._model = replace(self._model, rates=Fixed(rate))
        self.near.go_to(rate)
        weights = self.near.start()
        earlier = None if weights is None else (weights, np.full((len(weights) - 1, 1), rate))
        return own._fit_rows(self._model, self._rows, earlier, path=self)
