"""Fits of one linear estimator at rate after rate, to rows that are checked once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..fitting.centring import Settled
from ..fitting.neighbours import Neighbours
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
    >>> [round(float(path.fit(rate).coef_[0]), 2) for rate in (0.1, 0.2)]
    [0.6, 0.57]
    """

    def __init__(self, estimator: Any, X: Any, y: Any, sample_weight: Any) -> None:
        self.estimator, self.settled, self.near = estimator, None, Neighbours()
        estimator.warm_start = True
        self._data = X, y, sample_weight
        self._rows: Any = None
        self._model: Any = None

    settled: Settled | None

    def fit(self, rate: float) -> Any:
        """Fit the estimator at the next rate, and return it."""
        own, first = self.estimator, self._model is None
        own.rates = rate
        if not hasattr(own, "_fit_rows"):  # with a hidden layer
            X, y, weight = self._data
            return own.fit(X, y, sample_weight=weight)
        self._model = own._model() if first else replace(self._model, rates=Fixed(rate))
        if first:
            own._check_limits()
            self._rows = own._check_rows(*self._data)
        self.near.go_to(rate)
        weights = self.near.start()
        earlier = None if weights is None else (weights, np.full((len(weights) - 1, 1), rate))
        return own._fit_rows(self._model, self._rows, earlier, path=self)
