r"""Expected positive part ``E max(0, ζ + √v z)``, for hinge, ε-insensitive, quantile and logistic losses.

Two forms, each a function of the mean ``ζ`` and the variance ``v``:

    augmentation   ½(ζ + √(ζ² + v)),              an upper bound (Chen, Zhu, Chen & Chen 2015, section 4.1)
    gaussian       ζ Φ(ζ/√v) + √v φ(ζ/√v),        exact for a normal variable

Both are ``max(0, ζ)`` at ``v = 0`` and convex in ``(ζ, √v)``: the maximum of ``αζ + √v τ(α)`` over ``0 <= α <= 1``,
with ``τ(α) = √(α(1 − α))`` for the augmentation bound and ``φ(Φ⁻¹(α))`` for the Gaussian form.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from .._typing import Float
from .base import Derivatives, LossOfForms, Pseudo, Responses, Scores, special

__all__ = ["FORMS", "Form", "PiecewiseLoss", "draw_precision"]


@runtime_checkable
class Form(Protocol):
    """Protocol of a form of the expected positive part; arguments ``(ζ, v)`` share one shape."""

    def value(self, mean: Scores, var: Scores) -> Scores:
        """Expected positive part."""

    def derivatives(self, mean: Scores, var: Scores) -> Derivatives:
        """First and second derivatives in ``(ζ, v)``."""

    def tension(self, share: Float[np.ndarray, ...]) -> Float[np.ndarray, ...]:
        """``τ(α)`` for ``0 <= α <= 1``."""


class _Augmentation(NamedTuple):
    @staticmethod
    def _root(mean: Scores, var: Scores) -> Scores:
        xp = mean.__array_namespace__()
        # The floor avoids 0/0 at the kink without noise, where solvers smooth the loss.
        tiny = float(xp.finfo(mean.dtype).tiny) ** 0.5
        return xp.maximum(xp.sqrt(mean * mean + var), xp.asarray(tiny, dtype=mean.dtype))

    def value(self, mean: Scores, var: Scores) -> Scores:
        xp = mean.__array_namespace__()
        root = self._root(mean, var)
        # A negative mean would cancel the root: ζ + r = v / (r − ζ). The inner where, unlike an absolute value, has a
        # derivative at 0.
        return 0.5 * xp.where(mean > 0, mean + root, var / (root - xp.where(mean > 0, xp.zeros_like(mean), mean)))

    def derivatives(self, mean: Scores, var: Scores) -> Derivatives:
        xp = mean.__array_namespace__()
        root = self._root(mean, var)
        inverse = 1 / root
        cubed = inverse * inverse * inverse
        return Derivatives(
            mean=0.5 * xp.where(mean > 0, 1 + mean * inverse, var * inverse / (root + xp.abs(mean))),
            var=0.25 * inverse,
            mean_mean=0.5 * var * cubed,
            mean_var=-0.25 * mean * cubed,
            var_var=-0.125 * cubed,
        )

    def tension(self, share: Float[np.ndarray, ...]) -> Float[np.ndarray, ...]:
        return np.sqrt(share * (1 - share))


class _Gaussian(NamedTuple):
    @staticmethod
    def _standard(mean: Scores, var: Scores) -> tuple[Scores, Scores, Scores, Scores]:
        """``1/√v``, ``ζ/√v``, and the normal density and distribution function at ``ζ/√v``."""
        xp = mean.__array_namespace__()
        # For √v below the floor the density underflows, unless ζ, and thus the value, is as small.
        tiny = float(xp.finfo(mean.dtype).tiny) ** 0.25
        inverse = 1 / xp.maximum(xp.sqrt(var), xp.asarray(tiny, dtype=mean.dtype))
        z = mean * inverse
        density = xp.exp(-0.5 * xp.minimum(z * z, xp.asarray(1500.0, dtype=mean.dtype))) / math.sqrt(2 * math.pi)
        return inverse, z, density, special("ndtr", z)

    def value(self, mean: Scores, var: Scores) -> Scores:
        inverse, _, density, below = self._standard(mean, var)
        return mean * below + density / inverse

    def derivatives(self, mean: Scores, var: Scores) -> Derivatives:
        inverse, z, density, below = self._standard(mean, var)
        half = 0.5 * density * inverse
        square = inverse * inverse
        return Derivatives(
            mean=below,
            var=half,
            mean_mean=2 * half,
            mean_var=-half * z * inverse,
            var_var=0.5 * half * (z * z - 1) * square,
        )

    def tension(self, share: Float[np.ndarray, ...]) -> Float[np.ndarray, ...]:
        from scipy.special import ndtri

        return np.asarray(np.exp(-0.5 * ndtri(share) ** 2) / math.sqrt(2 * math.pi))


FORMS: dict[str, Form] = {"augmentation": _Augmentation(), "gaussian": _Gaussian()}


class PiecewiseLoss(LossOfForms):
    """A loss ``Σ f max(0, a − b s)``; see :class:`bayesdrop.losses.protocols.PiecewiseLinear`."""

    piecewise_linear: ClassVar[bool] = True

    @abstractmethod
    def parts(self, y: Responses) -> tuple[tuple[float, Scores, Any], ...]:
        """Factor ``f``, intercept ``a`` and slope ``b`` of each positive part; ``b`` is −1 or +1."""

    @property
    def form(self) -> Form:
        """Expectation of the positive parts."""
        return FORMS[self.expectation]

    def value(self, y: Responses, mean: Scores, var: Scores) -> Scores:
        """Marginalised loss; see :class:`bayesdrop.losses.base.Loss`."""
        return sum(factor * self.form.value(a - b * mean, var) for factor, a, b in self.parts(y))

    def derivatives(self, y: Responses, mean: Scores, var: Scores) -> Derivatives:
        """Derivatives in ``(m, v)``; see :class:`bayesdrop.losses.protocols.Curved`."""
        terms = []
        for factor, a, b in self.parts(y):
            part = self.form.derivatives(a - b * mean, var)
            signed = part._replace(mean=-b * part.mean, mean_var=-b * part.mean_var)
            terms.append([factor * term for term in signed])
        return Derivatives(*(sum(column) for column in zip(*terms, strict=True)))

    def plain_value_and_slope(self, y: Responses, score: Scores) -> tuple[Scores, Scores]:
        """Plain loss and its slope; a part ``max(0, a − b s)`` has slope 0 at its corner."""
        xp = score.__array_namespace__()
        value, slope = 0, 0
        for factor, a, b in self.parts(y):
            excess = a - b * score
            value = value + factor * xp.maximum(excess, xp.zeros_like(excess))
            slope = slope - xp.where(excess > 0, factor * b + xp.zeros_like(excess), xp.zeros_like(excess))
        return value, slope

    def sample_pseudo(self, key: Any, y: Responses, mean: Scores, var: Scores, weight: Any) -> Pseudo:
        """Draw ``λ ~ GIG(½, 1, c²(ζ² + v))`` for each part ``ζ = a − bm`` and sum ``c²/λ`` and ``b(ac²/λ + c)``.

        ``c`` is half of ``C`` times the factor of the part.
        """
        import jax

        parts = self.parts(y)
        keys = [key] if len(parts) == 1 else jax.random.split(key, len(parts))
        omega, kappa = 0, 0
        for part_key, (factor, a, b) in zip(keys, parts, strict=True):
            half = factor * weight / 2
            drawn = draw_precision(part_key, a - b * mean, var, half)
            omega, kappa = omega + drawn, kappa + b * (drawn * a + half)
        return Pseudo(omega, kappa)


def draw_precision(key: Any, slack: Scores, var: Scores, half: Any) -> Scores:
    r"""Draw ``ω = c²/λ`` with ``λ ~ GIG(½, 1, c²(ζ² + v))`` (Polson & Scott 2011, theorem 1), shaped like ``slack``.

    ``slack`` is ``ζ``, ``var`` is ``v`` and ``half`` is ``c``: by the theorem
    ``exp{−2c max(0, ζ)} = ∫ (2πλ)^{−1/2} exp{−(λ + cζ)² / (2λ)} dλ``.
    """
    import jax.numpy as jnp

    from ..distributions import reciprocal_inverse_gaussian

    scale = reciprocal_inverse_gaussian(key, half * jnp.sqrt(slack * slack + var))
    # At ζ = v = 0 λ is chi-square with one degree of freedom, so 1/λ is unbounded; the floor keeps the
    # Cholesky factor of the weights' precision finite (1e-8 in double, 1e-5 in single precision).
    floor = 1e-8 if scale.dtype == jnp.float64 else 1e-5
    return half * half / jnp.maximum(scale, jnp.asarray(floor, scale.dtype))
