"""Bind density, operands and normal approximation of a model with its data, for gradient samplers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.special import ndtr

from .._typing import Float
from ..data.dataset import Dataset
from ..losses.protocols import Curved, Scored, Sloped, require
from ..model import Model
from ..priors.base import NonCentred, selecting
from ..priors.normal import with_scale
from ..rates import RateMap
from ..sampling.matrix import Matrix, placed, samplers_matrix
from ..sampling.prior_operands import learnt_parameter, level_operands, parameter_operands
from .approximations.class_density import ClassDensity, class_approximation
from .approximations.class_factor import class_factor, class_scores
from .approximations.correlated_effects import effects_coordinates
from .approximations.drawn import DrawnApproximation, drawn_approximation, prior_probits, rounding_width
from .approximations.learnt_parameter import with_parameter
from .approximations.learnt_scales import best_scales, with_scales
from .approximations.mixture_scales import mixture_coordinates, with_mixture
from .approximations.normal import Factor, normal_approximation, score_spread
from .approximations.precision import direction_factor, row_factor, row_gram, row_roots
from .kernels.density import Density, DensityOperands, Evaluation, Point
from .kernels.factors import StructuredFactor
from .streamed import StreamedRows, evaluation_of, one_pass

__all__ = ["ROUNDED", "Bound", "approximate_scores", "at_median", "bind_density", "bind_start", "operands_of"]

# Maximum number of entries of a dense matrix whose square is stored.
_SMALL = 1 << 24
# Half-width over which kinks are rounded, in posterior standard deviations of the score. If it is larger, the force
# is inaccurate; if it is smaller, the force jumps. 0.3 to 0.7 took the same number of leapfrog steps.
ROUNDED = 0.5
# With fewer features the curvature is averaged, if the scale of the weights is learnt.
_AVERAGED = 300
# Approximations of a single score and many features.
_OF_SCORES = ("scores", "rows", "directions")


class Bound(NamedTuple):
    """A density and a normal approximation of it.

    Attributes
    ----------
    density, operands
        Density to sample and its operands, with learnt scales of the weights as coordinates.
    base : Density or ClassDensity
        The density at known scales.
    centre, factor : array
        Mean (E,) and factor, (E, E), (E,) or structured, of an approximation of the coordinates.
    piecewise_linear : bool
        Whether the loss has kinks that no noise rounds.
    spread : array
        Factor at known scales, for the coordinates of the density ``base``.
    """

    density: Any
    operands: Any
    base: Any
    centre: Float[np.ndarray, " E"]
    factor: Factor | StructuredFactor
    piecewise_linear: bool
    spread: Factor | StructuredFactor


def bind_start(
    name: str,
    model: Model,
    data: Dataset,
    rate_map: RateMap,
    marginalised: bool,
    dtype: str,
    choice: str,
    rounded: bool = True,
    keep_rows: bool = True,
) -> Bound:
    """Density, operands and normal approximation of a model.

    ``choice`` is the name of the approximation (:mod:`.approximations.choices`), ``rounded`` rounds the kinks of
    forces, and the operands include the rows if ``keep_rows``.
    """
    dense = choice == "dense"
    prior: Any = model.weight_prior
    learnt = prior.learnt_scale(len(data.feature_names))
    if getattr(prior, "non_centred", False) or selecting(prior) or not (prior.gaussian or learnt):
        inner = "dense" if dense else "diagonal"
        bind = lambda variant: bind_start(name, variant, data, rate_map, marginalised, dtype, inner, rounded)  # noqa: E731
        return _start_of_mixture(name, model, data, rate_map, dense, dtype, bind)
    contrasts = len(data.classes) - 1 if model.loss.multiclass else 1  # type: ignore[arg-type]  # labels
    log_scale = np.zeros(0)
    if learnt is not None:
        # Refusals come before fits.
        bind_density(name, at_median(model, data), data, rate_map, marginalised, dtype, keep_rows)
        # An averaged curvature takes many more passes over rows that are streamed.
        averaged = not data.design.is_streamed
        model, log_scale = best_scales(
            model, learnt, contrasts, lambda variant: start_of(variant, data, rate_map, averaged, dense)
        )
    density, operands = bind_density(name, model, data, rate_map, marginalised, dtype, keep_rows)
    piecewise_linear = density.loss.piecewise_linear and not density.has_variance
    is_rounded, width = piecewise_linear and rounded, np.zeros(0)
    factor: Any
    if choice == "eigenvectors":
        of_classes = class_scores(model, data, rate_map)
        centre, factor = of_classes.centre, class_factor(of_classes, operands.matrix, dtype)
    elif choice in _OF_SCORES:
        normal = approximate_scores(model, data, rate_map, density, operands, choice, dtype)
        centre, factor = normal.centre, _factor_of(normal, model, data, operands, choice, dtype)
        if is_rounded:
            width = rounding_width(model.C * data.weight, normal.precision.curvature, normal.spread, ROUNDED)
    else:
        centre, factor = start_of(model, data, rate_map, learnt is not None and not data.design.is_streamed, dense)
        if is_rounded:
            # A learnt parameter, the last coordinate, is not part of a score.
            of_scores = factor if getattr(density, "parameter", None) is None else factor[:-1]
            width = ROUNDED * score_spread(data, of_scores)
    if is_rounded:
        operands = operands._replace(width=placed(width, dtype))
    if learnt is None:
        return Bound(density, operands, density, centre, factor, piecewise_linear, factor)
    wrapped = with_scales(density, operands, centre, factor, learnt, log_scale, contrasts, dtype)
    return Bound(wrapped[0], wrapped[1], density, wrapped[2], wrapped[3], piecewise_linear, factor)


def _start_of_mixture(
    name: str, model: Model, data: Dataset, rate_map: RateMap, dense: bool, dtype: str, bind: Callable[[Model], Bound]
) -> Bound:
    """Density, operands and approximation with the scales of single weights as coordinates.

    ``bind`` returns these three for a model whose scales are known.
    """
    prior: Any = model.weight_prior
    p, has_effects = len(data.feature_names), getattr(prior, "non_centred", False)
    if not (has_effects or isinstance(prior, NonCentred)) or model.loss.multiclass:
        raise ValueError(
            f"method: {name} draws the scales of mixtures that say how they follow from normal variables "
            f"(bayesdrop.priors.base.NonCentred), for one score a row; got {prior!r} and {model.loss!r}; bd.Gibbs() "
            "draws the scales of the others in closed form."
        )
    if has_effects:
        learnt, log_scale = prior.learnt_scale(p), np.zeros(0)
        if learnt is not None:
            _, log_scale = best_scales(model, learnt, 1, lambda variant: start_of(variant, data, rate_map, True, dense))
        coordinates = effects_coordinates(prior, p, log_scale, dtype)
    else:
        coordinates = mixture_coordinates(prior, p, dtype)
    bound = bind(replace(model, weight_prior=with_scale(prior, coordinates.spread)))
    factor: Any = bound.factor
    wrapped = with_mixture(bound.density, bound.operands, bound.centre, factor, coordinates)
    return Bound(wrapped[0], wrapped[1], bound.density, wrapped[2], wrapped[3], bound.piecewise_linear, factor)


def approximate_scores(
    model: Model, data: Dataset, rate_map: RateMap, density: Any, operands: DensityOperands, choice: str, dtype: str
) -> DrawnApproximation:
    """Approximate the posterior of a single score and many features, at known scales of the weights."""

    def evaluate(theta: Point) -> Evaluation:
        if choice != "directions":
            value: Evaluation = _evaluate(density, operands, theta)
            return value
        rows = StreamedRows(data.design, data.target, model.C * data.weight, model.C, None, data.offset)
        pass_operands = operands._replace(offset=None)
        sums = one_pass(density, rows, _loadings(density, pass_operands, theta))
        return _evaluation(density, pass_operands, theta, jax.tree.map(partial(placed, dtype=dtype), sums))

    return drawn_approximation(
        model, data, rate_map, evaluate, lambda normal: _factor_of(normal, model, data, operands, choice, dtype)
    )


_evaluation = jax.jit(evaluation_of, static_argnums=0)
_loadings = jax.jit(lambda density, operands, theta: density.loadings(operands, theta), static_argnums=0)
_evaluate = jax.jit(lambda density, operands, theta: density.evaluate(operands, theta), static_argnums=0)


def _factor_of(
    approximation: DrawnApproximation, model: Model, data: Dataset, operands: DensityOperands, choice: str, dtype: str
) -> StructuredFactor:
    if choice == "directions":
        return direction_factor(approximation.precision, model.fit_intercept, dtype)
    p, curvature = len(approximation.gain), approximation.precision.curvature
    weights = approximation.precision.prior[:p], approximation.gain, curvature
    roots = row_roots(row_gram(data.design, *weights, model.fit_intercept, approximation.rates), curvature)
    return row_factor(data, operands.matrix, *weights, roots, model.fit_intercept, dtype, approximation.rates)


def at_median(model: Model, data: Dataset) -> Model:
    """The model with learnt scales of the weights fixed at their prior medians."""
    if model.weight_prior.gaussian:
        return model
    prior = with_scale(model.weight_prior, model.weight_prior.first_precision(len(data.feature_names)) ** -0.5)
    return replace(model, weight_prior=prior)


def bind_density(
    name: str, model: Model, data: Dataset, rate_map: RateMap, marginalised: bool, dtype: str, keep_rows: bool = True
) -> tuple[Density | ClassDensity, DensityOperands]:
    """Density and operands of a model, with the rows if ``keep_rows``; ``name`` is the sampler's, for errors.

    Raises
    ------
    ValueError
        If the weight prior is a scale mixture, or masks of many classes would have to be integrated.
    """
    if not model.weight_prior.gaussian:
        raise ValueError(
            f"method: {name} takes normal weight priors (of known or learnt scales), got {model.weight_prior!r}; "
            "bd.Gibbs() draws the scales of the others in closed form."
        )
    p = len(data.feature_names)
    model.noise.check(data.design.minimum())
    probe = model.noise.coefficients(np.full(p, 0.5) if rate_map.is_free else rate_map.initial)
    parts = {key: bool(np.any(getattr(probe, key))) for key in ("quadratic", "linear", "constant", "shift")}
    if model.loss.multiclass:
        if not marginalised:
            raise ValueError(
                f"method: {name} integrates masks as if scores were normal, which {model.loss!r} has no form of; "
                "bd.Gibbs() draws them."
            )
        classes = ClassDensity(model.loss, model.noise, len(data.classes), model.fit_intercept, **parts)  # type: ignore[arg-type]
        return classes, operands_of(model, data, rate_map, dtype)
    noisy = parts["quadratic"] or parts["linear"] or parts["constant"]
    ability = Sloped if not noisy else Curved if marginalised else Scored
    require(model.loss, ability, f"bd.{name}", "write what lacks, or use bd.fit")
    if marginalised and noisy and model.loss.exponential and not _is_normal(model):
        raise ValueError(
            f"expectation: bd.{name} draws from exp(−U) by the two moments of a score, which for {model.loss!r} and "
            f'{model.noise!r} are not sufficient; take expectation="gaussian", or target="noising" for dropout.'
        )
    density = Density(
        # A learnt scale or shape is a coordinate; the loss itself has the scale 1.
        loss=model.loss if marginalised and noisy else model.loss.plain,
        parameter=learnt_parameter(model.loss),
        noise=model.noise,
        fit_intercept=model.fit_intercept,
        free=rate_map.size,
        integrated=not marginalised,
        rate_dim=rate_map.dim,
        **parts,
    )  # fmt: skip
    return density, operands_of(model, data, rate_map, dtype, parts["quadratic"], keep_rows)


def _is_normal(model: Model) -> bool:
    """True if noised scores are normal, so that two moments determine their law."""
    return not any(np.any(part) for part in model.noise.expansion(np.full(1, 0.5))[:3])


def operands_of(
    model: Model, data: Dataset, rate_map: RateMap, dtype: str, square: bool = True, keep_rows: bool = True
) -> DensityOperands:
    """Data and priors in a precision; the square of a dense matrix is kept if it is small and ``square``.

    Without ``keep_rows``, or if rows are streamed, matrix, targets and weights are empty.
    """
    prior = rate_map.prior.law(data.occurrences(rate_map.index, rate_map.size))
    real, p = partial(placed, dtype=dtype), len(data.feature_names)
    square = square and data.design.shape[0] * p <= _SMALL
    streamed = data.design.is_streamed or not keep_rows
    location = model.weight_prior.location(p)
    return DensityOperands(
        matrix=Matrix(None, None, None, None) if streamed else samplers_matrix(data.design, dtype, square),
        target=real(np.zeros(0) if streamed else data.target),
        row_weight=real(np.zeros(0) if streamed else model.C * data.weight),
        loss_weight=real(model.C),
        precision=real(model.weight_prior.precision(p)),
        fixed_rate=real(rate_map.initial),
        index=placed(rate_map.index, np.int32),
        rate_prior=jax.tree.map(real, prior),
        offset=None if data.offset is None else real(data.offset),
        location=None if location is None else real(location),
        level=level_operands(model, dtype),
        parameter=parameter_operands(model.loss, data, dtype),
    )


def start_of(
    model: Model, data: Dataset, rate_map: RateMap, averaged: bool = False, dense: bool = True
) -> tuple[Float[np.ndarray, " D"], Factor]:
    """Centre (D,) and factor, (D, D) or (D,), of weights, intercept, a learnt parameter and probits of free rates.

    Weights are relative to their prior means. ``averaged`` averages the curvature of a smooth loss over the posterior,
    if that costs little. The factor is a matrix if ``dense``, else standard deviations.
    """
    if model.loss.multiclass:
        return class_approximation(model, data, rate_map, dense)
    p, rates = len(data.feature_names), rate_map.initial
    u = spread = np.zeros(0)
    if rate_map.is_free:
        u, spread = prior_probits(data, rate_map)
        rates = rate_map.expand(ndtr(u))
    averaged &= not rate_map.is_free and p < _AVERAGED
    mean, factor = with_parameter(
        model, data, rates, lambda variant: normal_approximation(variant, data, rates, averaged, dense)
    )
    location = model.weight_prior.location(p)
    if location is not None:
        mean = mean - np.pad(location, (0, len(mean) - p))
    if not rate_map.is_free:
        return mean, factor
    centre = np.concatenate([mean, u])
    if factor.ndim == 1 or len(centre) > 2000:
        diagonal = factor if factor.ndim == 1 else np.sqrt(np.sum(factor**2, axis=1))
        return centre, np.concatenate([diagonal, spread])
    from scipy.linalg import block_diag

    return centre, block_diag(factor, np.diag(spread))
