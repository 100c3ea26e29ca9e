r"""Pseudo-likelihoods of numbers: exponentials of minus a loss, which need not integrate to one over ``y``.

    log p(y | s) = −C loss(y, s)

A posterior is proportional to prior times exponential, whatever the integral over ``y``; so ``log_prob`` leaves it out.
``sample`` draws from the normalised form ``exp(−C loss) / ∫ exp(−C loss) dy``.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpyro  # noqa: F401  (whole before its parts: ArviZ 1.3 leaves a lazy stand-in that would load parts twice)
from jax import random
from jaxtyping import PRNGKeyArray
from numpyro.distributions import Distribution, Normal, constraints
from numpyro.distributions.util import validate_sample

from .._typing import Float
from .inverse_gaussian import Numbers, floats
from .label_pseudo_likelihoods import log_given_scale
from .log_concave import bisect, draw_log_concave, reach

__all__ = [
    "ConvexPseudoLikelihood",
    "EpsilonInsensitiveGivenScales",
    "EpsilonInsensitivePseudoLikelihood",
    "NormalPseudoLikelihood",
]


class NormalPseudoLikelihood(Normal):
    """``log p(y) = peak − ½ precision (y − loc)²``; draws are from the normal distribution that it is proportional to.

    Parameters
    ----------
    loc : array
        Location of the maximum.
    precision : array > 0, default=1.0
        Weight ``C`` of the squared loss.
    peak : array, default=0.0
        Maximum of the log-weight.
    validate_args : bool, optional
        As in NumPyro.

    See Also
    --------
    bayesdrop.Squared

    Examples
    --------
    >>> float(NormalPseudoLikelihood(1.0, 2.0, -0.5).log_prob(3.0))
    -4.5
    """

    arg_constraints = {"loc": constraints.real, "precision": constraints.positive, "peak": constraints.real}

    def __init__(
        self, loc: Numbers, precision: Numbers = 1.0, peak: Numbers = 0.0, *, validate_args: bool | None = None
    ) -> None:
        loc, self.precision, self.peak = jnp.broadcast_arrays(*floats(loc, precision, peak))
        super().__init__(loc, 1 / jnp.sqrt(self.precision), validate_args=validate_args)

    @validate_sample
    def log_prob(self, value: Numbers) -> Float[jax.Array, ...]:
        """Log-weight, not normalised."""
        return self.peak - 0.5 * self.precision * (value - self.loc) ** 2


class EpsilonInsensitivePseudoLikelihood(Distribution):
    """``log p(y | s) = −C max(0, |y − s| − ε)``, support vector regression's (Chen et al. 2015, section 4.3).

    Parameters
    ----------
    score : array
        The score ``s``.
    C : array > 0, default=1.0
        Weight of the loss.
    epsilon : array >= 0, default=0.1
        Half the width of the tube, in units of ``y``.
    validate_args : bool, optional
        As in NumPyro.

    See Also
    --------
    bayesdrop.distributions.EpsilonInsensitiveGivenScales, bayesdrop.EpsilonInsensitive

    Examples
    --------
    >>> float(EpsilonInsensitivePseudoLikelihood(1.0, 2.0, 0.25).log_prob(2.0))
    -1.5
    """

    arg_constraints = {
        "score": constraints.real,
        "C": constraints.positive,
        "epsilon": constraints.nonnegative,
    }
    support = constraints.real

    def __init__(
        self, score: Numbers, C: Numbers = 1.0, epsilon: Numbers = 0.1, *, validate_args: bool | None = None
    ) -> None:
        self.score, self.C, self.epsilon = jnp.broadcast_arrays(*floats(score, C, epsilon))
        super().__init__(batch_shape=self.score.shape, validate_args=validate_args)

    def sample(self, key: PRNGKeyArray, sample_shape: tuple[int, ...] = ()) -> Float[jax.Array, ...]:
        """Draws of the normalised form: uniform in the tube with mass ``2ε``, exponential beyond it with ``2/C``."""
        shape = tuple(sample_shape) + self.batch_shape
        key_piece, key_sign, key_size, key_tail = random.split(key, 4)
        size, tail = (
            random.uniform(key_size, shape, self.score.dtype), random.exponential(key_tail, shape, self.score.dtype)
        )  # fmt: skip
        inside = random.bernoulli(key_piece, self.epsilon * self.C / (self.epsilon * self.C + 1), shape)
        distance = jnp.where(inside, self.epsilon * size, self.epsilon + tail / self.C)
        return self.score + jnp.where(random.bernoulli(key_sign, shape=shape), distance, -distance)

    @validate_sample
    def log_prob(self, value: Numbers) -> Float[jax.Array, ...]:
        """Log-weight, not normalised."""
        return -self.C * jnp.maximum(0.0, jnp.abs(value - self.score) - self.epsilon)


class EpsilonInsensitiveGivenScales(NormalPseudoLikelihood):
    """Mixture form of the ε-insensitive loss given both latent scales, normal in ``y``.

    The loss is the sum of ``max(0, ζ)`` at ``ζ = y − s − ε`` and at ``ζ = s − y − ε``. With ``c = C/2`` each has the
    factor ``2 e^{−cζ} N(cζ; 0, λ)``, whose mean under ``λ ~ Exp(rate ½)`` is ``exp{−C max(0, ζ)}`` (Chen et al. 2015,
    section 4.3, with squares that enclose the latent scales as well).

    Parameters
    ----------
    score : array
        The score ``s``.
    above, below : array > 0
        Latent scales ``λ`` of the losses above and below the tube.
    C : array > 0, default=1.0
        Weight of the loss.
    epsilon : array >= 0, default=0.1
        Half the width of the tube, in units of ``y``.
    validate_args : bool, optional
        As in NumPyro.

    See Also
    --------
    bayesdrop.distributions.EpsilonInsensitivePseudoLikelihood

    Examples
    --------
    >>> law = EpsilonInsensitiveGivenScales(1.0, 2.0, 2.0, epsilon=0.5)
    >>> float(law.loc), float(law.precision)  # c²(1/λ + 1/λ)
    (1.0, 0.25)
    """

    def __init__(
        self,
        score: Numbers,
        above: Numbers,
        below: Numbers,
        C: Numbers = 1.0,
        epsilon: Numbers = 0.1,
        *,
        validate_args: bool | None = None,
    ) -> None:
        score, above, below, C, epsilon = floats(score, above, below, C, epsilon)
        c, share = 0.5 * C, (below - above) / (above + below)
        residual = epsilon * share  # y − s at the peak
        peak = log_given_scale(c * (residual - epsilon), above) + log_given_scale(-c * (residual + epsilon), below)
        super().__init__(score + residual, c * c * (1 / above + 1 / below), peak, validate_args=validate_args)


class ConvexPseudoLikelihood(Distribution):
    """``log p(y) = −C loss(y, *moments)`` for any loss that is convex in ``y`` and grows on both sides.

    Draws are from the normalised form, by rejection (:mod:`.log_concave`).

    Parameters
    ----------
    loss : callable
        ``(y, *moments)``, elementwise, and differentiable almost everywhere.
    moments : sequence of arrays
        Other arguments of the loss; at the first, in units of ``y``, the search for the minimum begins.
    C : array > 0, default=1.0
        Weight of the loss.
    validate_args : bool, optional
        As in NumPyro.

    See Also
    --------
    bayesdrop.distributions.EpsilonInsensitivePseudoLikelihood

    Examples
    --------
    >>> law = ConvexPseudoLikelihood(lambda y, mean, var: 0.5 * ((y - mean) ** 2 + var), (1.0, 0.5), C=2.0)
    >>> float(law.log_prob(2.0))
    -1.5
    """

    arg_constraints = {"C": constraints.positive}
    support = constraints.real
    pytree_data_fields = ("moments",)
    pytree_aux_fields = ("loss",)

    def __init__(
        self,
        loss: Callable[..., Float[jax.Array, ...]],
        moments: tuple[Numbers, ...],
        C: Numbers = 1.0,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.loss = loss
        self.C, *values = jnp.broadcast_arrays(*floats(C, *moments))
        self.moments = tuple(values)
        super().__init__(batch_shape=self.C.shape, validate_args=validate_args)

    @validate_sample
    def log_prob(self, value: Numbers) -> Float[jax.Array, ...]:
        """Log-weight, not normalised."""
        return -self.C * self.loss(value, *self.moments)

    def sample(self, key: PRNGKeyArray, sample_shape: tuple[int, ...] = ()) -> Float[jax.Array, ...]:
        """Draws of the normalised form, of shape ``sample_shape + batch_shape``."""
        start, one = self.moments[0], jnp.ones_like(self.C)
        slope = jax.grad(lambda y: jnp.sum(self.log_prob(y)))
        low = start - reach(lambda t: slope(start - t) > 0, one)
        high = start + reach(lambda t: slope(start + t) < 0, one)
        peak = bisect(lambda y: slope(y) > 0, low, high)
        return draw_log_concave(key, self.log_prob, peak, tuple(sample_shape) + self.batch_shape)
