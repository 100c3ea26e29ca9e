"""The Gibbs sampler under ``numpyro.infer.MCMC``: a thin ``MCMCKernel`` around the same kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
from jax import numpy as jnp
from numpyro.infer.mcmc import MCMCKernel

from ..data import prepare
from ..model import Model
from .gibbs import Gibbs

__all__ = ["NumpyroGibbs", "NumpyroState"]

Array = Any


class NumpyroState(NamedTuple):
    """What NumPyro sees of the chains.

    Attributes
    ----------
    z : dict of arrays
        ``weight`` (p,), ``intercept`` () and ``rate`` (k,), with a leading axis of chains if they are vectorised.
    lp : array
        Joint log density up to a constant.
    inner : bayesdrop.inference.gibbs_kernel.State
        State of the kernel.
    rng_key : key
        NumPyro's key or keys; the chains draw from ``inner.key``.
    """

    z: dict[str, Array]
    lp: Array
    inner: Any
    rng_key: Array


class NumpyroGibbs(MCMCKernel):
    """``bd.Gibbs`` as a kernel of :class:`numpyro.infer.MCMC`, for chain methods "vectorized" and "sequential".

    It runs in the precision of the JAX session, whatever ``method.dtype`` says, and MCMC stores no masks. ``bd.sample``
    is faster to start and returns names; this is for users whose tools speak MCMC.

    Parameters
    ----------
    model : Model
        As in ``bd.sample``.
    X, y, sample_weight, feature_names
        Data, bound to the kernel: ``MCMC.run`` takes the key alone.
    method : Gibbs, optional
        ``bd.Gibbs()`` by default.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> import jax
    >>> from numpyro.infer import MCMC
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(50, 3, n_informative=2, n_redundant=0, random_state=0)
    >>> kernel = NumpyroGibbs(bd.Model(), X, y)
    >>> mcmc = MCMC(kernel, num_warmup=5, num_samples=5, num_chains=2, chain_method="vectorized", progress_bar=False)
    >>> mcmc.run(jax.random.key(0))
    >>> mcmc.get_samples(group_by_chain=True)["rate"].shape
    (2, 5, 3)
    """

    sample_field = "z"

    def __init__(
        self,
        model: Model,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        feature_names: Sequence[str] | None = None,
        method: Gibbs | None = None,
    ) -> None:
        self._model, self._method = model, Gibbs() if method is None else method
        self._data = prepare(X, y, sample_weight, feature_names, model.loss.binary).with_weight()
        self._rate_map = model.bind(self._data.feature_names)
        self._bound: dict[tuple[str, int], tuple[Any, Any]] = {}
        self._tune = 0

    model = None
    """No NumPyro model: ArviZ converts the draws without it, given names and dims."""

    @property
    def default_fields(self) -> tuple[str, ...]:
        """Fields that MCMC collects."""
        return (self.sample_field,)

    def _bind(self, tune: int) -> tuple[Any, Any]:
        dtype = str(jnp.result_type(float))
        if (dtype, tune) not in self._bound:
            method = replace(self._method, dtype=dtype)
            # NumPyro may call under a trace; the operands must be plain arrays.
            with jax.ensure_compile_time_eval():
                self._bound[dtype, tune] = method.bind(self._model, self._data, self._rate_map, tune)
        return self._bound[dtype, tune]

    def init(
        self, rng_key: Array, num_warmup: int, init_params: Any, model_args: Any, model_kwargs: Any
    ) -> NumpyroState:
        """Start one chain, or as many as there are keys."""
        if model_args or model_kwargs:
            raise TypeError(
                "MCMC.run: expected the key alone, got data too; give X and y to NumpyroGibbs(model, X, y)."
            )
        del init_params
        self._tune = num_warmup
        kernel, operands = self._bind(num_warmup)
        typed = jnp.issubdtype(rng_key.dtype, jax.dtypes.prng_key)
        keys = rng_key if typed else jax.random.wrap_key_data(rng_key)
        batch = keys.ndim == 1
        # Chains share one stream: a batch draws all their numbers at once.
        state = kernel.init(operands, keys[0] if batch else keys, keys.shape[0] if batch else 1)
        return self._wrap(kernel, operands, state, rng_key, batch)

    def sample(self, state: NumpyroState, model_args: Any, model_kwargs: Any) -> NumpyroState:
        """One draw of every chain."""
        del model_args, model_kwargs
        kernel, operands = self._bind(self._tune)
        inner = kernel.step(operands, state.inner)
        return self._wrap(kernel, operands, inner, state.rng_key, state.lp.ndim == 1)

    @staticmethod
    def _wrap(kernel: Any, operands: Any, inner: Any, rng_key: Array, batch: bool) -> NumpyroState:
        record = kernel.record(operands, inner)
        if not batch:
            record = {name: value[0] for name, value in record.items()}
        z = {name: record[name] for name in ("weight", "intercept", "rate") if name in record}
        return NumpyroState(z, record["lp"], inner, rng_key)
