r"""Check whether the draws of a learnt scale reach small values as often as its prior says, for ``bd.diagnose``.

Chains that miss the neck of a funnel agree with each other, so that R-hat does not show it. Near 0, however, the
likelihood hardly depends on a scale ``σ = e^t``, and the posterior there is the prior: ``p(t)`` falls as ``e^t``, and a
fixed share of the draws below any small ``b`` is below ``b − 2``. The check compares the mean of ``t`` below ``b`` with
that of the prior, corrected for the likelihood. With

    f(t) = t − E_p(t | t < b),    h(t) = ∫_{−∞}^t f p / p(t),    t < b, and both 0 above,

integration by parts gives ``E{f(t) + h(t) ℓ'(t)} = 0`` under the posterior, where ``ℓ`` is the marginal log likelihood
(Stein's identity). Its slope is ``ℓ'(t) = E(q − m | t)`` with ``q = Σ w²/σ²`` over the ``m`` weights of the scale
(Fisher's identity), and is fitted by least squares to the draws below ``b`` as a sum of ``σ²/(s + σ²)``, its form for a
normal likelihood. ``b`` is the largest of some quantiles up to which this slope is small. The mean is compared
with its standard error over batches of draws, by Student's t.

Shapes: ``C`` chains of ``S`` draws.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._typing import Float
from ...description import stored_feature_names, stored_model
from ..arviz_groups.constants import in_model_order
from .problems import Problem

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Rules", "small_scale_problems"]


@dataclass(frozen=True)
class Rules:
    """Settings of the comparison.

    Attributes
    ----------
    false_alarm : float
        Probability of a problem if the draws are exact, over all scales.
    batches : int
        Batches of each chain.
    fewest : int
        Minimum number of draws below ``b``.
    slope : float
        Maximum of ``|ℓ'|`` below ``b``.
    smallest_share, candidates : float, int
        Smallest quantile that ``b`` may be, and number of quantiles from the median down to it.
    widest : float
        Ratio of the largest ``s`` in the form of the slope to ``e^{2b}``, and of ``e^{2b}`` to the smallest ``s``.
    reach, nodes : float, int
        Length of the grid below ``b``, and its points.
    """

    false_alarm: float = 1e-4
    batches: int = 10
    fewest: int = 100
    slope: float = 1.0
    smallest_share: float = 0.005
    candidates: int = 20
    widest: float = 10.0
    reach: float = 30.0
    nodes: int = 3001


def small_scale_problems(
    posterior: xr.Dataset, attrs: Mapping[str, Any], advice: str, rules: Rules = Rules()
) -> list[Problem]:
    """Problem of the scale that departs most from its prior near 0, if one does.

    Parameters
    ----------
    posterior : xarray.Dataset
        Variables on ``chain`` and ``draw``, all finite.
    attrs : mapping
        Attributes of the posterior, with the description of its model.
    advice : str
        Remedy.
    rules : Rules
        Settings of the comparison.
    """
    from scipy.stats import t as student

    if not any(str(name) == "weight_scale" or str(name).endswith("|scale") for name in posterior):
        return []
    model = stored_model(attrs)
    if model is None or "weight" not in posterior:
        return []
    try:
        prior, posterior = model.weight_prior, in_model_order(posterior, model, stored_feature_names(attrs), None)
    except ValueError:  # some of the draws, or of the levels, were selected
        return []
    learnt = prior.learnt_scale(posterior.sizes["feature"])
    if learnt is None or "weight_scale" not in posterior or posterior.sizes["draw"] < rules.batches:
        return []
    weight = posterior["weight"].transpose("chain", "draw", ..., "feature").values.astype(float)
    location = prior.location(weight.shape[-1])
    weight = weight if location is None else weight - location
    scale = posterior["weight_scale"].transpose("chain", "draw", ...).values.astype(float)
    classes = weight.shape[2] if weight.ndim == 4 else 1
    square = np.sum(weight.reshape(*weight.shape[:2], classes, -1) ** 2, axis=2) / learnt.unit**2
    log_scale = np.log(np.maximum(scale.reshape(*scale.shape[:2], -1), np.finfo(float).tiny))
    limit = student.isf(rules.false_alarm / (2 * learnt.groups), scale.shape[0] * rules.batches - 1)
    terms, names = getattr(prior, "learnt_terms", ()), learnt.names or [""]
    largest: tuple[float, str] = (limit, "")
    correlated = {term for terms in getattr(prior, "correlated", ()) for term in terms}
    for j, name in enumerate(names):
        if name in correlated:  # the identity holds for independent effects
            continue
        # Weights that are zero have no information on their scale.
        size = np.sum(square[:, :, learnt.index == j] != 0, axis=2) * max(classes - 1, 1)
        excess = np.sum(square[:, :, learnt.index == j], axis=2) * np.exp(-2 * log_scale[:, :, j]) - size
        law = lambda t, j=j: learnt.law.log_density(np.repeat(t[:, None], learnt.groups, axis=1))[:, j]  # noqa: E731
        departure = _departure(log_scale[:, :, j], excess, law, rules)
        if departure is not None and departure[0] > largest[0]:
            variable = f"{name}|scale" if name in terms else f"weight_scale{f' of {name}' * bool(learnt.groups > 1)}"
            largest = departure[0], f"{variable} is small {departure[1]}"
    return [Problem(largest[1], advice)] if largest[1] else []


def _departure(
    t: Float[np.ndarray, "C S"], excess: Float[np.ndarray, "C S"], law: Any, rules: Rules
) -> tuple[float, str] | None:
    """Size of the t statistic and its description; None if too few draws are near 0."""
    square = np.exp(2 * t)
    for b in np.quantile(t, np.geomspace(0.5, rules.smallest_share, rules.candidates)):
        below = t < b
        if np.sum(below) < rules.fewest:
            return None
        basis = (
            np.stack([square / (s * np.exp(2 * b) + square) for s in (1 / rules.widest, 1.0, rules.widest)], axis=-1)
            * below[..., None]
        )
        inverse = np.linalg.pinv(np.einsum("csi,csj->ij", basis, basis))
        slope = basis @ (inverse @ np.einsum("csi,cs->i", basis, excess))
        if np.max(np.abs(slope)) < rules.slope:
            break
    else:
        return None
    grid = np.linspace(b - rules.reach, b, rules.nodes)
    p = np.exp(law(grid))
    p = p / p.sum()
    mean = grid @ p
    h = np.interp(t, grid, np.cumsum((grid - mean) * p) / p * (grid[1] - grid[0])) * below
    of_error = basis @ (inverse @ np.einsum("csi,cs->i", basis, h))
    each = (t - mean) * below + h * slope + of_error * (excess - slope)
    length = t.shape[1] // rules.batches
    means = each[:, : rules.batches * length].reshape(-1, length).mean(axis=1)
    statistic = means.mean() / max(means.std(ddof=1), np.finfo(float).tiny) * np.sqrt(len(means))
    share, expected = np.sum(t < b - 2) / np.sum(below), np.sum(p[grid < b - 2])
    often = "too rarely" if statistic > 0 else "too often"
    return abs(statistic), (
        f"{often}: {share:.2g} of its draws below {np.exp(b):.2g} are below {np.exp(b - 2):.2g}, and {expected:.2g} of "
        "its prior"
    )
