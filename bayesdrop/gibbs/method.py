"""The Gibbs method that a user chooses: it builds the kernel and operands for a model and data.

The weight of a row is a power of its likelihood. A row with a whole number as weight is therefore that number of
copies, each with masks of its own:

    [Σ_α p(α | η) exp{−C loss(y, s(α))}]^s  =  Σ_{α¹…αˢ} Π_k p(αᵏ | η) exp{−C loss(y, s(αᵏ))}

A power that is not a whole number has no such form, unless no entry of the row may be dropped: then there is no sum,
and the weight multiplies the loss.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import jax
import numpy as np
from scipy.special import logit

from .._memory import check_memory
from .._typing import Float
from .._validation import check_choice, check_count, check_instance
from ..data.dataset import Dataset
from ..losses import Logistic
from ..losses.protocols import Augmented, require
from ..model import Model
from ..priors.base import selecting
from ..rates import RateMap
from ..sampling.matrix import placed
from .choices import Case, Limits, choose
from .inclusion_binding import bind_inclusion, check_indicators, with_slab
from .marginalised import bind_marginal, bound_priors
from .moves.class_kernel import ClassGibbsKernel
from .moves.columns import dense_columns, sparse_columns
from .moves.indicators import IndicatorKernel, indicator_operands
from .moves.interweaving import group_blocks
from .moves.kernel import GibbsKernel
from .moves.state import Operands, hierarchy_operands
from .weights import DRAWS

__all__ = ["Gibbs", "first_broken_weight", "with_copies"]

# Warm-up is tempered if the variance of the noise is less than this share of the response's.
_TEMPERED = 0.2


@dataclass(frozen=True)
class Gibbs:
    """Partially collapsed Gibbs sampler of the feature-noising model; exact, without step sizes to choose.

    Models of many classes, ``bd.Softmax()``, use the kernel :mod:`bayesdrop.gibbs.moves.class_kernel`, which makes no
    joint moves.

    Under the prior ``bd.SpikeSlab`` it draws which features the model, or the model of each class, includes:
    :mod:`bayesdrop.gibbs.inclusion`, and with dropped entries :mod:`bayesdrop.gibbs.moves.indicators`; no joint moves.

    With ``target="marginalised"`` it is the Gibbs sampler of the pseudo-posterior ``exp(−U)``, without masks: see
    :mod:`bayesdrop.gibbs.marginalised`.

    Parameters
    ----------
    sweeps_per_draw : int, default=1
        Sweeps per recorded draw. Draws cost memory and disk, sweeps only time. One is usually enough: on the data sets
        of scikit-learn the default draws have R-hat of at most 1.01 and effective sample sizes of several hundred.
    joint_moves : int, default=2
        Trajectories that move weights, rates and masks jointly in each sweep, after the coordinate moves; 0 for none.
    dtype : str, default="float32"
        ``"float32"`` (default) or ``"float64"``. Single precision is faster and agrees with double in every test of the
        package; with a large ``C``, or strongly correlated features under a wide prior, a Cholesky factorisation may
        fail, or rounding errors of conjugate gradients exceed 0.1 posterior standard deviations. ``sample`` reports
        either as an error that names the remedy.
    weights : str, default="auto"
        How the weights are drawn from their Gaussian conditional: ``"cholesky"`` factors a matrix of order p,
        ``"woodbury"`` one of order n (Bhattacharya, Chakraborty & Mallick 2016), ``"conjugate_gradient"`` factors none
        (Nishimura & Suchard 2022) and solves to 0.01 posterior standard deviations in single and 0.0001 in double
        precision. ``"auto"`` takes the first that is feasible (:mod:`bayesdrop.gibbs.choices`), conjugate gradients for
        sparse features; the attribute ``weights_drawn_by`` of a posterior names it.
    limits : Limits, optional
        Sizes that decide between these draws, and settings of the moves under ``bd.SpikeSlab``.

    See Also
    --------
    HMC, NUTS, sample

    References
    ----------
    - van Dyk & Park (2008), Partially collapsed Gibbs samplers, JASA 103.
    - Yu & Meng (2011), To center or not to center, JCGS 20.
    - Polson, Scott & Windle (2013), Bayesian inference for logistic models using Pólya-Gamma latent variables, JASA
      108.

    Examples
    --------
    >>> Gibbs(dtype="float64")
    Gibbs(sweeps_per_draw=1, joint_moves=2, dtype='float64', weights='auto')
    """

    sweeps_per_draw: int = 1
    joint_moves: int = 2
    dtype: str = "float32"
    weights: str = "auto"
    limits: Limits = field(default=Limits(), repr=False)
    integrates_masks: ClassVar[bool] = False
    takes_offset: ClassVar[bool] = True
    warm_up: ClassVar[int] = 300

    def __post_init__(self) -> None:
        for name, minimum in (("sweeps_per_draw", 1), ("joint_moves", 0)):
            check_count(getattr(self, name), name, minimum)
        check_choice(self.dtype, "dtype", ("float32", "float64"))
        check_choice(self.weights, "weights", ("auto", *DRAWS))
        check_instance(self.limits, "limits", Limits, "bayesdrop.gibbs.choices.Limits(...)")

    def bind(
        self, model: Model, data: Dataset, rate_map: RateMap, tune: int, marginalised: bool = False
    ) -> tuple[Any, Any]:
        """Build the kernel and its operands; call it with JAX in the precision of ``dtype``.

        Raises
        ------
        ValueError
            If the noise has no masks to sample, ``weights`` needs a dense matrix, or parts of the model do not combine.
        """
        if not model.noise.has_rate and not marginalised:
            raise ValueError(
                f"noise: {type(self).__name__} samples dropout masks, and {model.noise!r} has none; "
                'use bd.Dropout(), or target="marginalised".'
            )
        advice = (
            "take method=bd.HMC(), which needs no auxiliary variables: it is exact without masks or with "
            'target="marginalised"; with masks it integrates them as if scores were normal, states the error, and '
            "bd.reweight corrects it. Counts: bd.NegativeBinomial(dispersion) has them, and is near bd.Poisson() for "
            "a large dispersion"
        )
        many, selected = model.loss.multiclass, selecting(model.weight_prior)
        selects = selected is not None
        if selects and self.weights != "auto":
            raise ValueError(
                'weights: under bd.SpikeSlab they are drawn together with the indicators; take "auto", got '
                f'"{self.weights}".'
            )
        if selects and many and not marginalised:
            raise ValueError(
                f"weight_prior: with dropped entries bd.SpikeSlab takes a loss with one score per row, got "
                f"{model.loss!r}: all classes share the masks of a feature, whose steps would sum them out given the "
                "weights of one class; take rates=bd.Fixed(0.0), or sample each class against the others, as "
                "bd.Logistic()."
            )
        if many and marginalised and not selects:
            if model.weight_prior.gaussian or model.weight_prior.learnt_scale(data.design.shape[1]) is not None:
                raise ValueError(
                    f"method: without masks {model.loss!r} is sampled by method=bd.HMC(), which follows its gradient; "
                    f"{type(self).__name__} has one class against the rest at a time and is slower."
                )
            if not model.noise.has_rate or np.any(rate_map.initial > 0):
                raise ValueError(
                    f"weight_prior: under {model.loss!r} {type(self).__name__} draws the scales of "
                    f'{model.weight_prior!r} where dropped entries are part of the model; take target="noising", '
                    "rates=bd.Fixed(0.0) or bd.Normal(...)."
                )
            marginalised = False  # masks that drop nothing
        # The augmentation of a softmax is that of the logistic loss of each class against the rest.
        row_loss = Logistic() if many else model.loss
        loss = require(row_loss, Augmented, f"bd.{type(self).__name__}", advice)
        n, p = data.design.shape
        model.weight_prior.check(p)
        dense = not data.design.is_sparse
        if not dense and self.weights not in ("auto", "conjugate_gradient"):
            raise ValueError(
                f'weights: "{self.weights}" factors a matrix without zeros, and the features are sparse; use "auto" or '
                '"conjugate_gradient", or X.toarray() if the features fit into memory.'
            )
        if selects and marginalised:
            name = choose(Case(n, p, dense, selects), self.limits).name
            sweeps = int(self.sweeps_per_draw)
            return bind_inclusion(model, loss, data, rate_map, marginalised, sweeps, name, self.dtype, self.limits)
        if not marginalised:
            data = with_copies(data, rate_map)
            n = data.design.shape[0]
        dtype = np.dtype(self.dtype)
        columns = dense_columns(data.design, dtype) if dense else sparse_columns(data.X, dtype)
        choice = choose(Case(n, p, dense), self.limits).name if self.weights == "auto" else self.weights
        if marginalised:
            sweeps = int(self.sweeps_per_draw)
            return bind_marginal(model, loss, data, rate_map, columns, choice, sweeps, self.dtype)
        noise: Any = model.noise
        if model.intercept_prior is not None and np.any(noise.log_multiplier(jax.numpy.zeros(1)) != 0):
            raise ValueError(
                f"intercept_prior: with masks {type(self).__name__} takes it where a kept entry is as it was, and "
                f"{model.noise!r} multiplies it; take bd.Dropout(unbiased=False), or method=bd.HMC()."
            )
        noised = rate_map.index[rate_map.noised]
        per_feature = rate_map.is_free and rate_map.size == len(noised) == len(np.unique(noised))
        grouped = rate_map.is_free and not per_feature
        hierarchy = rate_map.hierarchy
        indicators, effects, normal = None, getattr(model.weight_prior, "size", 0), model
        if selects:
            law = check_indicators(model, rate_map, selected.law(p - effects))
            indicators, normal = indicator_operands(law, effects, self.dtype), with_slab(model)
        common, read = bound_priors(normal, data, columns, choice, int(self.sweeps_per_draw), self.dtype)
        first_power = _first_power(model, data) if tune and common["parameter"] is None else 1.0
        common |= {
            "loss": loss.plain,
            "noise": model.noise,
            "per_feature": per_feature,
            "grouped": grouped,
            "some_kept": not bool(np.all(rate_map.noised)),
            "hierarchical": hierarchy is not None,
            "tempered": first_power < _TEMPERED,
            "unit_weight": common["unit_weight"] and first_power >= _TEMPERED,
            "gaussian_draw": DRAWS[choice],
            "rate_dim": rate_map.dim,
        }
        kernel: GibbsKernel | ClassGibbsKernel
        if many:
            kernel = ClassGibbsKernel(n_classes=len(data.classes), **common)  # type: ignore[arg-type]  # labels
        elif selects:
            limits = self.limits
            kernel = IndicatorKernel(
                joint_moves=0, learns_chance=law.is_learnt, effects=effects, proposals=limits.proposals,
                first_size=limits.first_size, **common,
            )  # fmt: skip
        else:
            kernel = GibbsKernel(joint_moves=int(self.joint_moves), **common)
        rate_prior = None
        if hierarchy is None:
            rate_prior = rate_map.prior.law(data.occurrences(rate_map.index, rate_map.size))
        real = partial(placed, dtype=self.dtype)
        operands = Operands(
            **read,
            fixed_logit=real(logit(rate_map.initial)),
            index=placed(rate_map.index, np.int32),
            groups=group_blocks(columns, rate_map.index, rate_map.size, n) if grouped else (),
            rate_prior=jax.tree.map(real, rate_prior),
            hierarchy=None if hierarchy is None else hierarchy_operands(hierarchy, self.dtype),
            first_power=real(first_power),
            tune=placed(tune, np.int32),
            indicators=indicators,
        )
        return kernel, operands


def _first_power(model: Model, data: Dataset) -> float:
    """Power of the likelihood at which noise explains all variance of the response; 1 unless the loss is quadratic."""
    if not model.loss.quadratic:
        return 1.0
    total = float(data.weight.sum())
    response = data.target if data.offset is None else data.target - data.offset
    centred = response - float(data.weight @ response) / total
    # The curvature of the loss is the precision of a known noise variance.
    loss: Any = model.loss
    curvature = float(loss.derivatives(*np.zeros((3, 1))).mean_mean[0])
    spread = curvature * model.C * float(data.weight @ (centred * centred)) / total
    return 1.0 / max(spread, 1.0)


def first_broken_weight(data: Dataset, rate_map: RateMap) -> float | None:
    """First weight, among rows with entries that may be dropped, that is not a whole number; None if there is none."""
    weight = np.asarray(data.weight)
    broken = ~np.isclose(np.rint(weight), weight, rtol=1e-9, atol=0)
    if np.any(broken):
        broken &= _entries(data, rate_map) > 0
    return float(weight[np.argmax(broken)]) if np.any(broken) else None


def _entries(data: Dataset, rate_map: RateMap) -> Float[np.ndarray, " n"]:
    """Number of entries of each row that may be dropped."""
    noised, X = rate_map.noised * 1.0, data.X
    return np.asarray((X != 0).astype(np.float64) @ noised).ravel()


def with_copies(data: Dataset, rate_map: RateMap) -> Dataset:
    """Repeat every row with entries that may be dropped as often as its weight, each copy with weight 1.

    Parameters
    ----------
    data : Dataset
        Rows with their weights.
    rate_map : RateMap
        Which features may be dropped.

    Raises
    ------
    ValueError
        If such a row has a weight that is not a whole number, or the copies do not fit into memory.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from bayesdrop.data.dataset import as_dataset
    >>> data = as_dataset([[1.0], [0.0], [2.0]], [0.5, 1.0, 1.5], [3.0, 0.5, 1.0], None, False)
    >>> found = with_copies(data, bd.Model(bd.Squared()).bind(["x0"]))
    >>> found.target.tolist(), found.weight.tolist()
    ([0.5, 0.5, 0.5, 1.0, 1.5], [1.0, 1.0, 1.0, 0.5, 1.0])
    """
    weight = np.asarray(data.weight)
    if np.all(weight == 1):
        return data
    broken = first_broken_weight(data, rate_map)
    if broken is not None:
        raise ValueError(
            "sample_weight: a weight is a power of the likelihood of a row, its masks summed out, and bd.Gibbs() takes "
            "whole numbers, as that number of copies of the row with masks of their own; got among the weights, class "
            f"weights included, {broken:g}. Take whole numbers, or method=bd.HMC(), where it takes the model, and "
            "bd.reweight, which take any."
        )
    entries = _entries(data, rate_map)
    masked = entries > 0
    times = np.where(masked, np.rint(weight), 1.0)
    if not np.any(times > 1):
        return replace(data, weight=np.where(masked, 1.0, weight))
    check_memory(
        f"sample_weight: bd.Gibbs() draws the masks of a row of weight 2 twice, and {times.sum():,.0f} rows take",
        int(8 * (times @ (entries + 1))),
        "take method=bd.HMC() and correct it by bd.reweight, which take any weights, or give smaller ones.",
    )
    design: Any = data.design
    rows = np.repeat(np.arange(len(weight)), times.astype(np.int64))
    return replace(
        data,
        design=design[rows],
        target=data.target[rows],
        weight=np.where(masked, 1.0, weight)[rows],
        offset=None if data.offset is None else data.offset[rows],
    )
