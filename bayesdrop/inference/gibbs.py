"""The sampler that a user chooses: it builds the kernel of :mod:`.gibbs_kernel` for a model and data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..data import Data
from ..model import Model
from ..rates import RateMap
from .gibbs_columns import Columns, dense_columns, sparse_columns
from .gibbs_gaussian import gradient_draw, outer_draw, precision_draw
from .gibbs_kernel import GibbsKernel, Operands

__all__ = ["Gibbs"]

Array = Any

# Largest side of a matrix that is factored at each sweep; beyond it conjugate gradients take over.
_FACTOR_SIDE = 2000


@dataclass(frozen=True)
class Gibbs:
    """Partially collapsed Gibbs sampler of the feature-noising model; exact, without step sizes to choose.

    Parameters
    ----------
    sweeps_per_draw : int
        Sweeps between recorded draws. Draws cost memory and disk, sweeps only time. One will do on data
        like the bundled ones: the default draws pass the usual diagnostics (R-hat at most 1.01, effective sample sizes
        of several hundred) for both losses.
    joint_moves : int
        Trajectories of weights and scores together at each sweep, after the coordinate moves; 0 for none.
    dtype : str
        ``"float32"`` (default) or ``"float64"``. Single precision is faster and agrees with double in every test of
        the package; a large ``C`` or strongly correlated features may cost it a Cholesky factor, which ``sample``
        reports as an error that names the remedy.

    Examples
    --------
    >>> Gibbs(dtype="float64")
    Gibbs(sweeps_per_draw=1, joint_moves=2, dtype='float64')
    """

    sweeps_per_draw: int = 1
    joint_moves: int = 2
    dtype: str = "float32"

    def __post_init__(self) -> None:
        for name, least in (("sweeps_per_draw", 1), ("joint_moves", 0)):
            count = getattr(self, name)
            if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < least:
                raise ValueError(f"{name}: expected a whole number of at least {least}, got {count!r}.")
        if self.dtype not in ("float32", "float64"):
            raise ValueError(f'dtype: expected "float32" or "float64", got {self.dtype!r}.')

    def bind(
        self, model: Model, data: Data, rate_map: RateMap, tune: int, marginalised: bool = False
    ) -> tuple[GibbsKernel, Operands]:
        """Build the kernel and its operands; call it under the precision of ``dtype``.

        Raises
        ------
        ValueError
            If the noise has no dropout rate, so that there are no masks to sample.
        """
        if not model.noise.has_rate:
            raise ValueError(
                f"noise: {type(self).__name__} samples dropout masks, and {model.noise!r} has none; "
                "use bd.Dropout(), or bd.fit for this noise."
            )
        p = len(data.feature_names)
        build = sparse_columns if hasattr(data.X, "tocsc") else dense_columns
        columns = build(data.X, np.dtype(self.dtype))
        sizes = np.bincount(rate_map.index, minlength=rate_map.size) if rate_map.is_free else np.zeros(0, int)
        per_feature = rate_map.size == p and bool(np.all(sizes == 1))
        row_weight = model.C * data.weight
        kernel = GibbsKernel(
            loss=model.loss.plain,
            noise=model.noise,
            fit_intercept=model.fit_intercept,
            per_feature=per_feature,
            grouped=rate_map.is_free and not per_feature,
            unit_weight=bool(np.all(row_weight == 1)),
            gaussian_draw=_gaussian_draw(columns, len(row_weight), p),
            sweeps=int(self.sweeps_per_draw),
            jumps=int(self.joint_moves),
        )
        a, b = rate_map.prior.concentrations(data.occurrences(rate_map.index, rate_map.size))
        real = partial(jnp.asarray, dtype=self.dtype)
        operands = Operands(
            columns=columns,
            target=real(data.target),
            row_weight=real(row_weight),
            precision=real(model.weight_prior.precision(p)),
            fixed_rate=real(rate_map.initial),
            index=jnp.asarray(rate_map.index, dtype=jnp.int32),
            members=jnp.asarray(_members(rate_map, p), dtype=jnp.int32),
            prior_a=real(a),
            prior_b=real(b),
            tune=jnp.int32(tune),
        )
        return kernel, operands


def _gaussian_draw(columns: Columns, n: int, p: int) -> Callable[..., tuple[Array, Array]]:
    """Cheapest draw of the weights: a factor of the smaller side, or no factor at all."""
    if columns.rows is not None or min(n, p) > _FACTOR_SIDE:
        return gradient_draw
    return precision_draw if p <= n else outer_draw


def _members(rate_map: RateMap, p: int) -> Array:
    """Features of each free rate, padded by ``p``: (k, q)."""
    groups = [np.flatnonzero(rate_map.index == j) for j in range(rate_map.size)]
    longest = max((len(group) for group in groups), default=1)
    return np.array([np.append(g, np.full(longest - len(g), p)) for g in groups]).reshape(len(groups), longest)
