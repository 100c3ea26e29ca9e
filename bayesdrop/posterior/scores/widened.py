r"""Add draws of the prior to those of a sampler that assumes normal scores, and weight both; for ``bd.reweight``.

The ratio of two densities at the draws of a sampler does not show modes that the sampler missed. Therefore draws of the
prior are added. Together they are draws of

    q(θ) ∝ a f(θ) + c κ π(θ)

with the sampler's density ``f`` (prior times likelihood under normal scores, up to a constant), the prior ``π`` and the
shares ``a, c`` of the two sets. The unknown factor ``κ`` is chosen so that the prior's part of ``q`` has the share
``c`` over all draws, the maximum-likelihood estimate given the set of each draw (Kong, McCullagh, Meng, Nicolae & Tan
2003). The weight of a draw is the density of the model with masks divided by ``q``.

Coordinates are weights, the intercept of centred features, probits of the free rates and logarithms of learnt scales.
As the prior of an intercept is flat or wide, the intercept is drawn from a Student's t distribution with four degrees
of freedom about its regression on the weights, and this density replaces its prior in ``π``.

Shapes: ``S`` draws of a sampler, ``M`` of the prior, ``N = S + M`` in all, ``D`` coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit, ndtr, ndtri

from ..._typing import Float, Int
from ...priors.rate_prior import BetaLaw
from ..diagnostics.mixing import smoothed_log_weights
from ..draws.draws import Draws
from ..draws.log_prior import log_prior_terms

__all__ = ["Widened", "widen"]


@dataclass(frozen=True)
class Limits:
    """Limits of the weights and of the distribution of the intercept.

    Attributes
    ----------
    largest : float
        Largest difference of two log densities.
    reach : float
        Margin of the search for ``log κ`` beyond the differences of the log densities.
    narrowest : float
        Smallest scale of the intercept, and smallest distance of a rate from 1.
    freedom : float
        Degrees of freedom of the intercept.
    """

    largest: float = 1e300
    reach: float = 50.0
    narrowest: float = 1e-12
    freedom: float = 4.0


LIMITS = Limits()


@dataclass(frozen=True)
class Widened:
    """Draws of a sampler followed by draws of the prior, (N,).

    Attributes
    ----------
    sets : list of two Draws
        ``S`` draws of the sampler and ``M`` of the prior.
    order : int array (N,)
        Numbers of the draws in the order of the chains, with draws of the prior spread among the sampler's.
    log_prior : array (N,)
        Log prior density of the draws, up to a constant.
    log_start : array (N,)
        Log density of the distribution of the added draws, up to another constant.
    """

    sets: list[Draws]
    order: Int[np.ndarray, " N"]
    log_prior: Float[np.ndarray, " N"]
    log_start: Float[np.ndarray, " N"]

    def weights(self, likelihood: Float[np.ndarray, "3 N"]) -> tuple[Float[np.ndarray, " N"], float]:
        """Weights, Pareto-smoothed, which add up to 1, and their Pareto k.

        Parameters
        ----------
        likelihood : array (3, N)
            As :func:`.approximation_error.likelihoods_of` returns it.
        """
        exact, normal = np.nan_to_num(likelihood[:2], nan=-np.inf, posinf=-np.inf)
        share = np.array([draws.size for draws in self.sets]) / len(self.order)
        sampler, start = np.log(share[0]) + self.log_prior + normal, np.log(share[1]) + self.log_start
        gap = np.maximum(sampler - start, -LIMITS.largest)
        low, high = gap.min() - LIMITS.reach, gap.max() + LIMITS.reach
        log_kappa = 0.5 * (low + high)
        while low < log_kappa < high:
            low, high = (low, log_kappa) if expit(log_kappa - gap).mean() > share[1] else (log_kappa, high)
            log_kappa = 0.5 * (low + high)
        log_weights, k = smoothed_log_weights(self.log_prior + exact - np.logaddexp(sampler, start + log_kappa))
        return np.exp(log_weights), k


def widen(draws: Draws, law: BetaLaw | None, count: int, seed: Any) -> Widened:
    """Join draws of a sampler with about ``count`` draws of the prior.

    Parameters
    ----------
    draws : Draws
        Draws of a model with masks and one score a row, under normal scores.
    law : BetaLaw or None
        Prior of the free rates, if there are any.
    count : int
        Above 0.
    seed : int or sequence of int
        Seed of the draws of the prior.
    """
    coordinates, (chains, length) = _Coordinates(draws, law), draws.shape
    each = max(count // chains, 1)
    points = coordinates.points(draws)
    intercept = _Intercept(points, coordinates.p) if coordinates.intercept else None
    prior = coordinates.from_prior(each * chains, intercept, np.random.default_rng(seed))
    every = np.concatenate([points, prior])
    chain, place = np.divmod(np.arange(len(points)), length)
    places = np.concatenate([place, np.tile((np.arange(each) + 0.5) * length / each, chains)])
    start = coordinates.log_prior(every, of_intercept=False)
    return Widened(
        sets=[draws, coordinates.draws(prior)],
        order=np.lexsort((places, np.concatenate([chain, np.arange(chains).repeat(each)]))),
        log_prior=coordinates.log_prior(every),
        log_start=start if intercept is None else start + intercept.log_density(every),
    )


class _Coordinates:
    """Convert draws to unbounded coordinates, and back."""

    def __init__(self, draws: Draws, law: BetaLaw | None) -> None:
        self.like, self.law, self.p, self.k = draws, law, draws.weight.shape[1], draws.free_rate.shape[1]
        self.intercept, self.learnt = int(draws.model.fit_intercept), draws.model.loss.parameters

    def points(self, draws: Draws) -> Float[np.ndarray, "N D"]:
        """Coordinates of draws."""
        # The probit of a rate that rounds to 0 or 1 is unknown.
        rate = np.clip(draws.free_rate.astype(np.float64), np.finfo(float).tiny, 1 - LIMITS.narrowest)
        parts = [draws.weight, draws.intercept[:, None][:, : self.intercept], ndtri(rate)]
        parts += [] if draws.parameter is None else [np.log(draws.parameter)[:, None]]
        parts += [] if draws.weight_scale is None else [np.log(draws.weight_scale)]
        return np.concatenate(parts, axis=1, dtype=np.float64)

    def draws(self, points: Float[np.ndarray, "N D"]) -> Draws:
        """Draws at coordinates, as draws of one chain."""
        ends = np.cumsum([self.p, self.intercept, self.k, len(self.learnt)])
        weight, intercept, probit, t, log_scale = np.split(points, ends, axis=1)
        parameter = np.exp(t[:, 0]) if self.learnt else None
        return replace(
            self.like,
            weight=weight,
            intercept=intercept.sum(axis=1),
            free_rate=ndtr(probit),
            weight_scale=None if self.like.weight_scale is None else np.exp(log_scale),
            C=np.full(len(points), self.like.C[0]) if parameter is None else parameter ** -self.learnt[0].degree,
            parameter=parameter,
            steps={"chain": np.zeros(1, int), "draw": np.arange(len(points))},
        )

    def log_prior(self, points: Float[np.ndarray, "N D"], of_intercept: bool = True) -> Float[np.ndarray, " N"]:
        """Log prior density of the coordinates, up to a constant, with or without that of the intercept."""
        # Parameter of the likelihood and scales of the weights, as logarithms.
        probit, log_scale = np.split(points[:, self.p + self.intercept :], [self.k], axis=1)
        jacobian = log_scale.sum(axis=1) - 0.5 * np.sum(probit**2, axis=1)
        terms = log_prior_terms(self.draws(points), self.law)
        return np.asarray(jacobian + sum(value for name, value in terms.items() if of_intercept or name != "intercept"))

    def from_prior(
        self, count: int, intercept: _Intercept | None, generator: np.random.Generator
    ) -> Float[np.ndarray, "M D"]:
        """Coordinates of draws of the prior."""
        weight, more = self.like.model.weight_prior.sample_weight(generator, count, self.p)
        scale = np.reshape(more["weight_scale"], (count, -1)) if "weight_scale" in more else None
        rate = np.zeros((count, 0)) if self.law is None else self.law.sample(generator, count)
        level = np.zeros(count) if intercept is None else intercept.draw(weight, generator)
        start = replace(self.like, weight=weight, intercept=level, free_rate=rate, weight_scale=scale)
        for one in self.learnt:
            start = replace(start, parameter=one.prior.sample(generator, count, 1)[:, 0] ** (1 / one.power))
        return self.points(start)


class _Intercept:
    """Student's t distribution of the intercept about its regression on the weights."""

    def __init__(self, points: Float[np.ndarray, "S D"], p: int) -> None:
        self.p, columns = p, np.column_stack([np.ones(len(points)), points[:, :p]])
        self.slope = np.linalg.lstsq(columns, points[:, p])[0]
        self.spread = 2 * np.std(points[:, p] - columns @ self.slope) + LIMITS.narrowest

    def _mean(self, weight: Float[np.ndarray, "N p"]) -> Float[np.ndarray, " N"]:
        return np.asarray(self.slope[0] + weight @ self.slope[1:])

    def draw(self, weight: Float[np.ndarray, "M p"], generator: np.random.Generator) -> Float[np.ndarray, " M"]:
        """Draw an intercept for each row of weights."""
        return self._mean(weight) + self.spread * generator.standard_t(LIMITS.freedom, size=len(weight))

    def log_density(self, points: Float[np.ndarray, "N D"]) -> Float[np.ndarray, " N"]:
        """Log density of the intercepts given the weights, up to a constant."""
        away = (points[:, self.p] - self._mean(points[:, : self.p])) / self.spread
        return np.asarray(-0.5 * (LIMITS.freedom + 1) * np.log1p(away**2 / LIMITS.freedom))
