r"""Pseudo-likelihoods of labels: exponentials of minus a loss, which need not sum to one over the labels.

    log p(y | s) = −C loss(y, s),      y ∈ {0, 1}, of sign 2y − 1,   or y ∈ {0, …, K − 1}

A posterior is proportional to prior times exponential, whatever the sum over ``y``; so ``log_prob`` leaves the sum out.
``sample`` draws from the normalised form ``exp(−C loss) / Σ_y exp(−C loss)``, a different likelihood of the score
unless the sum does not depend on the score (as under the logistic loss with ``C = 1``).
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpyro  # noqa: F401  (whole before its parts: ArviZ 1.3 leaves a lazy stand-in that would load parts twice)
from numpyro.distributions import BernoulliLogits, CategoricalLogits, constraints
from numpyro.distributions.util import validate_sample

from .._typing import Float, Int
from .inverse_gaussian import Numbers, floats

__all__ = [
    "BernoulliPseudoLikelihood",
    "CategoricalPseudoLikelihood",
    "HingeGivenScale",
    "HingePseudoLikelihood",
    "LogisticPseudoLikelihood",
]


class BernoulliPseudoLikelihood(BernoulliLogits):
    """Labels 0 and 1 with the given log-weights; draws are from the normalised form.

    Parameters
    ----------
    negative, positive : array
        Log-weights of ``y = 0`` and of ``y = 1``, any real numbers.
    validate_args : bool, optional
        As in NumPyro.

    See Also
    --------
    bayesdrop.distributions.LogisticPseudoLikelihood

    Examples
    --------
    >>> law = BernoulliPseudoLikelihood(-2.0, -1.0)
    >>> float(law.log_prob(1)), round(float(law.mean), 3)  # the normalised form has e⁻¹/(e⁻¹ + e⁻²)
    (-1.0, 0.731)
    """

    arg_constraints = {"negative": constraints.real, "positive": constraints.real}

    def __init__(self, negative: Numbers, positive: Numbers, *, validate_args: bool | None = None) -> None:
        self.negative, self.positive = jnp.broadcast_arrays(*floats(negative, positive))
        super().__init__(self.positive - self.negative, validate_args=validate_args)

    @validate_sample
    def log_prob(self, value: Numbers) -> Float[jax.Array, ...]:
        """Log-weight, not normalised."""
        return jnp.where(jnp.asarray(value, bool), self.positive, self.negative)

    @property
    def variance(self) -> Float[jax.Array, ...]:
        """Variance of the normalised form."""
        return jax.nn.sigmoid(self.logits) * jax.nn.sigmoid(-self.logits)


class HingePseudoLikelihood(BernoulliPseudoLikelihood):
    """``log p(y | s) = −C max(0, 1 − (2y − 1) s)``, the support vector machine's (Polson & Scott 2011, section 2).

    Parameters
    ----------
    score : array
        The score ``s``.
    C : array > 0, default=1.0
        Weight of the loss.
    validate_args : bool, optional
        As in NumPyro.

    See Also
    --------
    bayesdrop.distributions.HingeGivenScale, bayesdrop.Hinge

    Examples
    --------
    >>> float(HingePseudoLikelihood(0.25, C=2.0).log_prob(1))
    -1.5
    """

    def __init__(self, score: Numbers, C: Numbers = 1.0, *, validate_args: bool | None = None) -> None:
        score, C = floats(score, C)
        negative, positive = -C * jnp.maximum(0.0, 1 + score), -C * jnp.maximum(0.0, 1 - score)
        super().__init__(negative, positive, validate_args=validate_args)


class HingeGivenScale(BernoulliPseudoLikelihood):
    """Mixture form of the hinge loss given its latent scale: ``2 e^{−cζ} N(cζ; 0, λ)``, ``ζ = 1 − (2y − 1)s``.

    With ``c = C/2`` and ``λ ~ Exp(rate ½)`` its mean is ``exp{−C max(0, ζ)}``, and ``λ | y, s ~ GIG(½, 1, c²ζ²)``
    (Polson & Scott 2011, theorem 1, whose integrand includes the exponential density).

    Parameters
    ----------
    score : array
        The score ``s``.
    latent_scale : array > 0
        The latent scale ``λ``.
    C : array > 0, default=1.0
        Weight of the loss.
    validate_args : bool, optional
        As in NumPyro.

    See Also
    --------
    bayesdrop.distributions.HingePseudoLikelihood

    Examples
    --------
    >>> round(float(HingeGivenScale(1.0, 4.0).log_prob(1)), 4)  # ζ = 0: log 2 − ½ log 8π
    -0.9189
    """

    def __init__(
        self, score: Numbers, latent_scale: Numbers, C: Numbers = 1.0, *, validate_args: bool | None = None
    ) -> None:
        score, latent, C = floats(score, latent_scale, C)
        weights = [log_given_scale(0.5 * C * (1 - sign * score), latent) for sign in (-1, 1)]
        super().__init__(*weights, validate_args=validate_args)


def log_given_scale(x: Float[jax.Array, ...], latent_scale: Float[jax.Array, ...]) -> Float[jax.Array, ...]:
    """Logarithm of ``2 e^{−x} N(x; 0, λ)``, whose mean under ``λ ~ Exp(rate ½)`` is ``exp{−2 max(0, x)}``."""
    return math.log(2) - x - 0.5 * jnp.log(2 * math.pi * latent_scale) - 0.5 * x * x / latent_scale


class LogisticPseudoLikelihood(BernoulliPseudoLikelihood):
    """``log p(y | s) = −C log(1 + e^{−(2y − 1)s})``: the Bernoulli likelihood, tempered unless ``C = 1``.

    Parameters
    ----------
    score : array
        The score ``s``, the log-odds of ``y = 1`` if ``C = 1``.
    C : array > 0, default=1.0
        Weight of the loss.
    validate_args : bool, optional
        As in NumPyro.

    See Also
    --------
    bayesdrop.distributions.PolyaGamma, bayesdrop.Logistic

    Examples
    --------
    >>> round(float(LogisticPseudoLikelihood(0.0, C=2.0).log_prob(1)), 4)
    -1.3863
    """

    def __init__(self, score: Numbers, C: Numbers = 1.0, *, validate_args: bool | None = None) -> None:
        score, C = floats(score, C)
        super().__init__(-C * jax.nn.softplus(score), -C * jax.nn.softplus(-score), validate_args=validate_args)


class CategoricalPseudoLikelihood(CategoricalLogits):
    """Labels 0, …, K − 1 with the given log-weights; draws are from the normalised form.

    Parameters
    ----------
    log_weight : array (..., K)
        Log-weights of the labels, any real numbers.
    validate_args : bool, optional
        As in NumPyro.

    See Also
    --------
    bayesdrop.distributions.BernoulliPseudoLikelihood, bayesdrop.Softmax

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> float(CategoricalPseudoLikelihood(jnp.array([-1.0, -2.0, -4.0])).log_prob(2))
    -4.0
    """

    arg_constraints = {"log_weight": constraints.real_vector}

    def __init__(self, log_weight: Float[jax.Array, "... K"], *, validate_args: bool | None = None) -> None:
        self.log_weight = jnp.asarray(log_weight)
        super().__init__(self.log_weight, validate_args=validate_args)

    @validate_sample
    def log_prob(self, value: Int[jax.Array, ...] | int) -> Float[jax.Array, ...]:
        """Log-weight, not normalised."""
        shape = jnp.broadcast_shapes(jnp.shape(value), self.batch_shape)
        index = jnp.broadcast_to(jnp.asarray(value, int), shape)[..., None]
        weights = jnp.broadcast_to(self.log_weight, (*shape, self.log_weight.shape[-1]))
        return jnp.take_along_axis(weights, index, axis=-1)[..., 0]
