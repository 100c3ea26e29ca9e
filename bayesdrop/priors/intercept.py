"""Normal prior of the intercept at the means of the columns, that is, of the score of a row of means.

    b + wᵀx̄ ~ N(m, s²),      x̄ the means of the columns by the weights of the rows

so the prior does not depend on the origin of a column, as in brms and rstanarm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from .._typing import Float
from .._validation import check_number, check_numbers, shown
from .normal import Normal

__all__ = ["CentredIntercept", "check_intercept_prior", "known_place"]


@dataclass(frozen=True)
class CentredIntercept:
    """Normal prior of the intercept at known means of the columns, made from ``bd.Normal`` by fits and samplers.

    Parameters
    ----------
    scale : float
        Standard deviation, above 0.
    mean : float
        Mean.
    place : sequence of p float
        Means ``x̄`` of the columns; 0 for effects of random terms.

    Examples
    --------
    >>> CentredIntercept(2.0, 0.5, [1.0, 3.0]).log_density(np.array([[1.0, 0.0]]), np.array([1.5])).tolist()
    [-0.5]
    """

    scale: float
    mean: float
    place: Sequence[float]

    def __post_init__(self) -> None:
        check_number(self.scale, "CentredIntercept scale", above=0)
        check_number(self.mean, "CentredIntercept mean")
        if check_numbers(self.place, "CentredIntercept place", "finite numbers", least=-1e308).ndim != 1:
            raise ValueError(f"CentredIntercept place: expected one number per column, got {shown(self.place)}.")

    def moved(self, centre: Float[np.ndarray, " p"] | None) -> CentredIntercept:
        """Prior of the intercept for columns minus ``centre`` (p,)."""
        return self if centre is None else replace(self, place=tuple((np.asarray(self.place) - centre).tolist()))

    def in_units(self, unit: float) -> CentredIntercept:
        """Prior of the intercept for scores divided by ``unit``."""
        return replace(self, scale=self.scale / unit, mean=self.mean / unit)

    def at_means(self, weight: Float[np.ndarray, "*batch p"], intercept: Any) -> Float[np.ndarray, "*batch"]:
        """Intercept at the means of the columns, for weights (..., p) and intercepts (...)."""
        return np.asarray(intercept + weight.astype(np.float64) @ np.asarray(self.place, dtype=np.float64))

    def log_density(self, weight: Float[np.ndarray, "*batch p"], intercept: Any) -> Float[np.ndarray, "*batch"]:
        """Log density of intercepts (...) given weights (..., p), up to a constant."""
        return -0.5 * ((self.at_means(weight, intercept) - self.mean) / self.scale) ** 2

    def sample(
        self, generator: np.random.Generator, weight: Float[np.ndarray, "*batch p"]
    ) -> Float[np.ndarray, "*batch"]:
        """Intercepts (...) drawn given weights (..., p)."""
        drawn = self.mean + self.scale * generator.normal(size=weight.shape[:-1])
        return np.asarray(drawn - self.at_means(weight, 0.0))


def check_intercept_prior(prior: Any) -> None:
    """Raise an error unless this is None, ``bd.Normal`` with one known scale and mean, or a CentredIntercept.

    Examples
    --------
    >>> check_intercept_prior(Normal([1.0, 2.0]))
    Traceback (most recent call last):
    ValueError: intercept_prior: expected one standard deviation and one mean, as in bd.Normal(2.5, mean=0.0), got ...
    """
    if prior is None or isinstance(prior, CentredIntercept):
        return
    example = "as in bd.Normal(2.5, mean=0.0)"
    if not isinstance(prior, Normal):
        raise TypeError(
            f"intercept_prior: expected a normal prior, {example}, or None for a flat one, got {shown(prior)}."
        )
    has_known_scale = prior.gaussian and not prior.relative
    if not has_known_scale or not isinstance(prior.scale, Real) or not isinstance(prior.mean, Real):
        raise ValueError(
            f"intercept_prior: expected one standard deviation and one mean, {example}, got {shown(prior)}."
        )
    check_number(prior.scale, "intercept_prior scale", above=0)
    check_number(prior.mean, "intercept_prior mean")


def known_place(prior: Any) -> Float[np.ndarray, " p"]:
    """Means of the columns at which the intercept has its prior, (p,); raise ValueError if they are not known yet."""
    if not isinstance(prior, CentredIntercept):
        raise ValueError(
            f"intercept_prior: {prior!r} is at the means of the columns, which are not known here; use bd.fit or "
            "bd.sample, which take them from X."
        )
    return np.asarray(prior.place, dtype=np.float64)
