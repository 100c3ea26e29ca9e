"""Check the indicators of a spike-and-slab prior, for ``bd.diagnose``: chains that disagree, and indicators that stick.

R-hat and effective sample sizes are computed for inclusion probabilities given the other features, for features whose
inclusion is uncertain; not for the indicators, nor for weights that are mostly 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..._typing import Float, Num
from .problems import Problem

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Rules", "inclusion_problems", "without_indicators"]


@dataclass(frozen=True)
class Rules:
    """Limits of the comparison.

    Attributes
    ----------
    doubtful : float
        Minimum distance of an inclusion probability from 0 and 1 for an uncertain feature.
    difference : float
        Largest difference between inclusion probabilities of two chains.
    errors : float
        Maximum difference in standard errors.
    batches : int
        Batches of each chain from which standard errors are estimated.
    """

    doubtful: float = 0.05
    difference: float = 0.1
    errors: float = 4.0
    batches: int = 20


def without_indicators(posterior: xr.Dataset, rules: Rules = Rules()) -> xr.Dataset:
    """Variables to compare between chains: without indicators, weights, and probabilities that are near 0 or 1."""
    rest = posterior.drop_vars(["weight", "included"], errors="ignore")
    if "inclusion_probability" not in posterior:
        return rest
    rest = rest.drop_vars("inclusion_probability")
    chance, names = _flat(posterior["inclusion_probability"])
    doubtful = np.abs(chance.mean(axis=(0, 1)) - 0.5) < 0.5 - rules.doubtful
    if not doubtful.any():
        return rest
    # Use a separate dim, because rates are compared for all features.
    named = rest.assign_coords(doubtful_feature=np.array(names)[doubtful])
    return named.assign(inclusion_probability=(("chain", "draw", "doubtful_feature"), chance[..., doubtful]))


def _flat(part: xr.DataArray) -> tuple[Num[np.ndarray, "C S m"], list[str]]:
    """Values of all features, of one class after another, and their names."""
    names = [str(name) for name in part["feature"].values]
    if "class" in part.dims:
        names = [f"{name} of class {label}" for label in part["class"].values for name in names]
    values = part.transpose("chain", "draw", ..., "feature").values
    return np.asarray(values.reshape(*values.shape[:2], -1)), names


def inclusion_problems(posterior: xr.Dataset, advice: str, rules: Rules = Rules()) -> list[Problem]:
    """Features whose inclusion differs between chains, and uncertain ones with a constant indicator in a chain.

    Examples
    --------
    >>> import xarray as xr
    >>> chance = np.random.default_rng(0).uniform(size=(2, 200, 1)) * 0.2 + np.array([0.0, 0.8])[:, None, None]
    >>> dims = ("chain", "draw", "feature")
    >>> post = xr.Dataset(
    ...     {"included": (dims, (chance > 0.5).astype(int)), "inclusion_probability": (dims, chance)},
    ...     coords={"feature": ["age"]})
    >>> for problem in inclusion_problems(post, ""):
    ...     print(problem.text)
    the inclusion probability of age is 0.11 in one chain and 0.90 in another
    the indicator of age never moves in some chain
    """
    included, names = _flat(posterior["included"])
    chance = _flat(posterior["inclusion_probability"])[0] if "inclusion_probability" in posterior else included
    chance = chance.astype(np.float64)
    if chance.shape[1] < 2 * rules.batches:
        return []
    means, error = chance.mean(axis=1), _errors(chance, rules.batches)
    low, high = means.argmin(axis=0), means.argmax(axis=0)
    own = np.arange(len(names))
    gap = means[high, own] - means[low, own]
    allowed = np.maximum(rules.difference, rules.errors * np.hypot(error[high, own], error[low, own]))
    problems, worst = [], int(np.argmax(gap - allowed))
    if gap[worst] > allowed[worst]:
        ends = f"{means[low[worst], worst]:.2f} in one chain and {means[high[worst], worst]:.2f} in another"
        problems.append(Problem(f"the inclusion probability of {names[worst]} is {ends}", advice))
    doubtful = np.abs(means.mean(axis=0) - 0.5) < 0.5 - rules.doubtful
    stuck = [names[d] for d in np.flatnonzero(doubtful & np.any(np.ptp(included, axis=1) == 0, axis=0))]
    if stuck:
        more = f" and {len(stuck) - 1} more" if len(stuck) > 1 else ""
        problems.append(Problem(f"the indicator of {stuck[0]}{more} never moves in some chain", advice))
    return problems


def _errors(values: Float[np.ndarray, "C S p"], batches: int) -> Float[np.ndarray, "C p"]:
    """Standard errors of the means of each chain, from means of batches."""
    size = values.shape[1] // batches
    means = values[:, : size * batches].reshape(len(values), batches, size, -1).mean(axis=2)
    return np.asarray(means.std(axis=1, ddof=1) / np.sqrt(batches))
