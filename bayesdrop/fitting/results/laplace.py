r"""Compute Laplace's approximation at a point fit without noise: a normal distribution of the weights, for intervals.

    w ~ N(ŵ, H⁻¹),      H = ∇²U(ŵ) = P + Mᵀ diag(C s φ''(y, Mŵ)) M,      exp(−U) the (pseudo-)posterior

with the row weights ``s`` of the fit; later intervals need no rows. The Hessian is one weighted Gram matrix, or for the
softmax one for each pair of classes. The weights of many classes sum to zero, and the distribution is on this plane. If
the loss is not a likelihood, the width depends on ``C``. For normal responses of unknown variance, ``bd.Squared()``,
the variance ``σ̂²`` of the residuals makes ``exp(−U/(C σ̂²))`` the posterior, and the covariance is

    σ̂²C H⁻¹ = σ̂² (P/C + Mᵀ diag(s) M)⁻¹,

as in ridge regression with ``alpha = 1/C``: the prior is one of ``w/σ``, with the precision ``P/C``.

A fit with noise has no such intervals. It minimises an expected loss, which is not minus the log likelihood of the
noising model: the minimum is shrunk, and intervals around it have too little coverage. At known rates of 0.3 and 0.5
and 60 rows, nominal 90 % intervals contained 64 % of 800 weights drawn from their prior.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._typing import Float
from ...losses.base import Parameter
from ...model import Model
from ...moments import ScoreMoments
from ..objective.centring import CentredProblem
from ..objective.energy import Energy, prior_block
from ..problems.block import ProblemFit, Task
from ..problems.many_classes import softmax_energy
from ..solvers.driver import Status

if TYPE_CHECKING:
    from .result import Fit

__all__ = ["LAPLACE_LIMITS", "laplace_covariances", "residual_scale", "why_no_covariance"]


@dataclass(frozen=True)
class Limits:
    """Limits on fits with a covariance.

    Attributes
    ----------
    weights : int
        Maximum number of weights and intercepts of all classes: 8 MB, and less time than the fit.
    share : float
        Minimum share of the residual variance attributed to the responses rather than to noise.
    eigenvalue : float
        Smallest eigenvalue, relative to the largest, of a Hessian of unit diagonal that counts as positive.
    """

    weights: int = 1000
    share: float = 0.01
    eigenvalue: float = 1e-12


LAPLACE_LIMITS = Limits()
USE_SAMPLE, FIT_AGAIN = "use bd.sample", "fit again"
_AT_THE_MINIMUM = (Status.CONVERGED, Status.ROUND_OFF, Status.ALL_ZERO)


def _unsuitable(model: Model, rates: Float[np.ndarray, ...], status: Status, size: int) -> tuple[str, str]:
    """Why the curvature does not determine the precision of ``size`` weights, and advice; empty if it does."""
    _, _, *variance = model.noise.coefficients(np.asarray(rates, dtype=np.float64))
    if any(np.any(part) for part in variance):
        return "a fit with noise is shrunk, so that intervals around it would miss", USE_SAMPLE
    if model.weight_prior.absolute_penalty(1 if np.ndim(rates) == 0 else len(rates)) is not None:
        return f"{model.weight_prior!r} has a kink at 0, so that the curvature is not that of a posterior", USE_SAMPLE
    if model.loss.piecewise_linear:
        return f"{model.loss!r} has a kink, so that the curvature at its minimum is not that of a posterior", USE_SAMPLE
    if size > LAPLACE_LIMITS.weights:
        return f"a fit keeps the covariance of at most {LAPLACE_LIMITS.weights:,} weights, not of {size:,}", USE_SAMPLE
    if status not in _AT_THE_MINIMUM:
        return "the fit did not converge, so that its weights are not those of the minimum", FIT_AGAIN
    return "", ""


def why_no_covariance(fit: Fit) -> tuple[str, str]:
    """Why a fit has no covariance, and advice; both empty if it has one.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> X, y = [[0.0], [1.0], [2.0]], [0.0, 1.0, 3.0]
    >>> why_no_covariance(bd.fit(bd.Model(bd.Squared(), rates=bd.Fixed(0.2)), X, y))
    ('a fit with noise is shrunk, so that intervals around it would miss', 'use bd.sample')
    >>> why_no_covariance(bd.fit(bd.Model(bd.Squared(), rates=bd.Fixed(0.0)), X, y))
    ('', '')
    """
    if fit.covariance is not None:
        return "", ""
    reason, remedy = _unsuitable(fit.model, fit.rates, fit.status, np.size(fit.weight) + np.size(fit.intercept))
    if reason:
        return reason, remedy
    if fit.sigma is None and _learnt_scale(fit.model) is not None:
        return "partial_fit, and rows that a fit matches exactly, do not show the variance of the responses", USE_SAMPLE
    return "partial_fit, and files of earlier releases, keep no covariance of the weights", FIT_AGAIN


def laplace_covariances(
    model: Model, task: Task, solution: ProblemFit, centring: CentredProblem
) -> Float[np.ndarray, "B D D"] | None:
    """Covariance of the weights of each problem, or of all classes jointly; None if :func:`why_no_covariance` says why.

    Parameters
    ----------
    model : Model
        Model of the centred rows, with its rates chosen.
    task : Task
        Centred rows, targets and row weights.
    solution : ProblemFit
        Weights at the minimum, for the centred rows.
    centring : CentredProblem
        Transform to the user's columns.

    Returns
    -------
    array (K, p + 1, p + 1), or (1, K (p + 1), K (p + 1)) of joint classes, or None
        For each class its features and last its intercept, for the user's columns.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> model = bd.Model(bd.Squared(variance=1.0), rates=bd.Fixed(0.0), fit_intercept=False)
    >>> float(bd.fit(model, [[0.0], [1.0], [2.0]], [0.0, 1.0, 3.0]).covariance[0, 0].round(6))  # 1/(1 + 0 + 1 + 4)
    0.166667
    """
    (q, K), joint = solution.weights.shape, task.n_classes is not None
    classes = K if joint else 1
    if any(_unsuitable(model, solution.rates, solution.status, q * classes)):
        return None
    prior, _, level, _ = prior_block(model, q - 1)
    if joint:
        weight = model.C * task.weight[:, None]
        energy: Any = softmax_energy(model, task.design, solution.rates, task.target, K, weight[:, 0], weight[:, 0])
        chance, (first, second) = energy.evaluate(solution.weights)[2], np.triu_indices(K)
        is_one_class = (first == second).astype(float)
        curvature = weight * chance[:, first] * (is_one_class + (1 - 2 * is_one_class) * chance[:, second])
        blocks = np.zeros((K, K, q, q))
        blocks[first, second] = energy.moments.grams(curvature) * (2 * is_one_class - 1)[:, None, None]
        blocks[second, first] = blocks[first, second]
        hessians = np.swapaxes(blocks, 1, 2).reshape(1, K * q, K * q)
    else:
        energy = _plain_energy(model, task, solution)
        moments = energy.moments
        curvature = energy.derivatives(*moments.scores(solution.weights), np.zeros((1, 1))).mean_mean
        hessians = moments.grams(np.maximum(curvature, 0.0))
        if np.any(curvature < 0):  # rows with negative curvature under a loss that is not convex
            hessians = hessians - moments.grams(np.maximum(-curvature, 0.0))
    hessians = hessians + np.diag(np.tile(prior[:, 0], classes))
    if level is not None:
        hessians = hessians + level.hessian
    keep = np.tile(np.arange(q) < q - 1 + model.fit_intercept, classes)
    # A common change of the weights of all classes does not change predictions; weights sum to zero.
    plane = np.eye(classes) - (np.ones((K, K)) / K if joint else 0.0)
    outward = np.kron(plane, centring.to_original(np.eye(q)))
    covariances = np.stack([outward @ _inverse(hessian, keep) @ outward.T for hessian in hessians])
    if _learnt_scale(model) is None:
        return covariances
    sigma = residual_scale(model, task, solution)
    return None if sigma is None else sigma**2 * model.C * covariances


def _learnt_scale(model: Model) -> Parameter | None:
    """Scale of the responses about their scores, if the loss has one that is learnt."""
    return next((parameter for parameter in model.loss.parameters if parameter.degree), None)


def residual_scale(model: Model, task: Task, solution: ProblemFit) -> float | None:
    """Scale of the responses about their scores, from the residuals; None if it is fixed or cannot be estimated.

    For the squared loss the variance is the residual sum of squares over ``n`` minus the effective degrees of freedom
    (the trace of the matrix from responses to fitted values), minus the variance of scores from the noise of the
    features. For the check loss it is the mean loss, the maximum-likelihood estimate.
    """
    scale = _learnt_scale(model)
    if scale is None or task.target.shape[-1:] != (1,) or task.unlabelled is not None:
        return None
    energy = _plain_energy(model, task, solution)
    (mean, var), design = energy.moments.scores(solution.weights), energy.moments.design

    def total(values: Any) -> float:
        """Sum over the rows, by their weights without ``C``."""
        return float(design.total(energy.weight * values)[0]) / model.C

    rows = total(0 * mean + 1)
    loss = total(design.rowwise(energy.loss.value, energy.target, energy.scores(mean), 0 * mean))
    if scale.degree == 1:
        return loss / rows if loss > 0 else None
    freedom = _effective_freedom(energy, model, solution)
    if freedom is None or rows <= freedom or loss <= 0:
        return None
    variance = 2 * loss / (rows - freedom)
    of_noise = total(var) / rows if energy.moments.has_variance else 0.0
    return float(np.sqrt(max(variance - of_noise, LAPLACE_LIMITS.share * variance)))


def _plain_energy(model: Model, task: Task, solution: ProblemFit) -> Energy:
    """Energy of the plain loss at the rates of a fit, without prior mean, intercept prior and absolute penalty."""
    moments = ScoreMoments(task.design, model.noise, solution.rates, model.fit_intercept)
    weight = task.weight[:, None] if task.weight.ndim == 1 else task.weight
    precision = prior_block(model, len(solution.weights) - 1).precision
    offset = None if task.offset is None else task.offset[:, None]
    return Energy(moments, model.loss.plain, task.target, model.C * weight, precision, offset=offset)


def _effective_freedom(energy: Energy, model: Model, solution: ProblemFit) -> float | None:
    """``tr{H⁻¹ MᵀC diag(s) M}``; None if there are too many weights for a Gram matrix.

    Under a penalty ``λ|w|`` the trace is that of the non-zero weights; without noise it is their number (Zou, Hastie &
    Tibshirani 2007).
    """
    q = len(solution.weights)
    if q > LAPLACE_LIMITS.weights:
        return None
    _, _, level, absolute = prior_block(model, q - 1)
    keep = np.arange(q) < q - 1 + model.fit_intercept
    if absolute is not None:
        keep[:-1] &= solution.weights[:-1, 0] != 0
    moments = energy.moments
    slopes = energy.derivatives(*moments.scores(solution.weights), np.zeros((1, 1)))
    _, spread = energy.gradient(solution.weights, slopes)
    penalty = energy.curvature(slopes, spread).diagonal[:, 0]
    gram = moments.grams(slopes.mean_mean)[0]
    hessian = gram + np.diag(penalty) + (0.0 if level is None else level.hessian)
    return float(np.sum(_inverse(hessian, keep) * gram))


def _inverse(hessian: Float[np.ndarray, "D D"], keep: Any) -> Float[np.ndarray, "D D"]:
    """Inverse for the weights to keep, 0 for others, computed in units in which each curvature is one."""
    within, result = np.ix_(keep, keep), np.zeros_like(hessian)
    unit = 1 / np.sqrt(np.maximum(hessian.diagonal()[keep], np.finfo(float).tiny))
    scaled = unit[:, None] * hessian[within] * unit
    result[within] = unit[:, None] * np.linalg.pinv(scaled, hermitian=True, rcond=LAPLACE_LIMITS.eigenvalue) * unit
    return result
