"""Normal prior of the weights, ``w ~ N(0, scale²)``; the intercept stays flat."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from .._typing import AnyArray, Float
from .._validation import check_flag
from .base import check_scale, spread_scale

__all__ = ["Normal"]


@dataclass(frozen=True)
class Normal:
    """Normal prior with mean 0.

    Parameters
    ----------
    scale : float or array of shape (p,)
        Standard deviation, above 0; one per feature if an array.
    relative : bool
        Give ``scale`` in units of ``1/sd`` of each column: a weight's standard deviation is ``scale / sd``, so that the
        prior speaks of a change by one standard deviation of the feature, whatever it is measured in. With noise about
        the mean, ``bd.Dropout(centre="mean")``, the fit is that to standardised columns. The ``sd`` is about the mean
        of the column, weighted as the rows are, of dense and sparse columns alike; a column of one value counts as
        ``sd = 1``. It is taken where data enter; posteriors hold the result as ``weight_precision``.

    Raises
    ------
    ValueError
        If ``scale`` is not above 0, or precisions are asked for before the columns are known.

    Examples
    --------
    >>> Normal(2.0).precision(3).tolist()
    [0.25, 0.25, 0.25]
    >>> Normal(2.0, relative=True).absolute(np.array([1.0, 4.0])).scale.tolist()
    [2.0, 0.5]
    """

    scale: Any = 1.0
    relative: bool = field(default=False, kw_only=True)
    gaussian: ClassVar[bool] = True
    has_mean: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_scale(self.scale, "Normal")
        check_flag(self.relative, "Normal relative")

    def absolute(self, spread: np.ndarray) -> Normal:
        """The same prior with absolute scales; see :class:`bayesdrop.priors.WeightPrior`."""
        return Normal(spread_scale(self.scale, len(spread), "Normal") / spread) if self.relative else self

    def check(self, n_features: int) -> None:
        """See :class:`bayesdrop.priors.WeightPrior`."""
        spread_scale(self.scale, n_features, "Normal")

    def precision(self, n_features: int) -> np.ndarray:
        """Diagonal of the prior precision ``P``, shape (p,)."""
        if self.relative:
            raise ValueError(
                "Normal relative: expected absolute scales, for the standard deviations of the columns are not known "
                "here; give them yourself, as in bd.Normal(scale / X.std(axis=0)), or use bd.fit or bd.sample, which "
                "take them from X."
            )
        return 1 / spread_scale(self.scale, n_features, "Normal") ** 2

    def first_precision(self, n_features: int) -> np.ndarray:
        """The precision; see :class:`bayesdrop.priors.WeightPrior`."""
        return self.precision(n_features)

    def constants(self, n_features: int) -> dict[str, Any]:
        """See :class:`bayesdrop.priors.WeightPrior`."""
        return {"weight_precision": ("feature", self.precision(n_features))}

    def init(self, key: Any, chains: int, p: int, dtype: Any) -> tuple[()]:
        """No latent scales; see :class:`bayesdrop.priors.WeightPrior`."""
        return ()

    @staticmethod
    def sample_precision(key: Any, weight: Float[AnyArray, "C p"], aux: Any) -> tuple[Float[AnyArray, "C p"], Any]:
        """Raise TypeError: the precisions are known."""
        raise TypeError("Normal: the precisions are known, so there is nothing to draw; take Normal.precision.")

    @staticmethod
    def record(aux: Any) -> dict[str, Float[AnyArray, " C"]]:
        """Nothing; see :class:`bayesdrop.priors.WeightPrior`."""
        return {}

    @staticmethod
    def log_scale_density(precision: Float[AnyArray, "C p"], aux: Any) -> Float[AnyArray, " C"]:
        """Zero: there are none; see :class:`bayesdrop.priors.WeightPrior`."""
        return 0 * precision.sum(axis=1)

    def sample_weight(
        self, generator: np.random.Generator, draws: int, n_features: int
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Draw weights (draws, p); see :class:`bayesdrop.priors.WeightPrior`."""
        return generator.normal(size=(draws, n_features)) / np.sqrt(self.precision(n_features)), {}

    def log_density(self, weight: Float[AnyArray, "*batch p"]) -> Float[AnyArray, "*batch"]:
        """Log density up to a constant: weights (..., p) to (...)."""
        precision = np.asarray(self.precision(weight.shape[-1]), weight.dtype)
        return -0.5 * (weight * weight * precision.reshape((1,) * (weight.ndim - 1) + precision.shape)).sum(axis=-1)
