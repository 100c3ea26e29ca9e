r"""Make a loss from one function of the response and the score, ``f(y, s)``.

Expectations over the noise are those of a normal score ``s = m + √v z`` by Gauss-Hermite quadrature,

    φ(y, m, v) = Σ_k ω_k f(y, m + √v z_k),

and derivatives are JAX's. By the heat equation those in ``v`` need no more than two derivatives of ``f``:

    ∂φ/∂m = Σ ω f′,    ∂φ/∂v = Σ ω z f′ / 2√v,    ∂²φ/∂m² = Σ ω f″,    ∂²φ/∂m∂v = Σ ω z f″ / 2√v,
    ∂²φ/∂v² = Σ ω (z² − 1) f″ / 4v

where the first two are the exact slopes of the sum above for any number of nodes, so that minimisers get consistent
values and slopes. If ``v`` is so small that rounding dominates a quotient, its limit is used: ``f″/2``, ``f‴/2`` and
``f⁗/4``.

The other losses of the package have closed forms or their own quadrature. This one is for all further losses, as
``tinygp.kernels.Custom`` is for kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np

from .._typing import AnyArray, Float
from .._validation import check_choice, check_flag, shown
from . import normal_score
from .base import RULES, Derivatives, Loss, NoisedScores, Responses, ScoreCost, Scores

__all__ = ["FunctionLoss", "from_function"]

Function = Callable[[Any, Any], Any]


def from_function(
    function: Function,
    response: str = "number",
    *,
    convex: bool = False,
    normalised: bool = False,
    expected_response: Callable[[NoisedScores], Any] | None = None,
    sample_response: Callable[[Any, Any, Any], Any] | None = None,
) -> FunctionLoss:
    """Make a loss of one function of the response and the score.

    Expectations over the noise are by quadrature with 32 nodes and derivatives by JAX: a loss in three lines, at some
    cost in time. ``bd.Newton()``, ``bd.HMC()`` and ``bd.NUTS()`` accept it; ``bd.EM()``, ``bd.Gibbs()`` and
    ``bd.variational``, which need auxiliary variables, do not. For a smooth loss the error of the quadrature is below
    1e-9 if the standard deviation of a score is at most 1, and below 1e-4 if it is at most 4.

    Parameters
    ----------
    function : callable
        Loss ``f(y, score)`` of arrays of responses and scores of one shape, written with ``jax.numpy``; an array of
        that shape. Give a function of a module, not a lambda, if results are to be pickled.
    response : str, default="number"
        Type of ``y``: ``"number"``; ``"class"``, one of two classes, coded −1 and +1; or ``"count"``, a whole number
        of at least 0.
    convex : bool, default=False
        Whether the loss is known to be convex in the score, which saves steps: a fit with any other loss starts from
        the fit without noise. If the loss is not convex, a fit may end in a local minimum.
    normalised : bool, default=False
        Whether ``exp(−f)`` is a density (of numbers, up to a constant factor) or a probability (of counts and classes)
        of ``y`` at every score. Otherwise :func:`bayesdrop.loo` warns that it compares no likelihoods.
    expected_response : callable, optional
        Expected number or count, as a function of the distribution of the noised score, whose ``mean()``,
        ``log_exponential()`` and ``sigmoid()`` are ``E s``, ``log E e^s`` and ``E σ(s)``. By default ``E s`` or, for a
        count, ``E e^s``. Probabilities of classes are proportional to ``exp(−C f)``, if normalised to ``exp(−f)``.
    sample_response : callable, optional
        Numbers or counts drawn from their density, ``sample_response(generator, score, C)`` with a
        :class:`numpy.random.Generator`. Predictions of numbers and counts, ``bd.log_likelihood`` and
        ``bd.posterior_predictive`` need it; classes need none.

    Returns
    -------
    FunctionLoss
        A loss for ``bd.Model``.

    Raises
    ------
    TypeError, ValueError
        If the function is not written with ``jax.numpy`` or returns another shape, or ``expected_response`` or
        ``sample_response`` is given for classes.

    See Also
    --------
    Logistic, Squared, Poisson

    References
    ----------
    Wager, Wang & Liang (2013), Dropout training as adaptive regularization, NeurIPS 26, section 2.

    Examples
    --------
    A complementary log-log link, ``P(y = 1) = 1 − exp(−e^s)``:

    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import bayesdrop as bd
    >>> def cloglog(y, s):
    ...     return jnp.where(y > 0, -jnp.log(-jnp.expm1(-jnp.exp(s))), jnp.exp(s))
    >>> loss = bd.losses.from_function(cloglog, "class", convex=True, normalised=True)
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> fit = bd.fit(bd.Model(loss, rates=bd.Fixed(0.2)), X, X[:, 0] > 0.5)
    >>> fit.weight.round(1).tolist()[0] > 0.5
    True
    """
    check_choice(response, "response", ("number", "class", "count"))
    check_flag(convex, "convex")
    check_flag(normalised, "normalised")
    for name, function_of_user in (("expected_response", expected_response), ("sample_response", sample_response)):
        if function_of_user is not None and response == "class":
            raise ValueError(f"{name}: the probabilities of classes follow from the function; leave it out.")
        if function_of_user is not None and not callable(function_of_user):
            raise TypeError(f"{name}: expected a function, got {shown(function_of_user)}.")
    _check(function)
    kind = ClassLoss if response == "class" else FunctionLoss if sample_response is None else SimulatedLoss
    return kind(function, bool(convex), bool(normalised), expected_response, sample_response, response == "count")


@dataclass(frozen=True)
class FunctionLoss(Loss):
    """Loss of numbers or counts made by :func:`from_function`; its fields hold the arguments."""

    function: Function
    convex: bool = False
    normalised: bool = False  # type: ignore[misc]  # what losses of the package know of their class, this knows of itself
    mean_response: Callable[[NoisedScores], Any] | None = None
    draw_response: Callable[[Any, Any, Any], Any] | None = None
    counts: bool = False
    binary: ClassVar[bool] = False

    @property
    def largest_count(self) -> float | None:
        """Any count; see :class:`bayesdrop.losses.base.Loss`."""
        return np.inf if self.counts else None

    def value(self, y: Responses, mean: Scores, var: Scores) -> Scores:
        """Expected loss; see :class:`bayesdrop.losses.base.Loss`."""
        kernel = _noised_value if np.any(_known(var)) else _plain_value
        return _evaluate(kernel, self.function, y, mean, var)[0]

    def derivatives(self, y: Responses, mean: Scores, var: Scores) -> Derivatives:
        """Derivatives in ``(m, v)``; see :class:`bayesdrop.losses.protocols.Curved`."""
        kernel = _noised_derivatives if np.any(_known(var)) else _plain_derivatives
        return Derivatives(*_evaluate(kernel, self.function, y, mean, var))

    def plain_value_and_slope(self, y: Responses, score: Scores) -> tuple[Scores, Scores]:
        """Loss and its derivative; see :class:`bayesdrop.losses.protocols.Sloped`."""
        value, slope = _evaluate(_value_and_slope, self.function, y, score)
        return value, slope

    def score_cost(self, y: Responses, mean: Scores, var: Scores, weight: Any) -> ScoreCost:
        """Cost of a normal score; see :class:`bayesdrop.losses.protocols.Scored`."""
        return normal_score.by_quadrature(self, y, mean, var, weight)  # type: ignore[arg-type]  # for normalised

    def expected_response(self, law: NoisedScores) -> Float[AnyArray, ...]:
        """The user's function, or ``E e^s`` of counts, ``E s`` of numbers; see :class:`bayesdrop.losses.base.Loss`."""
        if self.mean_response is not None:
            return np.asarray(self.mean_response(law))
        return np.exp(law.log_exponential()) if self.counts else np.asarray(law.mean())


@dataclass(frozen=True)
class SimulatedLoss(FunctionLoss):
    """Loss of numbers or counts with a function that draws them; see :class:`bayesdrop.losses.protocols.Simulated`."""

    def sample_response(self, generator: Any, score: Scores, weight: Any) -> Scores:
        """Draw responses by the user's function."""
        return np.asarray(self.draw_response(generator, score, weight), dtype=np.float64)  # type: ignore[misc]  # given

    def log_constant(self, weight: Any) -> Float[AnyArray, ...]:
        """``−log ∫ exp{−C f(y, 0)} dy``, by quadrature; 0 for counts, whose function is the whole log-probability."""
        if self.counts:
            return np.zeros(np.shape(weight))
        each, place = np.unique(np.asarray(weight, dtype=np.float64), return_inverse=True)
        constants = np.array([_log_constant(self.function, float(C)) for C in each])
        return constants[place].reshape(np.shape(weight))


@dataclass(frozen=True)
class ClassLoss(FunctionLoss):
    """Loss of two classes made by :func:`from_function`."""

    binary: ClassVar[bool] = True

    def probability(self, score: Scores, weight: Any) -> Scores:
        """Probability of +1, ``exp{−C f(1, s)}`` divided by the sum over −1 and +1, with ``C = 1`` if normalised."""
        one = np.ones_like(score)
        gap = self.plain_value_and_slope(-one, score)[0] - self.plain_value_and_slope(one, score)[0]
        return 0.5 * (1 + np.tanh(0.5 * gap * (1.0 if self.normalised else weight)))

    def expected_probability(self, mean: Scores, var: Scores, weight: float) -> Scores:
        """Expectation of :meth:`probability` by quadrature."""
        points, shares = normal_score.gauss_hermite(RULES.function_nodes)
        spread = np.sqrt(var)
        terms = (s * self.probability(mean + z * spread, weight) for z, s in zip(points, shares, strict=True))
        return np.asarray(sum(terms))

    def sample_response(self, generator: Any, score: Scores, weight: Any) -> Scores:
        """Draw −1 or +1, the latter with :meth:`probability`; see :class:`bayesdrop.losses.protocols.Simulated`."""
        return np.where(generator.random(np.shape(score)) < self.probability(score, weight), 1.0, -1.0)

    def log_constant(self, weight: Any) -> Float[AnyArray, ...]:
        """Zero; see :class:`bayesdrop.losses.protocols.Simulated`."""
        return np.zeros(np.shape(weight))


def _check(function: Any) -> None:
    """Raise TypeError unless ``function`` maps arrays of JAX to an array of their shape."""
    if not callable(function):
        raise TypeError(f"function: expected a function of responses and scores, got {shown(function)}.")
    import jax

    rows = jax.ShapeDtypeStruct((3,), np.float32)
    advice = "write f(y, score) with jax.numpy, as in lambda y, score: 0.5 * (y - score) ** 2"
    try:
        result = jax.eval_shape(function, rows, rows)
    except Exception as error:  # a user's function may raise anything
        reason = str(error).split("\n")[0]
        raise TypeError(f"function: {function!r} does not take arrays of JAX ({reason}); {advice}.") from error
    if getattr(result, "shape", None) != (3,):
        raise TypeError(f"function: expected a loss for each of 3 scores, got {shown(result)}; {advice}.")


@cache
def _log_constant(function: Function, C: float) -> float:
    """``−log ∫ exp{−C f(y, 0)} dy``."""
    from scipy.integrate import quad

    def density(y: float) -> float:
        value = float(_evaluate(_plain_value, function, np.full(1, y), np.zeros(1))[0][0])
        return float(np.exp(-C * value)) if value == value else 0.0

    # `quad` returns three values, and a fourth if it has not converged.
    sides = [quad(density, *ends, full_output=True, limit=RULES.intervals) for ends in ((-np.inf, 0.0), (0.0, np.inf))]
    total = sum(side[0] for side in sides)
    if not (all(len(side) == 3 for side in sides) and 0 < total < np.inf):
        raise ValueError(f"function: exp(−{C:g} f(y, 0)) has no finite integral over y, so that it is no density.")
    return -float(np.log(total))


def _known(var: Scores) -> Any:
    """The variances if they are NumPy's, else True, because JAX may trace them."""
    return var if isinstance(var, np.ndarray | np.generic) else True


Kernel = Callable[..., tuple[Any, ...]]


def _evaluate(kernel: Kernel, function: Function, *arrays: Any) -> tuple[Any, ...]:
    """Apply a kernel to arrays of JAX, or to NumPy's in double precision, compiled, some rows at a time."""
    if not all(isinstance(array, np.ndarray | np.generic | float) for array in arrays):
        return kernel(function, *arrays)
    import jax

    rows = np.broadcast_arrays(*(np.asarray(array, dtype=np.float64) for array in arrays))
    shape, total = rows[0].shape, rows[0].size
    flat = [array.ravel() for array in rows]
    parts = []
    with jax.enable_x64(True):
        for start in range(0, max(total, 1), RULES.batch):
            count = min(RULES.batch, total - start)
            size = max(RULES.fewest, 1 << max(count - 1, 0).bit_length())
            padded = [np.pad(array[start : start + count], (0, size - count)) for array in flat]
            parts.append([np.asarray(part)[:count] for part in _compiled(kernel)(function, *padded)])
    return tuple(np.concatenate(pieces).reshape(shape) for pieces in zip(*parts, strict=True))


@cache
def _compiled(kernel: Kernel) -> Any:
    import jax

    return jax.jit(kernel, static_argnums=0)


def _slope(function: Any) -> Any:
    """Derivative of a function that acts on each score separately."""
    import jax

    return lambda score: jax.jvp(function, (score,), (score * 0 + 1,))[1]


def _nodes(mean: Any, var: Any) -> tuple[Any, Any, Any]:
    """Scores at the nodes, the nodes and their quadrature weights, along a first axis."""
    import jax.numpy as jnp

    shape = (RULES.function_nodes,) + (1,) * mean.ndim
    point, share = (
        jnp.asarray(part, mean.dtype).reshape(shape) for part in normal_score.gauss_hermite(RULES.function_nodes)
    )
    return mean[None] + point * jnp.sqrt(var)[None], point, share


def _plain_value(function: Function, y: Any, mean: Any, *_: Any) -> tuple[Any, ...]:
    return (function(y, mean),)


def _value_and_slope(function: Function, y: Any, score: Any) -> tuple[Any, ...]:
    import jax

    value, slope = jax.jvp(partial(function, y), (score,), (score * 0 + 1,))
    return value, slope


def _plain_derivatives(function: Function, y: Any, mean: Any, *_: Any) -> tuple[Any, ...]:
    derivatives = [_slope(partial(function, y))]
    while len(derivatives) < 4:
        derivatives.append(_slope(derivatives[-1]))
    first, second, third, fourth = (part(mean) for part in derivatives)
    return first, 0.5 * second, second, 0.5 * third, 0.25 * fourth


def _noised_value(function: Function, y: Any, mean: Any, var: Any) -> tuple[Any, ...]:
    import jax.numpy as jnp

    score, _, share = _nodes(mean, var)
    return ((share * function(jnp.broadcast_to(y, score.shape), score)).sum(axis=0),)


def _noised_derivatives(function: Function, y: Any, mean: Any, var: Any) -> tuple[Any, ...]:
    import jax.numpy as jnp

    score, point, share = _nodes(mean, var)
    slope = _slope(partial(function, jnp.broadcast_to(y, score.shape)))
    first, second = slope(score), _slope(slope)(score)
    # The rounding errors of quotients are eps/v^½ and eps/v, and the errors of their limits of the order of v.
    small = var < float(jnp.finfo(mean.dtype).eps) ** (2 / 3)
    safe = jnp.where(small, jnp.ones_like(var), var)
    twice = 2 * jnp.sqrt(safe)
    _, var_slope, _, cross, bend = _plain_derivatives(function, y, mean)
    return (
        (share * first).sum(axis=0),
        jnp.where(small, var_slope, (share * point * first).sum(axis=0) / twice),
        (share * second).sum(axis=0),
        jnp.where(small, cross, (share * point * second).sum(axis=0) / twice),
        jnp.where(small, bend, (share * (point * point - 1) * second).sum(axis=0) / (4 * safe)),
    )
