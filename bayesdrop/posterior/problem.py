"""State the posterior to sample, from a model and data, and check samplers; for ``bd.sample`` and NumPyro."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._validation import check_choice, check_count, shown
from ..data.column_facts import RowEncoder
from ..data.dataset import Dataset, read_rows
from ..designs import Design, as_local_design
from ..fitting.objective.centring import CentredProblem, centre_problem
from ..hmc.approximations.choices import Limits, case_of, without_noise
from ..losses.protocols import Augmented
from ..model import Model
from ..priors.base import NonCentred, selecting
from ..priors.rate_prior import BetaLaw
from ..rates import RateMap
from ..sampling.propriety import check_proper
from ..sampling.protocols import Kernel, Sampler, StreamingSampler
from .arviz_groups.constants import class_names, correlation_coords, model_coords
from .response_units import in_units, response_unit, with_spread

__all__ = ["Problem", "check_sampler", "default_method", "is_marginalised", "sampler_settings", "with_dtype"]


@dataclass(frozen=True)
class Problem:
    """A checked model and its data for samplers; the posterior is proper as far as the checks can tell.

    Attributes
    ----------
    centring : CentredProblem
        The model as stated, and for the centred columns of the sampler.
    data : Dataset
        The centred rows with a weight; with masks each trial of a pair of counts is a row.
    rows : Dataset
        The rows with a weight, as passed.
    rate_map : RateMap
        Features mapped to free rates.
    marginalised : bool
        True for the pseudo-posterior ``exp(−U)``, False for the posterior of the noising model.
    unit : float
        Standard deviation of the responses if the scale of the likelihood is learnt, else 1. Samplers use responses,
        offsets and priors in this unit, so that draws do not depend on the user's unit.
    """

    centring: CentredProblem
    data: Dataset
    rows: Dataset
    rate_map: RateMap
    marginalised: bool
    unit: float = 1.0

    @classmethod
    def of(
        cls,
        model: Model,
        X: Any,
        y: Any,
        *,
        target: str | None = None,
        sample_weight: Any = None,
        class_weight: Any = None,
        offset: Any = None,
        feature_names: Sequence[str] | None = None,
        wrap: Callable[..., Design] = as_local_design,
        formula: RowEncoder | None = None,
    ) -> Problem:
        """State a problem; the arguments are those of :func:`bayesdrop.sample`, and ``wrap`` makes a design of ``X``.

        ``formula`` is the formula of the features, if there is one.

        Raises
        ------
        ValueError
            If data, rates or target are invalid, or the posterior is improper.

        Examples
        --------
        >>> found = Problem.of(Model(), [[0.0], [1.0]], ["no", "yes"])
        >>> found.data.target.tolist(), found.marginalised
        ([-1.0, 1.0], False)
        """
        dataset = read_rows(
            model.loss, X, y, sample_weight, feature_names, wrap=wrap, missing=model.missing,
            class_weight=class_weight, offset=offset,
        )  # fmt: skip
        if formula is not None:
            dataset = dataset.of_formula(formula)
        if dataset.offset is not None and dataset.design.is_streamed:
            raise ValueError(
                "offset: rows that are not in memory are sampled without one; pass an array or a scipy sparse matrix: "
                "all rows if they fit in memory, or a random sample of them."
            )
        _check_parameters(model, dataset.design.is_streamed)
        rate_map = model.bind(dataset.feature_names)
        marginalised = is_marginalised(model, rate_map, target)
        data = dataset if marginalised else dataset.with_single_trials()
        data = data.checked(model.loss, fit_intercept=model.fit_intercept)
        if np.any(data.weight == 0):
            raise ValueError(
                "sample_weight: rows of weight zero are left out of a posterior, which features on devices or on a "
                "cluster do not allow; leave them out of X and y, on devices with a number of rows that they can share "
                "equally."
            )
        centring = centre_problem(model, data.design, data.weight, rate_map, data.feature_names)
        centring.advise_C()
        data = replace(data, design=centring.design)
        check_proper(model, data, rate_map, marginalised)
        found = non_centred(model)
        if found is not None and not without_noise(model, rate_map):
            raise ValueError(
                f"rates: bd.sample takes {found[0]} with features without noise only; take rates=bd.Fixed(0.0), or "
                f"{found[1]}."
            )
        unit = response_unit(model.loss, data)
        centring = with_spread(centring, unit)
        centring = replace(centring, model=in_units(centring.model, unit))
        return cls(centring, data, dataset.with_pairs().with_weight(), rate_map, marginalised, unit)

    def method(self, chosen: Any) -> Any:
        """The chosen sampler, checked; for None the default, :func:`default_method`.

        For streamed rows the sampler runs in double precision, because the arrays in memory are small.

        Raises
        ------
        TypeError
            If ``chosen`` is not a sampler, or does not take streamed rows.
        """
        names = self.data.feature_names
        sampler = chosen
        if sampler is None:
            case = case_of(self.centring.model, self.data, self.rate_map, self.marginalised)
            sampler = default_method(
                self.centring.original_model, self.marginalised, len(names), self._has_broken_weights,
                case.has_many_scaled(Limits()),
            )  # fmt: skip
        check_sampler(sampler)
        if not self.data.design.is_streamed:
            return sampler
        if not isinstance(sampler, StreamingSampler):
            by_default = " by default" if chosen is None else ""
            error = "" if self.marginalised else ", which integrates masks approximately and states its error"
            if self.centring.original_model.loss.multiclass and not self.marginalised:
                error = ' with target="marginalised" and fixed rates, which averages masks inside the loss'
            raise TypeError(
                f"method: got {sampler!r}{by_default}, which keeps something for every entry or row, and X is not in "
                f"memory; take method=bd.HMC(){error}, or pass an array or a scipy sparse matrix: all rows if they fit "
                "in memory, or a random sample of them."
            )
        return with_dtype(sampler, "float64")

    @property
    def _has_broken_weights(self) -> bool:
        """Whether there are masks, and some row weights are not whole numbers."""
        from ..gibbs.method import first_broken_weight

        is_masked = not (self.marginalised or self.data.design.is_streamed)
        return (
            is_masked and self.rate_map.hierarchy is None and first_broken_weight(self.data, self.rate_map) is not None
        )

    def bind(self, method: Any, tune: int) -> tuple[Kernel, Any]:
        """Kernel and operands of a sampler, under the precision of its ``dtype``.

        Raises
        ------
        TypeError
            If the sampler returns no kernel.
        """
        if self.data.offset is not None and not getattr(method, "takes_offset", False):
            raise ValueError(
                f"offset: {method!r} does not say that it takes one (takes_offset = True); leave the offset out, or "
                "take bd.Gibbs(), bd.HMC() or bd.NUTS()."
            )
        found = non_centred(self.centring.original_model)
        if found is not None and not getattr(method, "takes_correlation", False):
            raise ValueError(
                f"method: {method!r} does not say that it takes {found[0]} (takes_correlation = True); take bd.HMC() "
                f"or bd.NUTS(), or {found[1]}."
            )
        bind = method.bind_streamed if self.data.design.is_streamed else method.bind
        data = self.data
        if self.unit != 1:
            offset = None if data.offset is None else data.offset / self.unit
            data = replace(data, target=data.target / self.unit, offset=offset)
        kernel, operands = bind(self.centring.model, data, self.rate_map, tune, marginalised=self.marginalised)
        if not isinstance(kernel, Kernel):
            raise TypeError(
                f"method: expected a kernel with init, step, variables and statistics, got {kernel!r}; see "
                "bayesdrop.sampling.protocols.Kernel."
            )
        return kernel, operands

    def in_response_units(self, draws: dict[str, Any]) -> dict[str, Any]:
        """Convert draws of a sampler to the unit of the responses and the names of a posterior."""
        if self.unit == 1:
            return draws
        return {name: value * self.unit if name in _IN_UNITS else value for name, value in draws.items()}

    @property
    def rate_law(self) -> BetaLaw | None:
        """Prior of the free rates, if there are any."""
        rate_map = self.rate_map
        return rate_map.prior.law(self.data.occurrences(rate_map.index, rate_map.size)) if rate_map.is_free else None

    @property
    def required(self) -> tuple[str, ...]:
        """Names of the variables that every sampler of this problem declares."""
        optional = [("intercept", self.centring.original_model.fit_intercept), ("rate", self.rate_map.is_free)]
        return ("lp", "weight", *(name for name, is_drawn in optional if is_drawn))

    @property
    def coords(self) -> dict[str, Any]:
        """Names along the dims that a sampler of this problem may declare."""
        named = model_coords(self.rate_map, self.data.feature_names)
        if self.centring.original_model.loss.multiclass:
            named |= class_names(np.asarray(self.data.classes))
        learnt = self.centring.model.weight_prior.learnt_scale(len(self.data.feature_names))
        if learnt is not None and learnt.names:
            named["weight_group"] = learnt.names
        return named | correlation_coords(self.centring.model.weight_prior)


def non_centred(model: Model) -> tuple[str, str] | None:
    """Part of a prior with random terms that only gradient samplers draw, and an alternative; None if there is none."""
    prior: Any = model.weight_prior
    if not getattr(prior, "non_centred", False):
        return None
    if prior.mixture is not None:
        return f"{prior.features!r} with random terms", "give the features bd.Normal(...)"
    advice = "write the term with ||, as in (x || site), whose effects are independent"
    return f"the correlated effects of ({next(iter(prior.pairs()))})", advice


# Variables of a posterior in the unit of the score.
_IN_UNITS = ("weight", "intercept", "weight_scale", "global_scale", "sigma")


def _check_parameters(model: Model, streamed: bool) -> None:
    """Raise ValueError if a scale or shape cannot be learnt with this model and these rows."""
    if not model.loss.parameters:
        return
    (parameter,) = model.loss.parameters
    replacement = f"bd.{type(model.loss).__name__}({parameter.field}=...)"
    if model.C != 1:
        replacement = (
            f"bd.Squared(variance=1/C), here variance={1 / model.C:g}" if parameter.field == "variance" else replacement
        )
        raise ValueError(
            f"C: expected 1 beside a {parameter.field} that is learnt with the weights, got {model.C:g}; for a known "
            f"one take {replacement}, and for rows that count more or less sample_weight."
        )
    if streamed:
        raise ValueError(
            f"loss: rows that are not in memory are sampled at a known {parameter.field}; take {replacement}, such as "
            "the estimate of a sample of the rows."
        )


def check_sampler(method: Any) -> Any:
    """Return ``method``; raise an error before a run if it lacks an attribute that a run or its description needs.

    Examples
    --------
    >>> check_sampler("gibbs")
    Traceback (most recent call last):
    ...
    TypeError: method: expected a sampler such as bd.Gibbs(), got 'gibbs', which lacks dtype, warm_up, ...
    """
    if isinstance(method, type) or not isinstance(method, Sampler):
        missing = [name for name in (*Sampler.__annotations__, "bind") if not hasattr(method, name)]
        what = "a class; give an instance" if isinstance(method, type) else f"which lacks {', '.join(missing)}"
        raise TypeError(
            f"method: expected a sampler such as bd.Gibbs(), got {shown(method)}, {what}; see "
            "bayesdrop.sampling.protocols.Sampler. bd.fit takes the minimisers."
        )
    if method.dtype not in ("float32", "float64"):
        raise ValueError(f'method: expected dtype "float32" or "float64", got {shown(method.dtype)}.')
    check_count(method.warm_up, "method.warm_up")
    return method


def sampler_settings(method: Any) -> dict[str, Any]:
    """Settings of a sampler, JSON values or text: fields of a dataclass, or else public attributes.

    Examples
    --------
    >>> class Sampler:
    ...     def __init__(self): self.steps, self._cache = 3, None
    >>> sampler_settings(Sampler())
    {'steps': 3}
    """
    if dataclasses.is_dataclass(method):
        settings = {field.name: getattr(method, field.name) for field in dataclasses.fields(method)}
    else:
        settings = {name: value for name, value in getattr(method, "__dict__", {}).items() if not name.startswith("_")}
    settings = {name: value.item() if isinstance(value, np.generic) else value for name, value in settings.items()}
    return {
        name: value if isinstance(value, int | float | str | None) else str(value) for name, value in settings.items()
    }


def with_dtype(method: Any, dtype: str) -> Any:
    """Copy a sampler with another precision."""
    if dataclasses.is_dataclass(method) and not isinstance(method, type):
        return dataclasses.replace(method, dtype=dtype)
    other = copy.copy(method)
    other.dtype = dtype
    return other


def is_marginalised(model: Model, rate_map: RateMap, target: str | None) -> bool:
    """True if the target is the pseudo-posterior ``exp(−U)``."""
    check_choice(target, "target", ("noising", "marginalised", None))
    has_masks = model.noise.has_rate and (rate_map.is_free or bool(np.any(rate_map.initial > 0)))
    if target == "noising" and not model.noise.has_rate:
        raise ValueError(
            f"target: {model.noise!r} has no masks that could be part of the model; it is sampled as "
            'target="marginalised", the noise averaged inside the loss.'
        )
    if target == "marginalised" and rate_map.is_free:
        raise ValueError(
            "target: the pseudo-posterior exp(−U) says nothing about rates, for U is lowest where they are 0; give "
            'fixed rates, as in bd.Fixed(0.3), or take target="noising".'
        )
    return target == "marginalised" or not has_masks


def default_method(model: Model, marginalised: bool, n_features: int, broken_weights: bool, many_scaled: bool) -> Any:
    """The fastest exact sampler.

    With masks no sampler is exact for ``broken_weights`` (row weights that are not whole numbers) or for a loss without
    auxiliary variables, such as ``bd.Poisson()``; the sampler chosen for these states its error. ``many_scaled`` means
    that more weights have a learnt scale than ``bd.HMC()`` allows.
    """
    prior, is_non_centred = model.weight_prior, non_centred(model) is not None
    augmented = isinstance(model.loss, Augmented)
    followed = prior.gaussian or prior.learnt_scale(n_features) is not None
    followed &= selecting(prior) is None
    followed |= (isinstance(prior, NonCentred) and not (augmented or model.loss.multiclass)) or is_non_centred
    classes = model.loss.multiclass and not marginalised
    approximated = marginalised or broken_weights or not augmented
    if approximated and followed and not classes:
        if not many_scaled:
            from ..hmc.method import HMC

            return HMC()
        if model.loss.multiclass or not augmented or is_non_centred or (broken_weights and not marginalised):
            from ..hmc.nuts import NUTS

            return NUTS()
    from ..gibbs.method import Gibbs

    return Gibbs()
