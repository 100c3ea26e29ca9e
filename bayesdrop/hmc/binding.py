"""What gradient samplers bind: density, operands and normal approximation of a model with its data."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from .._typing import Float
from ..data.dataset import Dataset
from ..losses.protocols import Curved, Scored, Sloped, require
from ..model import Model
from ..priors.base import NonCentred, selecting
from ..priors.normal import with_scale
from ..rates import RateMap
from ..sampling.intercept_level import level_operands
from ..sampling.likelihood_parameters import learnt_parameter, parameter_operands
from ..sampling.matrix import Matrix, placed, samplers_matrix
from .approximations.class_density import ClassDensity, class_approximation
from .approximations.class_factor import class_factor, class_scores
from .approximations.correlated_effects import correlated_coordinates
from .approximations.drawn import DrawnApproximation, drawn_approximation, rounding_width
from .approximations.learnt_parameter import with_parameter
from .approximations.learnt_scales import best_scales, with_scales
from .approximations.mixture_scales import mixture_coordinates, with_mixture
from .approximations.normal import Factor, normal_approximation, score_spread
from .approximations.precision import direction_factor, row_factor, row_gram, row_roots
from .kernels.density import Density, DensityOperands, Evaluation, Point
from .kernels.factors import FactorMap
from .streamed import StreamedRows, evaluation_of, one_pass

__all__ = ["ROUNDED", "Bound", "approximate_scores", "at_median", "bind_density", "bind_start", "operands_of"]

# Entries up to which a dense matrix's square is kept.
_SMALL = 1 << 24
# Half-width over which kinks are rounded, in posterior standard deviations of the score. Wider, and the force is that
# of another posterior; narrower, and it jumps. 0.3 to 0.7 took the same number of leapfrog steps.
ROUNDED = 0.5
# Features below which the curvature is averaged where the scale of the weights is learnt.
_AVERAGED = 300
# Approximations of a single score and many features.
_OF_SCORES = ("scores", "rows", "directions")


class Bound(NamedTuple):
    """A density, where it lies, and how wide it is.

    Attributes
    ----------
    density, operands
        What is sampled, with the scales of the weights as coordinates where they are learnt.
    given : Density or ClassDensity
        The density at known scales.
    centre, factor : array
        Mean (E,) and factor, (E, E), (E,) or by products, of an approximation of the coordinates.
    piecewise_linear : bool
        The loss has kinks that no noise rounds.
    spread : array
        Factor at known scales, of the coordinates that scores are made of.
    """

    density: Any
    operands: Any
    given: Any
    centre: Float[np.ndarray, " E"]
    factor: Factor | FactorMap
    piecewise_linear: bool
    spread: Factor | FactorMap


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
    forces, and the operands have the rows if ``keep_rows``.
    """
    dense = choice == "dense"
    prior: Any = model.weight_prior
    learnt = prior.learnt_scale(len(data.feature_names))
    if getattr(prior, "correlated", ()) or selecting(prior) or not (prior.gaussian or learnt):
        return _start_of_mixture(name, model, data, rate_map, marginalised, dtype, dense, rounded)
    contrasts = len(data.classes) - 1 if model.loss.multiclass else 1  # type: ignore[arg-type]  # labels
    log_scale = np.zeros(0)
    if learnt is not None:
        # Refusals come before fits.
        bind_density(name, at_median(model, data), data, rate_map, marginalised, dtype, keep_rows)
        # An averaged curvature takes many more passes over rows that are streamed.
        averaged = not data.design.is_streamed
        model, log_scale = best_scales(
            model, learnt, contrasts, lambda known: start_of(known, data, rate_map, averaged, dense)
        )
    density, operands = bind_density(name, model, data, rate_map, marginalised, dtype, keep_rows)
    if choice == "eigenvectors":
        found = class_scores(model, data, rate_map)
        of_classes = class_factor(found, operands.matrix, dtype)
        return Bound(density, operands, density, found.centre, of_classes, False, of_classes)
    if choice in _OF_SCORES:
        return _start_of_scores(model, data, rate_map, density, operands, choice, dtype, rounded)
    centre, factor = start_of(model, data, rate_map, learnt is not None and not data.design.is_streamed, dense)
    piecewise_linear = density.loss.piecewise_linear and not density.has_variance
    if piecewise_linear and rounded:
        # A learnt parameter, the last coordinate, is no part of a score.
        of_scores = factor if getattr(density, "parameter", None) is None else factor[:-1]
        operands = operands._replace(width=placed(ROUNDED * score_spread(data, of_scores), dtype))
    if learnt is None:
        return Bound(density, operands, density, centre, factor, piecewise_linear, factor)
    wrapped = with_scales(density, operands, centre, factor, learnt, log_scale, contrasts, dtype)
    return Bound(wrapped[0], wrapped[1], density, wrapped[2], wrapped[3], piecewise_linear, factor)


def _start_of_mixture(
    name: str,
    model: Model,
    data: Dataset,
    rate_map: RateMap,
    marginalised: bool,
    dtype: str,
    dense: bool,
    rounded: bool,
) -> Bound:
    """Density, operands and approximation with the scales of single weights as coordinates."""
    prior: Any = model.weight_prior
    p, is_correlated = len(data.feature_names), bool(getattr(prior, "correlated", ()))
    if not (is_correlated or isinstance(prior, NonCentred)) or model.loss.multiclass:
        raise ValueError(
            f"method: {name} draws the scales of mixtures that say how they follow from normal variables "
            f"(bayesdrop.priors.base.NonCentred), for one score a row; got {prior!r} and {model.loss!r}; bd.Gibbs() "
            "draws the scales of the others in closed form."
        )
    if is_correlated:
        learnt, log_scale = prior.learnt_scale(p), np.zeros(0)
        if learnt is not None:
            _, log_scale = best_scales(model, learnt, 1, lambda known: start_of(known, data, rate_map, True, dense))
        coordinates = correlated_coordinates(prior, p, log_scale, dtype)
    else:
        coordinates = mixture_coordinates(prior, p, dtype)
    known = replace(model, weight_prior=with_scale(prior, coordinates.spread))
    choice = "dense" if dense else "diagonal"
    bound = bind_start(name, known, data, rate_map, marginalised, dtype, choice, rounded)
    found: Any = bound.factor
    wrapped = with_mixture(bound.density, bound.operands, bound.centre, found, coordinates)
    return Bound(wrapped[0], wrapped[1], bound.density, wrapped[2], wrapped[3], bound.piecewise_linear, found)


def _start_of_scores(
    model: Model,
    data: Dataset,
    rate_map: RateMap,
    density: Any,
    operands: DensityOperands,
    choice: str,
    dtype: str,
    rounded: bool,
) -> Bound:
    """Density and operands with an approximation of a single score and many features, by rows or by directions."""
    found = approximate_scores(model, data, rate_map, density, operands, choice, dtype)
    factor = _factor_of(found, model, data, operands, choice, dtype)
    piecewise_linear = density.loss.piecewise_linear and not density.has_variance
    if piecewise_linear and rounded:
        operands = operands._replace(width=placed(_width(model, data, found), dtype))
    return Bound(density, operands, density, found.centre, factor, piecewise_linear, factor)


def approximate_scores(
    model: Model, data: Dataset, rate_map: RateMap, density: Any, operands: DensityOperands, choice: str, dtype: str
) -> DrawnApproximation:
    """Approximate the posterior of a single score and many features, at known scales of the weights."""

    def evaluate(theta: Point) -> Evaluation:
        if choice != "directions":
            found: Evaluation = _evaluate(density, operands, theta)
            return found
        rows = StreamedRows(data.design, data.target, model.C * data.weight, model.C, None, data.offset)
        given = operands._replace(offset=None)
        sums = one_pass(density, rows, _loadings(density, given, theta))
        return _evaluation(density, given, theta, jax.tree.map(partial(placed, dtype=dtype), sums))

    return drawn_approximation(
        model, data, rate_map, evaluate, lambda found: _factor_of(found, model, data, operands, choice, dtype)
    )


_evaluation = jax.jit(evaluation_of, static_argnums=0)
_loadings = jax.jit(lambda density, operands, theta: density.loadings(operands, theta), static_argnums=0)
_evaluate = jax.jit(lambda density, operands, theta: density.evaluate(operands, theta), static_argnums=0)


def _factor_of(
    found: DrawnApproximation, model: Model, data: Dataset, operands: DensityOperands, choice: str, dtype: str
) -> FactorMap:
    if choice == "directions":
        return direction_factor(found.precision, model.fit_intercept, dtype)
    p, curvature = len(found.gain), found.precision.curvature
    weights = found.precision.prior[:p], found.gain, curvature
    roots = row_roots(row_gram(data.design, *weights, model.fit_intercept, found.rates), curvature)
    return row_factor(data, operands.matrix, *weights, roots, model.fit_intercept, dtype, found.rates)


def _width(model: Model, data: Dataset, found: DrawnApproximation) -> Float[np.ndarray, " n"]:
    """Half-widths over which kinks are rounded."""
    return rounding_width(model.C * data.weight, found.precision.curvature, found.spread, ROUNDED)


def at_median(model: Model, data: Dataset) -> Model:
    """The model with its scales at their medians, where they are learnt."""
    if model.weight_prior.gaussian:
        return model
    known = with_scale(model.weight_prior, model.weight_prior.first_precision(len(data.feature_names)) ** -0.5)
    return replace(model, weight_prior=known)


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
    there = {key: bool(np.any(getattr(probe, key))) for key in ("quadratic", "linear", "constant", "shift")}
    if model.loss.multiclass:
        if not marginalised:
            raise ValueError(
                f"method: {name} integrates masks as if scores were normal, which {model.loss!r} has no form of; "
                "bd.Gibbs() draws them."
            )
        classes = ClassDensity(model.loss, model.noise, len(data.classes), model.fit_intercept, **there)  # type: ignore[arg-type]
        return classes, operands_of(model, data, rate_map, dtype)
    noisy = there["quadratic"] or there["linear"] or there["constant"]
    ability = Sloped if not noisy else Curved if marginalised else Scored
    require(model.loss, ability, f"bd.{name}", "write what lacks, or use bd.fit")
    if marginalised and noisy and model.loss.exponential and not _is_normal(model):
        raise ValueError(
            f"expectation: bd.{name} draws from exp(−U) by the two moments of a score, which for {model.loss!r} and "
            f'{model.noise!r} are not sufficient; take expectation="gaussian", or target="noising" for dropout.'
        )
    density = Density(
        # A learnt scale or shape is a coordinate, and the loss that of scale 1.
        loss=model.loss if marginalised and noisy else model.loss.plain,
        parameter=learnt_parameter(model.loss),
        noise=model.noise,
        fit_intercept=model.fit_intercept,
        free=rate_map.size,
        integrated=not marginalised,
        rate_dim=rate_map.dim,
        **there,
    )  # fmt: skip
    square = there["quadratic"] and data.design.shape[0] * p <= _SMALL
    return density, operands_of(model, data, rate_map, dtype, square, keep_rows)


def _is_normal(model: Model) -> bool:
    """True if noised scores are normal, so that their two moments say all."""
    return not any(np.any(part) for part in model.noise.expansion(np.full(1, 0.5))[:3])


def operands_of(
    model: Model, data: Dataset, rate_map: RateMap, dtype: str, square: bool | None = None, keep_rows: bool = True
) -> DensityOperands:
    """Data and priors in a precision; the square of a dense matrix is kept if asked for, by default if it is small.

    Without ``keep_rows``, and where rows are streamed, matrix, targets and weights are empty.
    """
    prior = rate_map.prior.law(data.occurrences(rate_map.index, rate_map.size))
    real, p = partial(placed, dtype=dtype), len(data.feature_names)
    if square is None:
        square = data.design.shape[0] * p <= _SMALL
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
    """Centre (D,) and factor, (D, D) or (D,), of the coordinates: weights, intercept, a learnt parameter and probits of
    the free rates.

    Weights are counted from their prior means. ``averaged`` takes the curvature of a smooth loss averaged over the
    posterior, as far as that costs little; ``dense`` a matrix, else standard deviations.
    """
    if model.loss.multiclass:
        return class_approximation(model, data, rate_map, dense)
    if not rate_map.is_free:
        averaged &= len(data.feature_names) < _AVERAGED
        return _from_location(
            model,
            *with_parameter(
                model, data, rate_map.initial,
                lambda known: normal_approximation(known, data, rate_map.initial, averaged, dense),
            ),
        )  # fmt: skip
    from scipy.stats import norm

    prior = rate_map.prior.law(data.occurrences(rate_map.index, rate_map.size))
    typical = np.clip(prior.quantile(0.5), 0.02, 0.98)
    rates = rate_map.expand(typical)
    mean, factor = _from_location(
        model,
        *with_parameter(model, data, rates, lambda known: normal_approximation(known, data, rates, dense=dense)),
    )
    low, high = (norm.ppf(np.clip(prior.quantile(q), 1e-6, 1 - 1e-6)) for q in (0.16, 0.84))
    spread = np.maximum((high - low) / 2, 1e-3)
    centre = np.concatenate([mean, norm.ppf(typical)])
    if factor.ndim == 1 or len(centre) > 2000:
        diagonal = factor if factor.ndim == 1 else np.sqrt(np.sum(factor**2, axis=1))
        return centre, np.concatenate([diagonal, spread])
    from scipy.linalg import block_diag

    return centre, block_diag(factor, np.diag(spread))


def _from_location(
    model: Model, centre: Float[np.ndarray, " D"], factor: Factor
) -> tuple[Float[np.ndarray, " D"], Factor]:
    """Centre and factor of weights and intercept, the weights counted from their prior means."""
    p = len(centre) - model.fit_intercept
    location = model.weight_prior.location(p)
    return (centre if location is None else centre - np.pad(location, (0, len(centre) - p))), factor
