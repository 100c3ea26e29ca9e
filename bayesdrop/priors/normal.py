"""Normal prior of the weights, ``w ~ N(0, scale²)``, its scale known or learnt; the intercept stays flat."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np

from .._typing import AnyArray, Float
from .._validation import check_flag, check_groups, group_index, shown
from .base import LearntScale, NormalLaw, check_scale, spread_scale
from .scale_prior import ScalePrior

__all__ = ["Normal"]


@dataclass(frozen=True)
class Normal(NormalLaw):
    """Normal prior with mean 0.

    Parameters
    ----------
    scale : float, array of shape (p,), HalfNormal or HalfCauchy, default=1.0
        Standard deviation, above 0 and finite; one per feature if an array. With noise ``1e4`` is as good as no
        penalty; with neither, a weight may have no estimate. With ``bd.HalfNormal(...)`` or ``bd.HalfCauchy(...)``
        ``bd.sample`` learns it and stores it as ``weight_scale``. A point fit cannot learn it, as the joint density of
        weights and scale is unbounded as the scale goes to 0.
    relative : bool, default=False
        Give ``scale`` in units of ``1/sd`` of each column: a weight's standard deviation is ``scale / sd``, so that the
        prior is for a change by one standard deviation of the feature, whatever its unit. With noise about the mean,
        ``bd.Dropout(centre="mean")``, the fit equals that to standardised columns. The ``sd`` is about the mean of the
        column, by the row weights, also for sparse columns; constant columns have ``sd = 1``. Posteriors store the
        result as ``weight_precision``, or as ``weight_unit`` if the scale is learnt.
    groups : sequence of length p, or mapping, optional
        Learn one scale per group: the group of each column in order, or ``{group: [columns]}`` with columns by
        position. ``weight_scale`` then has the dim ``weight_group``. By default all weights share one scale.
    unit : float or array of shape (p,), default=1.0
        Factor of a learnt scale, above 0: the standard deviation of a weight is ``scale · unit``.
    of_response : bool, default=False
        Give ``scale`` in units of the standard deviation of the response where ``bd.sample`` learns the scale of the
        likelihood (numbers); it changes nothing elsewhere. It is True in the default prior of ``bd.Model``.

    Raises
    ------
    ValueError
        If ``scale`` is not above 0, groups or units do not match the columns, or precisions are requested before they
        are known.

    See Also
    --------
    Laplace, Horseshoe, HalfNormal

    Examples
    --------
    >>> Normal(2.0).precision(3).tolist()
    [0.25, 0.25, 0.25]
    >>> Normal(2.0, relative=True).absolute(np.array([1.0, 4.0])).scale.tolist()
    [2.0, 0.5]
    >>> from bayesdrop.priors import HalfNormal
    >>> Normal(HalfNormal(1.0), groups=["body", "body", "blood"]).learnt_scale(3).names
    ['body', 'blood']
    """

    scale: Any = 1.0
    relative: bool = field(default=False, kw_only=True)
    groups: Any = field(default=None, kw_only=True)
    unit: Any = field(default=1.0, kw_only=True)
    of_response: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        check_flag(self.relative, "Normal relative")
        check_flag(self.of_response, "Normal of_response")
        check_scale(self.unit, "Normal", "unit")
        if self.gaussian:
            check_scale(self.scale, "Normal", advice="with noise, bd.Normal(1e4) is as good as no penalty")
            for name, plain in (("groups", self.groups is None), ("unit", np.ndim(self.unit) == 0 and self.unit == 1)):
                if not plain:
                    raise ValueError(
                        f"Normal {name}: expected only with a learnt scale, as in bd.Normal(bd.HalfNormal(1.0), "
                        f"{name}=...), got the known scale {shown(self.scale)}."
                    )
        elif self.groups is not None:
            check_groups(self.groups)
            for group, columns in self.groups.items() if isinstance(self.groups, Mapping) else ():
                if isinstance(columns, Sized) and not len(columns):
                    raise ValueError(f"Normal groups: group {group!r} has no feature; leave it out.")

    def __repr__(self) -> str:
        more = "" if self.gaussian else f", groups={self.groups!r}, unit={self.unit!r}"
        more += ", of_response=True" if self.of_response else ""
        return f"Normal(scale={self.scale!r}, relative={self.relative!r}{more})"

    @property
    def gaussian(self) -> bool:
        """True if the scale is known; see :class:`bayesdrop.priors.WeightPrior`."""
        # Numbers first: to look for the methods of a protocol takes longer than all other checks of a prior.
        return isinstance(self.scale, type | Real | np.ndarray) or not isinstance(self.scale, ScalePrior)

    @property
    def has_mean(self) -> bool:
        """True unless the scale is learnt and has no mean; see :class:`bayesdrop.priors.WeightPrior`."""
        return self.gaussian or bool(self.scale.has_mean)

    def absolute(self, spread: np.ndarray) -> Normal:
        """The same prior with absolute scales; see :class:`bayesdrop.priors.WeightPrior`."""
        if not self.relative:
            return self
        if self.gaussian:
            scale = spread_scale(self.scale, len(spread), "Normal") / spread
            return Normal(scale, of_response=self.of_response)
        return replace(self, relative=False, unit=spread_scale(self.unit, len(spread), "Normal unit") / spread)

    def of_responses(self, spread: float) -> Normal:
        """See :class:`bayesdrop.priors.WeightPrior`."""
        return replace(self.in_units(1 / spread), of_response=False) if self.of_response else self

    def in_units(self, unit: float) -> Normal:
        """See :class:`bayesdrop.priors.WeightPrior`."""
        if not self.gaussian:
            return replace(self, scale=self.scale.in_units(unit))
        scale = np.asarray(self.scale, dtype=float)
        return replace(self, scale=scale / unit if scale.ndim else float(scale) / unit)

    def check(self, n_features: int) -> None:
        """See :class:`bayesdrop.priors.WeightPrior`."""
        if self.gaussian:
            spread_scale(self.scale, n_features, "Normal")
        else:
            self.learnt_scale(n_features)

    def learnt_scale(self, n_features: int) -> LearntScale | None:
        """See :class:`bayesdrop.priors.WeightPrior`."""
        if self.gaussian:
            return None
        self._refuse_relative()
        index, names = np.zeros(n_features, dtype=np.intp), list[str]()
        if self.groups is not None:
            index, names = group_index(self.groups, range(n_features))
        unit = spread_scale(self.unit, n_features, "Normal unit")
        return LearntScale(index, names, unit, self.scale.law(max(len(names), 1)))

    def precision(self, n_features: int) -> np.ndarray:
        """Diagonal of the prior precision ``P``, shape (p,); raise ValueError if the scale is learnt."""
        if not self.gaussian:
            raise ValueError(
                f"weight_prior: the scale of {self!r} is learnt together with the weights, which bd.sample does; a "
                "point fit, whose density grows without bound as the scale goes to 0, and bd.variational take a "
                "number, as in bd.Normal(1.0), such as the posterior mean of weight_scale."
            )
        self._refuse_relative()
        return 1 / spread_scale(self.scale, n_features, "Normal") ** 2

    def constants(self, n_features: int) -> dict[str, Any]:
        """See :class:`bayesdrop.priors.WeightPrior`."""
        learnt = self.learnt_scale(n_features)
        if learnt is None:
            return {"weight_precision": ("feature", self.precision(n_features))}
        stored: dict[str, Any] = {
            name: (learnt.dims, value if learnt.names else value[0])
            for name, value in self.scale.constants(learnt.groups).items()
        }
        if learnt.names:
            stored["feature_weight_group"] = ("feature", np.array(learnt.names)[learnt.index])
        return stored | {"weight_unit": ("feature", learnt.unit)}

    def sample_weight(
        self, generator: np.random.Generator, draws: int, n_features: int
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Weights (draws, p), and a learnt scale as ``weight_scale``; see :class:`bayesdrop.priors.WeightPrior`."""
        learnt = self.learnt_scale(n_features)
        normal = generator.normal(size=(draws, n_features))
        if learnt is None:
            return normal / np.sqrt(self.precision(n_features)), {}
        scale = self.scale.sample(generator, draws, learnt.groups)
        return normal * scale[:, learnt.index] * learnt.unit, {"weight_scale": scale if learnt.names else scale[:, 0]}

    def log_density(self, weight: Float[AnyArray, "*batch p"]) -> Float[AnyArray, "*batch"]:
        """Log density up to a constant: weights (..., p) to (...); raise TypeError if the scale is learnt."""
        if not self.gaussian:
            raise TypeError(
                "Normal: with a learnt scale the density of the weights has no closed form; state it given the scale."
            )
        precision = np.asarray(self.precision(weight.shape[-1]), weight.dtype)
        return -0.5 * (weight * weight * precision.reshape((1,) * (weight.ndim - 1) + precision.shape)).sum(axis=-1)

    def _refuse_relative(self) -> None:
        """Raise ValueError if scales are in units that are not known yet."""
        if self.relative:
            raise ValueError(
                "Normal relative: expected absolute scales, for the standard deviations of the columns are not known "
                "here; give them yourself, as in bd.Normal(scale / X.std(axis=0)), or use bd.fit or bd.sample, which "
                "take them from X."
            )
