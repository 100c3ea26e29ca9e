"""Normal prior of the weights, ``w ~ N(mean, scale²)``, with a known or learnt scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np

from .._typing import AnyArray, Float
from .._validation import check_flag, check_groups, check_number, group_index, shown
from .base import LearntScale, NormalLaw, WeightPrior, check_per_feature, spread_numbers, spread_scale
from .by_name import check_by_name, of_columns
from .scale_prior import ScalePrior

__all__ = ["Normal", "with_scale"]


@dataclass(frozen=True)
class Normal(NormalLaw):
    """Normal prior.

    Parameters
    ----------
    scale : float, array of shape (p,), mapping from name to float, HalfNormal or HalfCauchy, default=1.0
        Standard deviation, above 0 and finite; one per feature if an array. The keys of a mapping are terms of the
        formula, for all columns of the term (levels, splines, interactions), or names of columns, which override terms:
        ``{"rx": 1.0, "age": 0.5, "default": 2.5}``. Without ``"default"`` every column needs one. With noise ``1e4`` is
        as good as no penalty; with neither, a weight may have no finite estimate. With ``bd.HalfNormal(...)`` or
        ``bd.HalfCauchy(...)`` ``bd.sample`` learns the scale and stores it as ``weight_scale``. A point fit cannot
        learn it, because the joint density of weights and scale is unbounded as the scale goes to 0.
    relative : bool, default=False
        Give ``scale`` in units of ``1/sd`` of each column: a weight's standard deviation is ``scale / sd``, so the
        prior is for a change by one standard deviation of the feature, whatever its unit. With noise about the mean,
        ``bd.Dropout(centre="mean")``, the fit equals that to standardised columns. The ``sd`` is about the mean of the
        column, by the row weights, also for sparse columns; constant columns have ``sd = 1``. Posteriors store the
        result as ``weight_precision``, or as ``weight_unit`` if the scale is learnt.
    groups : sequence of length p, or mapping, optional
        Learn one scale per group: the group of each column in order, or ``{group: [columns]}`` with columns by
        position. ``weight_scale`` then has the dim ``weight_group``. By default all weights share one scale.
    unit : float or array of shape (p,), default=1.0
        Factor of a learnt scale, above 0: the standard deviation of a weight is ``scale · unit``.
    mean : float, array of shape (p,) or mapping from name to float, default=0.0
        Mean of the weights, finite; by name as for ``scale``, and 0 for columns that it does not name. If ``relative``,
        in units of ``1/sd`` too. Not for ``bd.Softmax()``, whose weights sum to zero over the classes.
    of_response : bool, default=False
        Give ``scale`` in units of the standard deviation of the response if ``bd.sample`` learns the scale of the
        likelihood (numeric responses); otherwise it changes nothing. It is True in the default prior of ``bd.Model``.

    Raises
    ------
    ValueError
        If ``scale`` is not above 0, names, groups or units do not match the columns, or precisions are requested before
        they are known.

    See Also
    --------
    Laplace, Horseshoe, SpikeSlab, HalfNormal

    Examples
    --------
    >>> Normal(2.0).precision(3).tolist()
    [0.25, 0.25, 0.25]
    >>> Normal(2.0, relative=True).absolute(np.array([1.0, 4.0])).scale.tolist()
    [2.0, 0.5]
    >>> Normal({"rx": 1.0, "default": 2.5}).of_columns(["age", "rx[b]"], ["age", "rx"]).scale.tolist()
    [2.5, 1.0]
    >>> Normal(1.0, mean={"rx": -0.5}).of_columns(["age", "rx[b]"], ["age", "rx"]).mean.tolist()
    [0.0, -0.5]
    >>> from bayesdrop.priors import HalfNormal
    >>> Normal(HalfNormal(1.0), groups=["body", "body", "blood"]).learnt_scale(3).names
    ['body', 'blood']
    """

    scale: Any = 1.0
    relative: bool = field(default=False, kw_only=True)
    groups: Any = field(default=None, kw_only=True)
    unit: Any = field(default=1.0, kw_only=True)
    mean: Any = field(default=0.0, kw_only=True)
    of_response: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        check_flag(self.relative, "Normal relative")
        check_flag(self.of_response, "Normal of_response")
        check_per_feature(self.unit, "Normal unit", above=0)
        if isinstance(self.mean, Mapping):
            check_by_name(self.mean, "Normal mean", check_number)
        else:
            check_per_feature(self.mean, "Normal mean", "finite numbers", least=-np.finfo(float).max)
        if isinstance(self.scale, Mapping):
            check_by_name(self.scale, "Normal scale", _check_named_scale)
        elif self.gaussian:
            check_per_feature(
                self.scale, "Normal scale", above=0, advice="with noise, bd.Normal(1e4) is as good as no penalty"
            )
        if self.gaussian:
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
        centred = not isinstance(self.mean, Mapping) and not np.any(self.mean)
        more += "" if centred else f", mean={self.mean!r}"
        more += ", of_response=True" if self.of_response else ""
        return f"Normal(scale={self.scale!r}, relative={self.relative!r}{more})"

    @property
    def gaussian(self) -> bool:
        """True if the scale is known; see :class:`bayesdrop.priors.WeightPrior`."""
        # Test for numbers first: a check of a protocol takes longer than all other checks of a prior.
        return isinstance(self.scale, type | Real | np.ndarray) or not isinstance(self.scale, ScalePrior)

    @property
    def has_mean(self) -> bool:
        """True unless the scale is learnt and has no mean; see :class:`bayesdrop.priors.WeightPrior`."""
        return self.gaussian or bool(self.scale.has_mean)

    def of_columns(self, names: Sequence[str], terms: Sequence[str] | None = None) -> Normal:
        """Replace scales and means given by name by one for each column; see :class:`bayesdrop.priors.WeightPrior`."""
        if not (isinstance(self.scale, Mapping) or isinstance(self.mean, Mapping)):
            return self
        scale, mean = self.scale, self.mean
        if isinstance(scale, Mapping):
            scale = of_columns(scale, names, terms, "Normal scale", None)
        if isinstance(mean, Mapping):
            mean = of_columns(mean, names, terms, "Normal mean", 0.0)
        return replace(self, scale=scale, mean=mean)

    def absolute(self, spread: np.ndarray) -> Normal:
        """Convert relative scales to absolute ones; see :class:`bayesdrop.priors.WeightPrior`."""
        if not self.relative:
            return self
        p, mean = len(spread), self.mean
        if np.any(mean):
            mean = spread_numbers(mean, p, "Normal mean") / spread
        if self.gaussian:
            return replace(self, relative=False, scale=spread_scale(self.scale, p, "Normal") / spread, mean=mean)
        return replace(self, relative=False, unit=spread_numbers(self.unit, p, "Normal unit") / spread, mean=mean)

    def of_responses(self, spread: float) -> Normal:
        """See :class:`bayesdrop.priors.WeightPrior`."""
        return replace(self.in_units(1 / spread), of_response=False) if self.of_response else self

    def in_units(self, unit: float) -> Normal:
        """See :class:`bayesdrop.priors.WeightPrior`."""

        def counted(value: Any) -> Any:
            return float(value) / unit if np.ndim(value) == 0 else np.asarray(value, dtype=np.float64) / unit

        scale = counted(self.scale) if self.gaussian else self.scale.in_units(unit)
        return replace(self, scale=scale, mean=counted(self.mean))

    def check(self, n_features: int) -> None:
        """See :class:`bayesdrop.priors.WeightPrior`."""
        self.location(n_features)
        if self.gaussian:
            self._refuse_names()
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
        unit = spread_numbers(self.unit, n_features, "Normal unit")
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
        self._refuse_names()
        return 1 / spread_scale(self.scale, n_features, "Normal") ** 2

    def location(self, n_features: int) -> np.ndarray | None:
        """See :class:`bayesdrop.priors.WeightPrior`."""
        if isinstance(self.mean, Mapping):
            self._refuse_names()
        if not np.any(self.mean):
            return None
        self._refuse_relative()
        return np.array(spread_numbers(self.mean, n_features, "Normal mean"))

    def constants(self, n_features: int) -> dict[str, Any]:
        """See :class:`bayesdrop.priors.WeightPrior`."""
        learnt, location = self.learnt_scale(n_features), self.location(n_features)
        means = {} if location is None else {"weight_mean": ("feature", location)}
        if learnt is None:
            return {"weight_precision": ("feature", self.precision(n_features))} | means
        stored: dict[str, Any] = means | {
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
        normal, location = generator.normal(size=(draws, n_features)), self.location(n_features)
        location = np.zeros(n_features) if location is None else location
        if learnt is None:
            return location + normal / np.sqrt(self.precision(n_features)), {}
        scale = self.scale.sample(generator, draws, learnt.groups)
        return location + normal * scale[:, learnt.index] * learnt.unit, {
            "weight_scale": scale if learnt.names else scale[:, 0]
        }

    def log_density(self, weight: Float[AnyArray, "*batch p"]) -> Float[AnyArray, "*batch"]:
        """Log density up to a constant: weights (..., p) to (...); raise TypeError if the scale is learnt."""
        if not self.gaussian:
            raise TypeError(
                "Normal: with a learnt scale the density of the weights has no closed form; state it given the scale."
            )
        precision = np.asarray(self.precision(weight.shape[-1]), weight.dtype)
        location = self.location(weight.shape[-1])
        if location is not None:
            weight = weight - np.asarray(location, weight.dtype).reshape((1,) * (weight.ndim - 1) + location.shape)
        return -0.5 * (weight * weight * precision.reshape((1,) * (weight.ndim - 1) + precision.shape)).sum(axis=-1)

    def _refuse_names(self) -> None:
        """Raise ValueError if numbers are given by names of columns, which are not known here."""
        for what, value in (("scale", self.scale), ("mean", self.mean)):
            if isinstance(value, Mapping):
                raise ValueError(
                    f"Normal {what}: expected a number or one per feature, for the names of the columns are not known "
                    f"here, got {shown(value)}; give an array in the order of the columns, or use bd.fit or bd.sample."
                )

    def _refuse_relative(self) -> None:
        """Raise ValueError if scales are in units that are not known yet."""
        if self.relative:
            raise ValueError(
                "Normal relative: expected absolute scales, for the standard deviations of the columns are not known "
                "here; give them yourself, as in bd.Normal(scale / X.std(axis=0)), or use bd.fit or bd.sample, which "
                "take them from X."
            )


def with_scale(prior: WeightPrior, scale: Float[np.ndarray, " p"]) -> Normal:
    """Normal prior with the means of ``prior`` and these known scales (p,).

    Examples
    --------
    >>> with_scale(Normal(1.0, mean=2.0), np.array([3.0]))
    Normal(scale=array([3.]), relative=False, mean=array([2.]))
    """
    location = prior.location(len(scale))
    return Normal(scale, mean=0.0 if location is None else location)


def _check_named_scale(value: Any, name: str) -> None:
    """Raise an error unless the standard deviation of a term or column is a number above 0."""
    if isinstance(value, ScalePrior):
        raise ValueError(
            f"{name}: expected a number above 0, got {value!r}; to learn scales of some columns give one prior and the "
            f"group of each column, as in bd.Normal(bd.{value!r}, groups=[...])."
        )
    check_number(value, name, above=0)
