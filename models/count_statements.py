"""Losses of counts, as :mod:`.counts` has them."""

import jax.numpy as jnp

from bayesdrop.models.count_laws import binomial, negative_binomial, poisson
from bayesdrop.models.counts import program
from bayesdrop.models.statements import Statement

__all__ = ["STATES", "bound", "of_poisson", "of_trials"]


def of_poisson(y, score):
    """``ys − e^s``, less what the best of all scores has."""
    xp = score.__array_namespace__()
    return y * score - xp.exp(score) + y - y * xp.log(xp.where(y == 0, xp.ones_like(y), y))


def of_trials(y, score, trials):
    """``ys − b log(1 + e^s)``."""
    return y * score - trials * score.__array_namespace__().logaddexp(score, 0 * score)


def bound(y, mean, var, trials):
    """Jensen's, with the Polya-Gamma variable profiled out: ``b log 2cosh(r/2) − (y − b/2) m``, ``r = √(m² + v)``."""
    half = jnp.sqrt(mean**2 + var) / 2
    return trials * jnp.logaddexp(half, -half) - (y - trials / 2) * mean


STATES = {
    "Poisson": Statement(program, of_poisson, options={"law": poisson}),
    "Binomial": Statement(program, of_trials, bound, {"trials": 5}, {"law": binomial(5)}),
    "NegativeBinomial": Statement(
        program,
        lambda y, score, dispersion: of_trials(y, score, y + dispersion),
        lambda y, mean, var, dispersion: bound(y, mean, var, y + dispersion),
        {"dispersion": 2.5},
        {"law": negative_binomial(2.5)},
    ),
}
