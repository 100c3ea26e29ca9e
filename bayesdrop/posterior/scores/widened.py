r"""Draws beyond those of a sampler that integrates masks as if scores were normal, and weights for all of them.

A ratio of two densities that is known only where a sampler went says nothing of what it missed. So its draws are joined
by two more sets: a copy of them stretched about their mean, and draws of the prior. Together they are draws of

    q(θ) ∝ a f(θ) + b f(m + (θ − m)/t)/t^D + c κ π(θ)

with the sampler's density ``f`` (prior times likelihood under normal scores, up to a constant), the mean ``m`` of its
draws, the factor ``t = 1 + 2/√D``, the prior ``π`` and the shares ``a, b, c`` of the three sets. The one number that is
not known, ``κ``, is that at which the prior's part of ``q`` has the share ``c`` over all draws: the most likely one
given which set each draw is of (Kong, McCullagh, Meng, Nicolae & Tan 2003). The density of the model with masks over
``q`` is the weight of a draw.

Coordinates are weights, the intercept of centred features, probits of the free rates and logarithms of learnt scales.
The prior of an intercept is flat or wide. It is drawn from a Student's t law with four degrees of freedom about its
regression on the weights instead, whose density is part of ``π`` in ``q``.

Shapes: ``S`` draws of a sampler, ``M`` of each other set, ``N = S + 2M`` in all, ``D`` coordinates.
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

__all__ = ["Widened", "stretched", "widen"]


@dataclass(frozen=True)
class Widened:
    """Three sets of draws, a sampler's, their stretched copies and the prior's, as (N,) one after another.

    Attributes
    ----------
    sets : list of three Draws
        Of ``S``, ``M`` and ``M`` draws.
    inside : list of three Draws
        The same drawn towards the mean, ``m + (θ − m)/t``.
    order : int array (N,)
        Numbers of the draws chain by chain, those of the other sets spread among the sampler's.
    log_prior, log_inside : array (N,)
        Log prior density of the draws, and of those of ``inside`` less ``D log t``, up to a constant.
    log_start : array (N,)
        Log density from which the draws of the prior are, up to another constant.
    """

    sets: list[Draws]
    inside: list[Draws]
    order: Int[np.ndarray, " N"]
    log_prior: Float[np.ndarray, " N"]
    log_inside: Float[np.ndarray, " N"]
    log_start: Float[np.ndarray, " N"]

    def weights(self, likelihood: Float[np.ndarray, "4 N"]) -> tuple[Float[np.ndarray, " N"], float]:
        """Weights, Pareto-smoothed, which add up to 1, and their Pareto k.

        Parameters
        ----------
        likelihood : array (4, N)
            As :func:`.approximation_error.likelihoods_of` has it.
        """
        exact, normal, inside = np.nan_to_num(likelihood[:3], nan=-np.inf, posinf=-np.inf)
        share = np.array([draws.size for draws in self.sets]) / len(self.order)
        parts = np.log(share[0]) + self.log_prior + normal, np.log(share[1]) + self.log_inside + inside
        sampler, start = np.logaddexp(*parts), np.log(share[2]) + self.log_start
        gap = np.maximum(sampler - start, -1e300)
        low, high = gap.min() - 50, gap.max() + 50
        log_kappa = 0.5 * (low + high)
        while low < log_kappa < high:
            low, high = (low, log_kappa) if expit(log_kappa - gap).mean() > share[2] else (log_kappa, high)
            log_kappa = 0.5 * (low + high)
        log_weights, k = smoothed_log_weights(self.log_prior + exact - np.logaddexp(sampler, start + log_kappa))
        return np.exp(log_weights), k


def widen(draws: Draws, law: BetaLaw | None, count: int, seed: Any) -> Widened:
    """Join draws of a sampler with about ``count`` stretched copies and as many draws of the prior.

    Parameters
    ----------
    draws : Draws
        Draws of a model with masks and one score a row, under normal scores.
    law : BetaLaw or None
        Prior of the free rates, if there are any.
    count : int
        Above 0; no more than the sampler's draws are copied.
    seed : int or sequence of int
        Of the draws of the prior.
    """
    there, (chains, length) = _Coordinates(draws, law), draws.shape
    copied = _spread(draws, count)
    each = len(copied) // chains
    points, generator = there.points(draws), np.random.default_rng(seed)
    centre, stretch = points.mean(axis=0), _stretch(points)
    intercept = _Intercept(points, there.p) if there.intercept else None
    sets = [points, centre + stretch * (points[copied] - centre), there.from_prior(len(copied), intercept, generator)]
    every = np.concatenate(sets)
    inside = centre + (every - centre) / stretch
    chain, place = np.divmod(np.arange(len(points)), length)
    among = np.arange(chains).repeat(each), np.tile((np.arange(each) + 0.5) * length / each, chains)
    places = np.concatenate([place, copied % length + 0.3, among[1] + 0.6])
    log_prior, start = there.log_prior(every), there.log_prior(every, of_intercept=False)
    return Widened(
        sets=[draws, *(there.draws(part) for part in sets[1:])],
        inside=[there.draws(part) for part in np.split(inside, np.cumsum([len(part) for part in sets])[:-1])],
        order=np.lexsort((places, np.concatenate([chain, copied // length, among[0]]))),
        log_prior=log_prior,
        log_inside=there.log_prior(inside) - points.shape[1] * np.log(stretch),
        log_start=start if intercept is None else start + intercept.log_density(every),
    )


def stretched(draws: Draws, count: int) -> Draws:
    """About ``count`` draws, spread evenly, each of them stretched about the mean."""
    there = _Coordinates(draws, None)
    own = there.points(draws)
    centre = own.mean(axis=0)
    return there.draws(centre + _stretch(own) * (own[_spread(draws, count)] - centre))


def _spread(draws: Draws, count: int) -> Int[np.ndarray, " M"]:
    """Numbers of about ``count`` draws, equally many of each chain."""
    chains, length = draws.shape
    each = min(max(count // chains, 1), length)
    return (np.arange(chains)[:, None] * length + np.linspace(0, length - 1, each).round().astype(int)).ravel()


def _stretch(points: Float[np.ndarray, "S D"]) -> float:
    """Factor at which a normal law and its stretched copy still overlap in so many dimensions."""
    return float(1 + 2 / np.sqrt(points.shape[1]))


class _Coordinates:
    """Draws as points without bounds, and back."""

    def __init__(self, draws: Draws, law: BetaLaw | None) -> None:
        self.like, self.law, self.p, self.k = draws, law, draws.weight.shape[1], draws.free_rate.shape[1]
        self.intercept, self.learnt = int(draws.model.fit_intercept), draws.model.loss.parameters

    def points(self, draws: Draws) -> Float[np.ndarray, "N D"]:
        """Coordinates of draws."""
        # Of a rate that is 0 or 1 in the precision of the draws the probit is not known.
        rate = np.clip(draws.free_rate.astype(np.float64), np.finfo(float).tiny, 1 - 1e-12)
        parts = [draws.weight, draws.intercept[:, None][:, : self.intercept], ndtri(rate)]
        parts += [] if draws.parameter is None else [np.log(draws.parameter)[:, None]]
        parts += [] if draws.weight_scale is None else [np.log(draws.weight_scale)]
        return np.concatenate(parts, axis=1, dtype=np.float64)

    def draws(self, points: Float[np.ndarray, "N D"]) -> Draws:
        """Draws at coordinates, as if they were of one chain."""
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
        """Log prior density of the coordinates, up to a constant; without that of the intercept unless asked for."""
        # The parameter of the likelihood and the scales of the weights, by their logarithms.
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
        found = replace(self.like, weight=weight, intercept=level, free_rate=rate, weight_scale=scale)
        for one in self.learnt:
            found = replace(found, parameter=one.prior.sample(generator, count, 1)[:, 0] ** (1 / one.power))
        return self.points(found)


class _Intercept:
    """A law of the intercept given the weights, about its regression on them."""

    def __init__(self, own: Float[np.ndarray, "S D"], p: int) -> None:
        self.p, known = p, np.column_stack([np.ones(len(own)), own[:, :p]])
        self.slope = np.linalg.lstsq(known, own[:, p])[0]
        self.spread = 2 * np.std(own[:, p] - known @ self.slope) + 1e-12

    def _mean(self, weight: Float[np.ndarray, "N p"]) -> Float[np.ndarray, " N"]:
        return np.asarray(self.slope[0] + weight @ self.slope[1:])

    def draw(self, weight: Float[np.ndarray, "M p"], generator: np.random.Generator) -> Float[np.ndarray, " M"]:
        """One for each weight."""
        return self._mean(weight) + self.spread * generator.standard_t(4, size=len(weight))

    def log_density(self, points: Float[np.ndarray, "N D"]) -> Float[np.ndarray, " N"]:
        """Up to a constant."""
        away = (points[:, self.p] - self._mean(points[:, : self.p])) / self.spread
        return np.asarray(-2.5 * np.log1p(away**2 / 4))
