"""Hamiltonian Monte Carlo around the point fit: the sampler that a user chooses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..._typing import Float
from ..._validation import check_choice, check_count
from ...data.dataset import Dataset
from ...losses.protocols import Curved, Scored, Sloped, Thresholded, require
from ...model import Model
from ...priors import Normal
from ...rates import RateMap
from ..matrix import Matrix, samplers_matrix
from .class_density import ClassDensity, class_approximation
from .density import Density, DensityOperands
from .kernel import HMCKernel, HMCOperands
from .learnt_scale import ScaleDensity, best_scales, with_scales
from .mask_sums import MaskSums
from .noisy_approximation import noisy_approximation
from .normal_approximation import Factor, normal_approximation, score_spread
from .rate_slices import has_rates
from .row_factor import RowFactor, by_rows, row_factor
from .row_padding import padded_rows
from .score_space import ScoreHMCKernel, ScoreOperands, moves_scores, score_operands
from .streamed_density import StreamedRows
from .streamed_kernel import StreamedKernel, StreamedOperands
from .summed_kernel import SummedKernel, SummedOperands

__all__ = ["HMC", "Bound", "bind_density", "bind_start", "operands_of"]

# Entries up to which a dense matrix's square is kept.
_SMALL = 1 << 24
# Half-width over which kinks are rounded, in posterior standard deviations of the score. Wider, and the force is that
# of another posterior; narrower, and it jumps. 0.3 to 0.7 took the same number of kicks.
_ROUNDED = 0.5
# Features below which the curvature is averaged where the scale of the weights is learnt.
_AVERAGED = 300
# Acceptance that trajectories aim at whose ends are judged once more.
_ACCEPT_SUMMED = 0.9
# Rows a coordinate from which on the posterior is as normal as a pilot could tell.
_MANY_ROWS = 50


@dataclass(frozen=True)
class HMC:
    """Split Hamiltonian Monte Carlo around the point fit; see :mod:`bayesdrop.mcmc.hmc.kernel`.

    From 1,500 features on, and up to 6,000 rows and 1.4 times as many as features, the normal approximation is found
    and applied by rows (:mod:`bayesdrop.mcmc.hmc.row_factor`), and without noise it is the scores that move
    (:mod:`bayesdrop.mcmc.hmc.score_space`). Learnt scales of the weights, many classes, and rows beyond that take a
    diagonal one there, which mixes slowly where features are correlated.

    Exact where there are no masks: no noise, noise without masks, or ``target="marginalised"``. With masks it is the
    fast approximation: they are integrated as if scores were normal. The posterior says so in its attribute
    ``approximation`` and states the error: a row's, and that of the whole log-likelihood over the draws, which is what
    tells one posterior from another; above one nat there is an ``ApproximationWarning``. :func:`bayesdrop.reweight`
    corrects the draws, ``bd.Gibbs()`` is exact, and so is ``masks="summed"``
    (:mod:`bayesdrop.mcmc.hmc.summed_kernel`): a draw of that density is then a proposal, accepted by the likelihood of
    each row with all its masks summed, which costs about a quarter of a draw more on thousands of words.

    Rows that are read when needed or lie on a cluster (``bd.Blocks``, Dask) are gone through once for each kick of all
    chains, in double precision whatever ``dtype`` says (:mod:`bayesdrop.mcmc.hmc.streamed_kernel`). Their approximation
    is dense below 1,500 features and diagonal from there on.

    Parameters
    ----------
    kicks : int, optional
        Gradients a draw, at least 1; by default chosen during warm-up, as few as accept four proposals in five.
    dtype : str
        ``"float32"`` (default) or ``"float64"``. Energy differences are summed row by row, so that single precision
        holds to a million rows; strongly correlated features or a large ``C`` ask for double.
    masks : str
        What becomes of masks: ``"normal"`` (default) integrates them as if scores were normal, ``"summed"`` sums them,
        for ``bd.Logistic()`` and normal weights of known scales. The sums take a tenth of the time with Numba (the
        extra ``fast``). A model without masks has nothing to sum.

    Examples
    --------
    >>> HMC(dtype="float64")
    HMC(kicks=None, dtype='float64', masks='normal')
    """

    kicks: int | None = None
    dtype: str = "float32"
    masks: str = "normal"
    takes_offset: ClassVar[bool] = True
    warm_up: ClassVar[int] = 500

    def __post_init__(self) -> None:
        if self.kicks is not None:
            check_count(self.kicks, "kicks", none="to choose it")
        check_choice(self.dtype, "dtype", ("float32", "float64"))
        check_choice(self.masks, "masks", ("normal", "summed"))

    @property
    def integrates_masks(self) -> bool:
        """True unless the masks of a model are summed."""
        return self.masks == "normal"

    def bind(
        self, model: Model, data: Dataset, rate_map: RateMap, tune: int, marginalised: bool = False
    ) -> tuple[HMCKernel | ScoreHMCKernel | SummedKernel, HMCOperands | ScoreOperands | SummedOperands]:
        """Build the kernel and its operands; call it under the precision of ``dtype``.

        Raises
        ------
        ValueError
            If masks are to be summed of a loss or of weights that have no sum, or as :func:`bind_density` has it.
        """
        if moves_scores(model, data, rate_map):
            single: Any
            single, known = bind_density(type(self).__name__, model, data, rate_map, marginalised, self.dtype)
            return ScoreHMCKernel(single), score_operands(
                model, data, single, known, int(self.kicks or 0), int(tune), self.dtype, _ROUNDED
            )
        summed = self.masks == "summed" and not marginalised
        if summed:
            _check_sums(model, data)
        bound = bind_start(type(self).__name__, model, data, rate_map, marginalised, self.dtype, padded=not summed)
        kernel, chains = self._kernel(bound, data, rate_map, tune)
        if not summed:
            return kernel, chains
        rows = MaskSums(_compressed(data), model.loss.plain, data.target, model.C * data.weight)
        return SummedKernel(replace(kernel, aim=_ACCEPT_SUMMED)), SummedOperands(chains, rows)

    def bind_streamed(
        self, model: Model, data: Dataset, rate_map: RateMap, tune: int, marginalised: bool = False
    ) -> tuple[StreamedKernel, StreamedOperands]:
        """Build the kernel of rows that are streamed, and its operands; see :mod:`.streamed_kernel`.

        Raises
        ------
        ValueError
            If the loss is of many classes, or as :func:`bind_density` has it.
        """
        name, prior, loss = type(self).__name__, model.weight_prior, model.loss
        learnt = prior.learnt_scale(len(data.feature_names)) is not None
        cases: list[tuple[bool, str, Any, str]] = [
            (loss.multiclass, "losses of one score", loss, "sample one class against the rest"),
            (loss.variance_prior is not None, "known variances", loss, "leave out variance_prior and set C"),
            (
                not (learnt or prior.gaussian),
                "normal weights",
                prior,
                "take bd.Normal(1.0) or bd.Normal(bd.HalfNormal(1.0))",
            ),
            (self.masks == "summed" and not marginalised, 'masks="normal"', self, "leave masks out"),
        ]
        for refused, taken, came, advice in cases:
            if refused:
                raise ValueError(
                    f"method: bd.{name} of rows that are not in memory takes {taken}, got {came!r}; {advice}, or pass "
                    "an array or a scipy sparse matrix: all rows if they fit in memory, or a random sample of them."
                )
        bound = bind_start(name, model, data, rate_map, marginalised, self.dtype, rounded=False)
        kernel, operands = self._kernel(bound, data, rate_map, tune)
        factor: Any = bound.spread  # not by rows, which are not in memory
        width = _ROUNDED * score_spread(data, factor) if bound.kinked else None
        # Every pass asks for these: where they are made from labels when asked for, they are made once.
        target, weight = data.design.persist(data.target, model.C * data.weight)
        rows = StreamedRows(data.design, target, weight, width)
        return StreamedKernel(kernel), StreamedOperands(operands, rows)

    def _kernel(self, bound: Bound, data: Dataset, rate_map: RateMap, tune: int) -> tuple[HMCKernel, HMCOperands]:
        """Kernel and operands around an approximation."""
        density, centre, factor = bound.given, bound.centre, bound.factor
        # The approximation was made at guessed rates, if they are free. Without them a pilot takes out what skewness
        # does to the posterior of few rows a coordinate; of many it knows less than the curvature, the approximation
        # of a kinked loss is centred on the mean already, and that of a normal posterior is the posterior.
        exact = density.is_normal and (isinstance(factor, RowFactor) or factor.ndim == 2)
        known = bound.kinked or exact or data.design.shape[0] > _MANY_ROWS * len(centre)
        learnt = isinstance(bound.density, ScaleDensity)
        trust = 0.1 if rate_map.is_free else 1.0 if learnt else float("inf") if known else 10.0
        real = partial(jnp.asarray, dtype=self.dtype)
        slices = isinstance(factor, RowFactor) and isinstance(density, Density) and has_rates(density)
        return HMCKernel(density=bound.density, trust=trust, slices=slices), HMCOperands(
            density=bound.operands,
            centre=real(centre),
            factor=factor if isinstance(factor, RowFactor) else real(factor),
            kicks=jnp.int32(self.kicks or 0),
            tune=jnp.int32(tune),
        )


def _check_sums(model: Model, data: Dataset) -> None:
    """Raise ValueError unless the masks of each row can be summed."""
    loss, prior = model.loss, model.weight_prior
    if data.offset is not None:
        raise ValueError("offset: scores whose masks are summed have none; leave it out, or take bd.Gibbs().")
    if isinstance(loss.plain, Thresholded) and prior.gaussian and not loss.multiclass:
        return
    raise ValueError(
        'masks: "summed" takes bd.Logistic() and normal weights of known scales, got '
        f'{loss!r} and {prior!r}; bd.Gibbs() draws the masks of all models, and masks="normal" with bd.reweight comes '
        "near."
    )


def _compressed(data: Dataset) -> Any:
    """The rows as a compressed matrix, in memory."""
    from scipy.sparse import csr_array

    rows = csr_array(data.X, dtype=np.float64, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return rows


class Bound(NamedTuple):
    """A density, where it lies, and how wide it is.

    Attributes
    ----------
    density, operands
        What is sampled, with the scales of the weights as coordinates where they are learnt.
    given : Density or ClassDensity
        The density at known scales.
    centre, factor : array
        Mean (E,) and factor, (E, E), (E,) or by rows, of an approximation of the coordinates.
    kinked : bool
        The loss has kinks that no noise rounds.
    spread : array
        Factor at known scales, of the coordinates that scores are made of.
    """

    density: Any
    operands: Any
    given: Any
    centre: Float[np.ndarray, " E"]
    factor: Factor | RowFactor
    kinked: bool
    spread: Factor | RowFactor


def bind_start(
    name: str,
    model: Model,
    data: Dataset,
    rate_map: RateMap,
    marginalised: bool,
    dtype: str,
    rounded: bool = True,
    padded: bool = True,
) -> Bound:
    """Density, operands and normal approximation of a model.

    ``rounded`` rounds the kinks of forces, ``padded`` lets data of nearly as many rows share compiled programs.
    """
    learnt = model.weight_prior.learnt_scale(len(data.feature_names))
    contrasts = len(data.classes) - 1 if model.loss.multiclass else 1  # type: ignore[arg-type]  # labels
    log_scale = np.zeros(0)
    if learnt is not None:
        # Refusals come before fits.
        bind_density(name, _at_median(model, data), data, rate_map, marginalised, dtype)
        # An averaged curvature takes many more passes over rows that are streamed.
        averaged = not data.design.is_streamed
        model, log_scale = best_scales(
            model, learnt, contrasts, lambda known: start_of(known, data, rate_map, averaged)
        )
    density, operands = bind_density(name, model, data, rate_map, marginalised, dtype)
    if learnt is None and isinstance(density, Density) and start_is_by_rows(model, data, density):
        centre, by_row = start_by_rows(model, data, rate_map, density, operands, dtype)
        return Bound(density, operands, density, centre, by_row, False, by_row)
    centre, factor = start_of(model, data, rate_map, learnt is not None and not data.design.is_streamed)
    kinked = density.loss.kinked and not density.has_variance
    if kinked and rounded:
        width = _ROUNDED * score_spread(data, factor)
        operands = operands._replace(width=jnp.asarray(width, dtype=dtype))
    operands = padded_rows(operands) if padded else operands
    if learnt is None:
        return Bound(density, operands, density, centre, factor, kinked, factor)
    wrapped = with_scales(density, operands, centre, factor, learnt, log_scale, contrasts, dtype)
    return Bound(wrapped[0], wrapped[1], density, wrapped[2], wrapped[3], kinked, factor)


def start_is_by_rows(model: Model, data: Dataset, density: Density) -> bool:
    """True if centre and factor are found and applied by rows."""
    integrated = density.integrated or not density.has_variance
    known = isinstance(model.loss.plain if integrated else model.loss, Scored if integrated else Curved)
    return known and not density.shift and by_rows(model, data)


def start_by_rows(
    model: Model, data: Dataset, rate_map: RateMap, density: Density, operands: DensityOperands, dtype: str
) -> tuple[Float[np.ndarray, " D"], RowFactor]:
    """Centre (D,) and a factor of weights, intercept and probits of the free rates, all correlated."""
    found = noisy_approximation(model, data, rate_map, density.integrated or not density.has_variance)
    factor = row_factor(
        data, operands.matrix, found.precision, found.gain, found.curvature, found.roots, model.fit_intercept, dtype,
        found.rates,
    )  # fmt: skip
    return found.centre, factor


def _at_median(model: Model, data: Dataset) -> Model:
    """The model with its learnt scales at their medians."""
    return replace(model, weight_prior=Normal(model.weight_prior.first_precision(len(data.feature_names)) ** -0.5))


def bind_density(
    name: str, model: Model, data: Dataset, rate_map: RateMap, marginalised: bool, dtype: str
) -> tuple[Density | ClassDensity, DensityOperands]:
    """Density and operands of a model; ``name`` is the sampler's, for errors.

    Raises
    ------
    ValueError
        If the weight prior is a scale mixture or the noise variance unknown, or masks of many classes would have to be
        integrated.
    """
    if not model.weight_prior.gaussian or model.loss.variance_prior is not None:
        raise ValueError(
            f"method: {name} takes normal weight priors (of known or learnt scales) and known variances, got "
            f"{model.weight_prior!r} and {model.loss!r}; bd.Gibbs() draws the scales of the others in closed form."
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
        if model.loss.class_rates and (there["quadratic"] or there["linear"] or there["constant"]):
            raise ValueError(
                f"method: {name} draws weights that sum to zero over the classes, and under {model.loss!r} they do "
                'not; take target="noising", whose masks bd.Gibbs() draws, or leave class_rates out.'
            )
        classes = ClassDensity(model.loss, model.noise, len(data.classes), model.fit_intercept, **there)  # type: ignore[arg-type]
        return classes, operands_of(model, data, rate_map, dtype)
    noisy = there["quadratic"] or there["linear"] or there["constant"]
    ability = Sloped if not noisy else Curved if marginalised else Scored
    require(model.loss, ability, f"bd.{name}", "write what lacks, or use bd.fit")
    if marginalised and noisy and model.loss.exponential and not _is_normal(model):
        raise ValueError(
            f"expectation: bd.{name} draws from exp(−U) by the two moments of a score, which for {model.loss!r} and "
            f'{model.noise!r} do not say enough; take expectation="gaussian", or target="noising" for dropout.'
        )
    density = Density(
        loss=model.loss if marginalised and noisy else model.loss.plain,
        noise=model.noise,
        fit_intercept=model.fit_intercept,
        free=rate_map.size,
        integrated=not marginalised,
        rate_dim=rate_map.dim,
        **there,
    )  # fmt: skip
    square = there["quadratic"] and data.design.shape[0] * p <= _SMALL
    return density, operands_of(model, data, rate_map, dtype, square)


def _is_normal(model: Model) -> bool:
    """True if noised scores are normal, so that their two moments say all."""
    return not any(np.any(part) for part in model.noise.expansion(np.full(1, 0.5))[:3])


def operands_of(
    model: Model, data: Dataset, rate_map: RateMap, dtype: str, square: bool | None = None
) -> DensityOperands:
    """Data and priors in a precision; the square of a dense matrix is kept if asked for, by default if it is small.

    Rows that are streamed stay where they are: matrix, targets and weights are empty then.
    """
    prior = rate_map.prior.law(data.occurrences(rate_map.index, rate_map.size))
    real, p = partial(jnp.asarray, dtype=dtype), len(data.feature_names)
    if square is None:
        square = data.design.shape[0] * p <= _SMALL
    streamed = data.design.is_streamed
    return DensityOperands(
        matrix=Matrix(None, None, None, None) if streamed else samplers_matrix(data.design, dtype, square),
        target=real(np.zeros(0) if streamed else data.target),
        row_weight=real(np.zeros(0) if streamed else model.C * data.weight),
        precision=real(model.weight_prior.precision(p)),
        fixed_rate=real(rate_map.initial),
        index=jnp.asarray(rate_map.index, dtype=jnp.int32),
        rate_prior=jax.tree.map(real, prior),
        offset=None if data.offset is None else real(data.offset),
    )


def start_of(
    model: Model, data: Dataset, rate_map: RateMap, averaged: bool = False
) -> tuple[Float[np.ndarray, " D"], Factor]:
    """Centre (D,) and factor, (D, D) or (D,), of weights, intercept and probits of the free rates.

    ``averaged`` takes the curvature of a smooth loss averaged over the posterior, as far as that costs little.
    """
    if model.loss.multiclass:
        return class_approximation(model, data, rate_map)
    if not rate_map.is_free:
        averaged &= len(data.feature_names) < _AVERAGED
        return normal_approximation(model, data, rate_map.initial, averaged)
    from scipy.stats import norm

    prior = rate_map.prior.law(data.occurrences(rate_map.index, rate_map.size))
    typical = np.clip(prior.quantile(0.5), 0.02, 0.98)
    mean, factor = normal_approximation(model, data, typical[rate_map.index])
    low, high = (norm.ppf(np.clip(prior.quantile(q), 1e-6, 1 - 1e-6)) for q in (0.16, 0.84))
    spread = np.maximum((high - low) / 2, 1e-3)
    centre = np.concatenate([mean, norm.ppf(typical)])
    if factor.ndim == 1 or len(centre) > 2000:
        diagonal = factor if factor.ndim == 1 else np.sqrt(np.sum(factor**2, axis=1))
        return centre, np.concatenate([diagonal, spread])
    from scipy.linalg import block_diag

    return centre, block_diag(factor, np.diag(spread))
