"""Hamiltonian Monte Carlo around the point fit: the sampler that a user chooses."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np

from .._validation import check_choice, check_count, check_flag, check_instance, check_number
from ..data.dataset import Dataset
from ..model import Model
from ..rates import RateMap
from ..sampling.matrix import placed
from .approximations.choices import Limits, case_of, choose
from .approximations.mixture_scales import CoordinateDensity
from .approximations.normal import score_spread
from .binding import ROUNDED, Bound, bind_density, bind_start
from .kernels.factors import StructuredFactor
from .kernels.kernel import HMCKernel, HMCOperands
from .kernels.trajectory import HMCOptions
from .score_space import ScoreHMCKernel, ScoreOperands, score_operands
from .streamed import ClassCosts, StreamedKernel, StreamedOperands, StreamedRows, one_pass

__all__ = ["HMC"]

# Rows per coordinate above which a pilot run cannot distinguish the posterior from a normal distribution.
_MANY_ROWS = 50


@dataclass(frozen=True)
class HMC(HMCOptions):
    """Split Hamiltonian Monte Carlo around a normal approximation at the point fit.

    The normal approximation, and with it the kernel, is the first feasible row of the table in
    :mod:`bayesdrop.hmc.approximations.choices`; the attribute ``normal_approximation`` of the posterior names it.
    Learnt scales of the weights, of any number of groups and random terms, are handled by a map that decouples up to
    1,500 weights from them (:mod:`bayesdrop.hmc.approximations.joint_scale_map`).

    Exact without masks: with no noise, noise that has no masks, or ``target="marginalised"``. With masks it is a fast
    approximation, which integrates them as if scores were normal. The error of the log-likelihood is measured at the
    draws and further out (:mod:`bayesdrop.posterior.scores.approximation_error`). With a standard deviation up to 0.1
    nat and a Pareto k up to 0.5 no probability is wrong by more than about 0.04. If the error is larger,
    :func:`bayesdrop.reweight` corrects the draws, unless ``correct`` is False, provided that the rows are in memory and
    draws times entries of the features are at most 10⁷; otherwise there is an ``ApproximationWarning``. The attribute
    ``approximation`` or ``reweighted`` of the posterior says which, and :func:`bayesdrop.diagnose` reports it.
    ``bd.Gibbs()`` is exact.

    Rows outside memory (``bd.Blocks``, Dask) are read once for each leapfrog step of all chains, in double precision
    whatever the ``dtype`` (:mod:`bayesdrop.hmc.streamed`).

    Parameters
    ----------
    n_leapfrog_steps : int, optional
        Gradients per draw, at least 1; by default the smallest number that reaches ``target_accept`` during warm-up.
        Use more if :func:`bayesdrop.diagnose` reports a low acceptance rate.
    target_accept : float, default=0.8
        Acceptance probability for which the number of steps is chosen, in (0, 1).
    turn : float, default=2.0
        Angle of a trajectory about the centre, in radians, above 0. After a quarter turn, π/2, a draw is nearly
        independent of the one before; larger angles make means converge faster.
    dtype : str, default="float32"
        ``"float32"`` (default) or ``"float64"``. Energy differences are summed row by row, so that single precision is
        enough up to a million rows; strongly correlated features or a large ``C`` need double.
    correct : bool, default=True
        Correct the draws of a model with masks by resampling if there are few rows (default). If False they are not
        changed, and the error is reported.
    limits : Limits, optional
        Sizes that choose between normal approximations.

    See Also
    --------
    Gibbs, NUTS, reweight

    References
    ----------
    - Shahbaba, Lan, Johnson & Neal (2014), Split Hamiltonian Monte Carlo, Statistics and Computing 24.
    - Wang & Manning (2013), Fast dropout training, ICML.

    Examples
    --------
    >>> HMC(dtype="float64")
    HMC(n_leapfrog_steps=None, target_accept=0.8, turn=2.0, dtype='float64', correct=True)
    """

    dtype: str = "float32"
    correct: bool = True
    limits: Limits = field(default=Limits(), repr=False)
    takes_offset: ClassVar[bool] = True
    takes_correlation: ClassVar[bool] = True
    integrates_masks: ClassVar[bool] = True
    warm_up: ClassVar[int] = 500

    def __post_init__(self) -> None:
        if self.n_leapfrog_steps is not None:
            check_count(self.n_leapfrog_steps, "n_leapfrog_steps", none="to choose it")
        check_number(self.target_accept, "target_accept", above=0, below=1, advice="0.8 is usual")
        check_number(self.turn, "turn", above=0)
        check_choice(self.dtype, "dtype", ("float32", "float64"))
        check_flag(self.correct, "correct")
        check_instance(self.limits, "limits", Limits, "bayesdrop.hmc.approximations.choices.Limits(...)")

    def bind(
        self, model: Model, data: Dataset, rate_map: RateMap, tune: int, marginalised: bool = False
    ) -> tuple[HMCKernel | StreamedKernel, HMCOperands | ScoreOperands | StreamedOperands]:
        """Build the kernel and its operands; call it under the precision of ``dtype``.

        Raises
        ------
        ValueError
            If more than ``limits.dense`` weights have a learnt scale, or as in :func:`.binding.bind_density`.
        """
        case = case_of(model, data, rate_map, marginalised)
        choice = choose(case, self.limits).name
        if case.has_many_scaled(self.limits):
            raise ValueError(
                f"method: bd.{type(self).__name__} learns the scale of at most {self.limits.dense:,} weights and "
                f"intercepts, got {case.coordinates:,}; bd.Gibbs() draws it in closed form, bd.NUTS() takes every "
                "loss, or give a number, as in bd.Normal(1.0)."
            )
        if choice == "scores":
            single: Any
            single, inputs = bind_density(type(self).__name__, model, data, rate_map, marginalised, self.dtype)
            return ScoreHMCKernel(single, float("inf"), self, choice), score_operands(
                model, data, rate_map, single, inputs, int(tune), self.dtype, ROUNDED
            )
        passes = choice == "directions"
        bound = bind_start(
            type(self).__name__, model, data, rate_map, marginalised, self.dtype, choice, keep_rows=not passes
        )
        kernel, chains = self._kernel(bound, data, rate_map, tune, choice)
        return _by_passes(kernel, chains, model, data) if passes else (kernel, chains)

    def bind_streamed(
        self, model: Model, data: Dataset, rate_map: RateMap, tune: int, marginalised: bool = False
    ) -> tuple[StreamedKernel, StreamedOperands]:
        """Build the kernel of rows that are streamed, and its operands; see :mod:`bayesdrop.hmc.streamed`.

        Raises
        ------
        ValueError
            If there are masks of many classes, or weights that are not normal, or as in :func:`.binding.bind_density`.
        """
        name, prior, loss = type(self).__name__, model.weight_prior, model.loss
        learnt = prior.learnt_scale(len(data.feature_names)) is not None
        cases: list[tuple[bool, str, Any, str]] = [
            (
                loss.multiclass and not marginalised,
                "many classes without masks",
                model.noise,
                'average them inside the loss, target="marginalised", at fixed rates',
            ),
            (
                not (learnt or prior.gaussian) or getattr(prior, "non_centred", False),
                "normal weights",
                prior,
                "take bd.Normal(1.0) or bd.Normal(bd.HalfNormal(1.0))",
            ),
        ]
        for is_refused, condition, component, advice in cases:
            if is_refused:
                raise ValueError(
                    f"method: bd.{name} of rows that are not in memory takes {condition}, got {component!r}; {advice}, "
                    "or pass an array or a scipy sparse matrix: all rows if they fit in memory, or a random sample of "
                    "them."
                )
        choice = choose(case_of(model, data, rate_map, marginalised), self.limits).name
        bound = bind_start(name, model, data, rate_map, marginalised, self.dtype, choice, rounded=False)
        kernel, operands = self._kernel(bound, data, rate_map, tune, choice)
        factor: Any = bound.spread  # not by rows, which are not in memory
        width = ROUNDED * score_spread(data, factor) if bound.piecewise_linear else None
        # Every pass reads these: if they are made lazily from labels, make them once.
        target, weight = data.design.persist(data.target, model.C * data.weight)
        costs = ClassCosts if loss.multiclass else None
        rows = StreamedRows(data.design, target, weight, model.C, width, costs=costs)
        return StreamedKernel(kernel), StreamedOperands(operands, rows)

    def _kernel(
        self, bound: Bound, data: Dataset, rate_map: RateMap, tune: int, choice: str
    ) -> tuple[HMCKernel, HMCOperands]:
        """Kernel and operands around an approximation."""
        density, centre, factor = bound.base, bound.centre, bound.factor
        # With free rates the approximation was made at guessed rates, and pilots correct it. Without, a pilot corrects
        # for skewness if rows per coordinate are few; if they are many, the curvature is more accurate. For a
        # piecewise-linear loss the approximation is centred on the mean already, for a normal posterior it is exact.
        exact = density.is_normal and choice not in ("directions", "diagonal")
        is_centred = bound.piecewise_linear or exact or data.design.shape[0] > _MANY_ROWS * len(centre)
        # A curvature that all classes share is exact for none of them: a pilot is more accurate.
        is_centred &= choice != "eigenvectors"
        learnt = isinstance(bound.density, CoordinateDensity)
        trust = 0.1 if rate_map.is_free else 1.0 if learnt else float("inf") if is_centred else 10.0
        real = partial(placed, dtype=self.dtype)
        return HMCKernel(bound.density, trust, self, choice), HMCOperands(
            density=bound.operands,
            centre=real(centre),
            factor=factor if isinstance(factor, StructuredFactor) else real(factor),
            tune=placed(tune, np.int32),
        )


def _by_passes(
    kernel: HMCKernel, operands: HMCOperands, model: Model, data: Dataset
) -> tuple[StreamedKernel, StreamedOperands]:
    """The kernel that sums over rows in memory pass by pass.

    Compiled products of a large sparse matrix take a fifth of the time of the gathers that a compiled trajectory would
    make of them.
    """
    density: Any = kernel.density
    inputs = operands.density
    width = None if inputs.width is None else np.asarray(inputs.width, float)
    rows = StreamedRows(data.design, data.target, model.C * data.weight, model.C, width, data.offset)
    inside = operands._replace(density=inputs._replace(width=None, offset=None))
    cost = one_pass(density, rows, density.loadings(inside.density, inside.centre[None])).cost
    return StreamedKernel(kernel), StreamedOperands(inside, rows._replace(base_cost=float(cost[0])))
