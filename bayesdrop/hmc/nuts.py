"""The No-U-Turn sampler of NumPyro (Hoffman & Gelman 2014) on the densities without masks.

An independent check of ``bd.HMC``: the density and the whitened coordinates are the same; the trajectories are
NumPyro's, which adapts step size and metric.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpyro  # noqa: F401  (whole before its parts: ArviZ 1.3 leaves a lazy stand-in that would load parts twice)
from jaxtyping import PRNGKeyArray
from numpyro.infer import NUTS as NumpyroNUTS

from .._typing import Float
from .._validation import check_choice, check_count, check_flag, check_instance, check_number
from ..data.dataset import Dataset
from ..model import Model
from ..rates import RateMap
from ..sampling.matrix import placed
from .approximations.choices import Limits, case_of, choose
from .binding import bind_start
from .kernels.density import LogDensity
from .kernels.factors import Factor, StructuredFactor, unwhiten, whiten_gradient
from .kernels.kernel import GradientKernel

__all__ = ["NUTS", "NUTSKernel", "NUTSOperands"]


@dataclass(frozen=True)
class NUTS:
    """NumPyro's No-U-Turn sampler.

    Exact without masks; masks are integrated as if scores were normal, and the error is reported or corrected, as in
    ``bd.HMC``.

    Parameters
    ----------
    target_accept : float, default=0.8
        Acceptance probability for which the step size is chosen, in (0, 1).
    max_tree_depth : int, default=10
        Maximal number of doublings of a trajectory, at least 1.
    dtype : str, default="float64"
        ``"float32"`` or ``"float64"`` (default, as it compares energies that are sums over all rows).
    correct : bool, default=True
        Correct the draws of a model with masks if there are few rows, as in ``bd.HMC``.
    limits : Limits, optional
        Sizes that choose between normal approximations.

    See Also
    --------
    HMC, Gibbs

    References
    ----------
    Hoffman & Gelman (2014), The No-U-Turn Sampler, JMLR 15.

    Examples
    --------
    >>> NUTS().max_tree_depth
    10
    """

    target_accept: float = 0.8
    max_tree_depth: int = 10
    dtype: str = "float64"
    correct: bool = True
    limits: Limits = field(default=Limits(), repr=False)
    integrates_masks: ClassVar[bool] = True
    takes_offset: ClassVar[bool] = True
    takes_correlation: ClassVar[bool] = True
    warm_up: ClassVar[int] = 1000

    def __post_init__(self) -> None:
        check_number(self.target_accept, "target_accept", above=0, below=1, advice="0.8 is usual")
        check_count(self.max_tree_depth, "max_tree_depth", most=60)
        check_choice(self.dtype, "dtype", ("float32", "float64"))
        check_flag(self.correct, "correct")
        check_instance(self.limits, "limits", Limits, "bayesdrop.hmc.approximations.choices.Limits(...)")

    def bind(
        self, model: Model, data: Dataset, rate_map: RateMap, tune: int, marginalised: bool = False
    ) -> tuple[NUTSKernel, NUTSOperands]:
        """Build the kernel and its operands; call it under the precision of ``dtype``."""
        choice = choose(case_of(model, data, rate_map, marginalised), self.limits).name
        bound = bind_start(type(self).__name__, model, data, rate_map, marginalised, self.dtype, choice, rounded=False)
        kernel = NUTSKernel(bound.density, int(tune), self, choice)
        real, bound_factor = partial(placed, dtype=self.dtype), bound.factor
        factor = bound_factor if isinstance(bound_factor, StructuredFactor) else real(bound_factor)
        return kernel, NUTSOperands(bound.operands, real(bound.centre), factor)


class NUTSOperands(NamedTuple):
    """Data and priors, and the centre (D,) and factor, (D, D), (D,) or structured, of the whitened coordinates."""

    density: Any
    centre: Float[jax.Array, " D"]
    factor: Factor


@dataclass(frozen=True)
class NUTSKernel(GradientKernel):
    """Markov transition: NumPyro's kernel, mapped over the chains.

    Attributes
    ----------
    density : LogDensity
        Density to sample.
    tune : int
        Draws of the warm-up, which fix NumPyro's schedule of adaptation.
    options : NUTS
        Options of the trajectories.
    choice : str
        Name of the normal approximation.
    """

    density: LogDensity
    tune: int
    options: NUTS
    choice: str = ""

    def _potential(self, operands: NUTSOperands) -> Any:
        """Minus the log density of one chain, (D,) to (), with the closed-form gradient."""

        def both(z: Float[jax.Array, " D"]) -> tuple[Float[jax.Array, ""], Float[jax.Array, " D"]]:
            evaluation = self.density.evaluate(operands.density, unwhiten(operands.centre, operands.factor, z[None]))
            value = jnp.sum(evaluation.cost, axis=1) - evaluation.prior
            return value[0], whiten_gradient(operands.factor, evaluation.gradient)[0]

        @jax.custom_vjp
        def potential(z: Float[jax.Array, " D"]) -> Float[jax.Array, ""]:
            return both(z)[0]

        potential.defvjp(both, lambda slope, value: (slope * value,))
        return potential

    def _sampler(self, operands: NUTSOperands, key: PRNGKeyArray) -> tuple[NumpyroNUTS, Any]:
        """NumPyro's kernel, initialised, and a first state."""
        sampler = NumpyroNUTS(
            potential_fn=self._potential(operands),
            target_accept_prob=self.options.target_accept,
            max_tree_depth=self.options.max_tree_depth,
        )
        key, key_start = jax.random.split(key)
        start = 2 * jax.random.normal(key_start, operands.centre.shape, operands.centre.dtype)
        return sampler, sampler.init(key, self.tune, start, model_args=(), model_kwargs={})

    def init(self, operands: NUTSOperands, key: PRNGKeyArray, chains: int) -> Any:
        """Start at twice the spread of the normal approximation."""
        return jax.vmap(lambda k: self._sampler(operands, k)[1])(jax.random.split(key, chains))

    def step(self, operands: NUTSOperands, state: Any) -> tuple[Any, dict[str, jax.Array]]:
        """One draw of every chain."""
        # NumPyro's kernel gets its schedule when it is initialised; the state that this makes is not used.
        sampler, _ = self._sampler(operands, jax.random.key(0))
        state = jax.vmap(lambda s: sampler.sample(s, (), {}))(state)
        return state, self.record(operands, state)

    def record(self, operands: NUTSOperands, state: Any) -> dict[str, jax.Array]:
        """Variables and statistics of a draw."""
        theta = unwhiten(operands.centre, operands.factor, state.z)
        return self.density.record(operands.density, theta) | {
            "lp": -state.potential_energy,
            "acceptance_rate": state.accept_prob,
            "energy": state.energy,
            "step_size": state.adapt_state.step_size,
            "n_steps": state.num_steps,
            "diverging": state.diverging.astype(jnp.int8),
        }
