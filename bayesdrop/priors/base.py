"""Interface of a weight prior: a normal distribution, or a mixture of normal distributions over latent scales.

Every prior is ``w_d | P_d ~ N(μ_d, 1/P_d)``, and only normal priors have means ``μ`` other than 0. The precisions ``P``
of a ``gaussian`` prior are numbers. For other priors they are random, and a sampler alternates between the weights
given ``P`` and ``P`` given the weights (Andrews & Mallows 1974). A point fit needs numbers or a penalty ``Σ λ|w|``.

Normal weights may have learnt scales, one for all features or one per group of them, with known units ``u_d``:

    w_d ~ N(μ_d, (σ_j u_d)²)  for every feature d of group j,      σ_j ~ HalfNormal or HalfCauchy

Shapes: ``C`` chains, ``p`` features. Importing a prior does not import JAX; drawing from it does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from .._typing import AnyArray, Float, Int
from .._validation import check_numbers, shown

__all__ = [
    "LearntScale",
    "NonCentred",
    "NormalLaw",
    "ScaleMixture",
    "Selecting",
    "WeightPrior",
    "check_per_feature",
    "selecting",
    "spread_numbers",
    "spread_scale",
]


@dataclass(frozen=True)
class LearntScale:
    """Groups of weights and the prior of their scales.

    Attributes
    ----------
    index : int array (p,)
        Group of each feature; ``g``, beyond the last group, for a feature whose known scale is its unit.
    names : list of str
        Names of the groups; empty if all features share one scale.
    unit : array (p,)
        Known units ``u``.
    law : :class:`~bayesdrop.priors.scale_prior.ScaleLaw` of shape (g,)
        Prior of the scales.
    """

    index: Int[np.ndarray, " p"]
    names: list[str]
    unit: Float[np.ndarray, " p"]
    law: Any

    @property
    def groups(self) -> int:
        """Number ``g`` of scales."""
        return max(len(self.names), 1)

    @property
    def dims(self) -> tuple[str, ...]:
        """Dims of ``weight_scale`` in a posterior, after chain and draw."""
        return ("weight_group",) if self.names else ()

    def scale(self, per_group: Float[np.ndarray, "*draws g"]) -> Float[np.ndarray, "*draws p"]:
        """Standard deviation of each weight at given ``σ`` (..., g)."""
        every = np.concatenate([per_group, np.ones((*per_group.shape[:-1], 1))], axis=-1)
        per_weight: Float[np.ndarray, "*draws p"] = every[..., self.index] * self.unit
        return per_weight

    def sums(self, per_weight: Float[np.ndarray, " p"], repeats: int = 1) -> Float[np.ndarray, " g"]:
        """Sum over the weights of each group, (g,), for values of the weights of ``repeats`` classes, concatenated.

        Examples
        --------
        >>> LearntScale(np.array([0, 0, 1]), ["a"], np.ones(3), None).sums(np.array([1.0, 2.0, 4.0])).tolist()
        [3.0]
        """
        index = np.tile(self.index, repeats)
        return np.bincount(index, per_weight, minlength=self.groups)[: self.groups]


@runtime_checkable
class WeightPrior(Protocol):
    """Protocol of a prior of the weights.

    The latent scales of all chains and the hyperparameters are a pytree of arrays with a leading axis of chains, and
    the drawing methods are static, so compiled functions contain no number of the user's.
    """

    @property
    def gaussian(self) -> bool:
        """True if the precisions are known."""

    @property
    def has_mean(self) -> bool:
        """True if ``E|w|`` is finite; otherwise a flat intercept may make the posterior improper."""

    @property
    def relative(self) -> bool:
        """True if scales are in units of ``1/sd`` of the columns, which :meth:`absolute` resolves where data enter."""

    def of_columns(self, names: Sequence[str], terms: Sequence[str] | None = None) -> Any:
        """Replace numbers given by name by one number for each of the columns ``names`` (p,).

        ``terms`` (p,) is the term of a formula for each column.
        """

    def absolute(self, spread: np.ndarray) -> Any:
        """Convert relative scales to absolute ones, for columns of standard deviations ``spread`` (p,)."""

    def of_responses(self, spread: float) -> Any:
        """Replace a prior in units of the standard deviation ``spread`` of the responses; return others unchanged."""

    def in_units(self, unit: float) -> Any:
        """Prior of ``w/unit``, for a response divided by ``unit``; the prior must be absolute."""

    def check(self, n_features: int) -> None:
        """Raise ValueError unless the prior fits ``n_features`` weights."""

    def learnt_scale(self, n_features: int) -> LearntScale | None:
        """Learnt scales that weights share; None if there are none.

        If there are any, the weights given the scales are normal, and samplers draw the scales as variables without
        ``sample_precision``.
        """

    def precision(self, n_features: int) -> np.ndarray:
        """Known precisions, (p,); raise ValueError if they are not known."""

    def location(self, n_features: int) -> np.ndarray | None:
        """Means of the weights, (p,); None if all are 0."""

    def absolute_penalty(self, n_features: int) -> np.ndarray | None:
        """``λ`` (p,) if the negative log density is ``Σ λ|w|``, for point fits; None for other priors."""

    def first_precision(self, n_features: int) -> np.ndarray:
        """Finite starting precisions of typical size, (p,)."""

    def constants(self, n_features: int) -> dict[str, Any]:
        """Constants of the prior that a posterior stores: dims and values by name."""

    def init(self, key: Any, chains: int, p: int, dtype: Any) -> Any:
        """Starting latent scales."""

    @staticmethod
    def sample_precision(key: Any, weight: Float[AnyArray, "C p"], aux: Any) -> tuple[Float[AnyArray, "C p"], Any]:
        """Draw the latent scales given the weights (C, p); return the precisions (C, p) and the new scales."""

    @staticmethod
    def record(aux: Any) -> dict[str, Float[AnyArray, " C"]]:
        """Variables of a draw that a posterior stores, (C,) each, by name."""

    @staticmethod
    def log_scale_density(precision: Float[AnyArray, "C p"], aux: Any) -> Float[AnyArray, " C"]:
        """Log prior density of the latent scales up to a constant, (C,); see ``sample_precision``."""

    def sample_weight(
        self, generator: np.random.Generator, draws: int, n_features: int
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Draw weights (draws, p) from the prior, and the variables of ``record`` by name, each (draws,)."""

    def log_density(self, weight: Float[AnyArray, "*batch p"]) -> Float[AnyArray, "*batch"]:
        """Log density of weights (..., p), with scales integrated out, up to a constant, (...).

        Raises
        ------
        TypeError
            If the density has no closed form.
        """


@runtime_checkable
class NonCentred(Protocol):
    """A mixture whose scales are functions of standard normal variables, which ``bd.HMC()`` and ``bd.NUTS()`` draw."""

    def init(self, key: Any, chains: int, p: int, dtype: Any) -> Any:
        """See :class:`WeightPrior`; for one chain, these are the hyperparameters for ``scales_of``."""

    def n_scales(self, n_features: int) -> int:
        """Number ``m`` of standard normal variables for ``n_features`` weights."""

    @staticmethod
    def scales_of(
        normal: Float[AnyArray, "C m"], aux: Any
    ) -> tuple[Float[AnyArray, "C p"], dict[str, Float[AnyArray, " C"]]]:
        """Standard deviations of the weights, (C, p), and the stored variables of a draw, by name, (C,) each."""


@runtime_checkable
class Selecting(Protocol):
    """A prior under which weights may be exactly zero, whose indicators ``bd.Gibbs()`` draws."""

    @property
    def slab(self) -> Any:
        """Prior of the weights that are not zero."""

    def law(self, n_features: int) -> Any:
        """Prior of the indicators, an :class:`bayesdrop.priors.inclusion_law.InclusionLaw`."""


def selecting(prior: Any) -> Any:
    """Prior of the features, without random terms, if it allows weights that are exactly zero; else None."""
    features = getattr(prior, "features", prior)
    return features if isinstance(features, Selecting) else None


def check_per_feature(value: Any, name: str, expected: str = "", **bounds: Any) -> None:
    """Raise ValueError unless ``value`` is a number within bounds, or an array (p,) of such; see `check_numbers`."""
    if check_numbers(value, name, expected, **bounds).ndim > 1:
        raise ValueError(f"{name}: expected one number or one per feature, got {shown(value)}.")


def spread_scale(scale: Any, size: int, name: str, each: str = "feature") -> np.ndarray:
    """One scale per feature (or what ``each`` says), (size,), from one number or ``size``; else raise ValueError."""
    return spread_numbers(scale, size, f"{name} scale", each)


def spread_numbers(values: Any, size: int, what: str, each: str = "feature") -> np.ndarray:
    """One number per feature (or what ``each`` says), (size,), from one or ``size`` numbers; else raise ValueError."""
    value = np.asarray(values, dtype=float)
    if value.ndim and value.shape != (size,):
        raise ValueError(f"{what}: expected one number or {size} of them (one per {each}), got shape {value.shape}.")
    return np.broadcast_to(value, (size,))


class ScaleMixture:
    """Base of scale mixtures of normal distributions, with a scale for each weight; see :class:`WeightPrior`."""

    gaussian: ClassVar[bool] = False
    relative: ClassVar[bool] = False

    def of_columns(self, names: Sequence[str], terms: Sequence[str] | None = None) -> Any:
        """The prior, unchanged: it has no numbers by name."""
        return self

    def absolute(self, spread: np.ndarray) -> Any:
        """The prior, unchanged: its scales are absolute."""
        return self

    def location(self, n_features: int) -> None:
        """None: all means are 0; see :class:`WeightPrior`."""

    def of_responses(self, spread: float) -> Any:
        """The prior, unchanged: its scales are absolute."""
        return self

    def in_units(self, unit: float) -> Any:
        """The prior with ``scale`` divided by the unit; raise ValueError if it has no scale and the unit is not 1."""
        if unit == 1:
            return self
        mixture: Any = self
        if not hasattr(mixture, "scale"):
            raise ValueError(
                f"weight_prior: {self!r} has no scale that could be counted in another unit of the response; write "
                "in_units, or give the likelihood a known scale, as in bd.Squared(variance=1.0)."
            )
        return replace(mixture, scale=np.asarray(mixture.scale, dtype=float)[()] / unit)

    def learnt_scale(self, n_features: int) -> None:
        """None: the scales of single weights are drawn; see :class:`WeightPrior`."""

    def precision(self, n_features: int) -> np.ndarray:
        """Raise ValueError: the precisions are not known."""
        raise ValueError(
            f"weight_prior: {self!r} mixes normal laws of unknown scales, which bd.sample draws; a point fit takes "
            "bd.Normal(...), or bd.Laplace(...) where rows have one score, and bd.variational bd.Normal(...)."
        )

    def absolute_penalty(self, n_features: int) -> np.ndarray | None:
        """None; see :class:`WeightPrior`."""
        return None

    @staticmethod
    def record(aux: Any) -> dict[str, Float[AnyArray, " C"]]:
        """Nothing; see :class:`WeightPrior`."""
        return {}


class NormalLaw(ABC):
    """Base of normal priors, whose scales are known, or learnt and shared by weights; see :class:`WeightPrior`."""

    @abstractmethod
    def learnt_scale(self, n_features: int) -> LearntScale | None:
        """See :class:`WeightPrior`."""

    @abstractmethod
    def precision(self, n_features: int) -> np.ndarray:
        """See :class:`WeightPrior`."""

    @abstractmethod
    def location(self, n_features: int) -> np.ndarray | None:
        """See :class:`WeightPrior`."""

    def absolute_penalty(self, n_features: int) -> np.ndarray | None:
        """None: the penalty is quadratic; see :class:`WeightPrior`."""
        return None

    def first_precision(self, n_features: int) -> np.ndarray:
        """The precision, at the medians of learnt scales; see :class:`WeightPrior`."""
        learnt = self.learnt_scale(n_features)
        return self.precision(n_features) if learnt is None else learnt.scale(learnt.law.median()) ** -2

    def init(self, key: Any, chains: int, p: int, dtype: Any) -> tuple[()]:
        """No latent scales of single weights; see :class:`WeightPrior`."""
        return ()

    @staticmethod
    def sample_precision(key: Any, weight: Float[AnyArray, "C p"], aux: Any) -> tuple[Float[AnyArray, "C p"], Any]:
        """Raise TypeError: there is no precision to draw for each weight."""
        raise TypeError(
            "Normal: the precisions are known, or follow from learnt scales, so there is nothing to draw for each "
            "weight; use Normal.precision or Normal.learnt_scale."
        )

    @staticmethod
    def record(aux: Any) -> dict[str, Float[AnyArray, " C"]]:
        """Nothing; see :class:`WeightPrior`."""
        return {}

    @staticmethod
    def log_scale_density(precision: Float[AnyArray, "C p"], aux: Any) -> Float[AnyArray, " C"]:
        """Zero: there are no latent scales of single weights; see :class:`WeightPrior`."""
        return 0 * precision.sum(axis=1)
