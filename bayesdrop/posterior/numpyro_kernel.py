"""The samplers under ``numpyro.infer.MCMC``: one thin ``MCMCKernel`` around whatever kernel a method binds.

The kernels of this package hold all chains of a run. NumPyro shows a kernel all of them at once
(``chain_method="vectorized"``) or one (``"sequential"``, ``"parallel"``); the adapter starts as many as it is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import numpyro  # noqa: F401  (whole before its parts: ArviZ 1.3 leaves a lazy stand-in that would load parts twice)
from jax import numpy as jnp
from jaxtyping import PRNGKeyArray
from numpyro.infer.mcmc import MCMCKernel

from .._typing import Bool, Shaped
from .._validation import shown
from ..model import Model, check_model
from ..sampling.protocols import HostKernel, Kernel, natural
from ..sampling.run.driving import step_shapes, take_step
from .problem import Problem, with_dtype

__all__ = ["NumpyroKernel", "NumpyroState"]


class NumpyroState(NamedTuple):
    """State of the chains for NumPyro; every array has a leading axis of chains if they are vectorised.

    The sample statistics are attributes as well, so that ``MCMC.run(key, extra_fields=("lp",))`` collects them.

    Attributes
    ----------
    z : dict of arrays
        All variables that the kernel declares: ``weight`` (p,), and as the model has them ``intercept`` (), ``rate``
        (k,), ``sigma`` () and so on. Zero until the first draw, which makes them.
    sample_stats : dict of arrays ()
        ``lp``, ``diverging`` and what else the kernel declares; zero until then too.
    inner : state
        State of the kernel, random key included.
    rng_key : key
        NumPyro's key or keys.
    seen : int array
        The words of ``rng_key`` when the kernel last took notice of it.
    """

    z: dict[str, jax.Array]
    sample_stats: dict[str, jax.Array]
    inner: Any
    rng_key: jax.Array
    seen: Shaped[jax.Array, " words"]

    def __getattr__(self, name: str) -> Any:  # arrays, or their shapes while a program is traced
        if name in self.sample_stats:
            return self.sample_stats[name]
        raise AttributeError(
            f"extra_fields: expected sample statistics of this sampler, which are {sorted(self.sample_stats)}, "
            f"got {name!r}."
        )


class NumpyroKernel(MCMCKernel):
    """Run a sampler of this package as a kernel of :class:`numpyro.infer.MCMC`, with any chain method.

    ``bd.sample`` starts faster, resumes, stops early and returns named variables; this is for code that is written for
    MCMC.

    The sampler runs in the precision of the JAX session, whatever ``method.dtype`` says. Adaptation pools the chains
    that the kernel sees: all of them if ``chain_method="vectorized"``, as in ``bd.sample``, each alone otherwise. So do
    the random numbers. In one precision the draws are those of ``bd.sample``, up to the rounding of another
    compilation: vectorised ones of ``bd.sample(..., seed=jax.random.split(key, chains)[0])``, and sequential chain
    ``c`` those of ``bd.sample(..., chains=1, seed=jax.random.split(key, chains)[c])``.

    Parameters
    ----------
    model : Model
        As in ``bd.sample``.
    X : array, data frame or scipy sparse (n, p)
        Features. The data are bound to the kernel: ``MCMC.run`` takes the key alone.
    y : sequence of n labels or numbers
        Two classes or numbers, as in ``bd.sample``.
    method : Gibbs, HMC or NUTS, optional
        As in ``bd.sample``: by default the sampler that is exact.
    target : str, optional
        ``"noising"`` or ``"marginalised"``, as in ``bd.sample``.
    sample_weight : array (n,), optional
        Row weights, >= 0.
    feature_names : sequence of p str, optional
        Names of the columns; taken from a data frame.
    program : callable, optional
        NumPyro program of the same posterior that takes no arguments, such as ``functools.partial(svm.program, X,
        labels)`` with ``svm`` from :mod:`bayesdrop.models`. It becomes the attribute ``model``, from which
        ``az.from_numpyro`` reads the names of dims (its plates) and the observed data. Nothing is sampled from it.

    Raises
    ------
    TypeError
        If ``model`` is no ``bd.Model`` or ``method`` no sampler; from ``MCMC.run``, if it is given data.
    ValueError
        If the data or the target do not fit or there is no proper posterior, as in ``bd.sample``; from ``MCMC.run``, if
        it is given ``init_params``, or the sampler cannot sample this model.

    See Also
    --------
    WeightsBlock, sample

    Notes
    -----
    ``MCMC`` collects ``diverging`` as it does for its own samplers (Gibbs sampling never diverges), and on request
    ``extra_fields=("lp",)``; of HMC and NUTS also ``acceptance_rate``, ``energy``, ``n_steps`` and ``step_size``.
    ``az.from_numpyro(mcmc, coords=..., dims=..., log_likelihood=False)`` converts the draws under these names.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> import jax
    >>> from numpyro.infer import MCMC
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(50, 3, n_informative=2, n_redundant=0, random_state=0)
    >>> kernel = bd.NumpyroKernel(bd.Model(noise=bd.GaussianNoise(0.5)), X, y)
    >>> mcmc = MCMC(kernel, num_warmup=5, num_samples=5, num_chains=2, chain_method="vectorized", progress_bar=False)
    >>> mcmc.run(jax.random.key(0), extra_fields=("lp", "acceptance_rate"))
    >>> mcmc.get_samples(group_by_chain=True)["weight"].shape
    (2, 5, 3)
    >>> sorted(mcmc.get_extra_fields())
    ['acceptance_rate', 'diverging', 'lp']
    """

    sample_field = "z"
    default_fields: ClassVar[tuple[str, ...]] = ("z", "diverging")

    def __init__(
        self,
        model: Model,
        X: Any,
        y: Any,
        *,
        method: Any = None,
        target: str | None = None,
        sample_weight: Any = None,
        feature_names: Sequence[str] | None = None,
        program: Callable[[], Any] | None = None,
    ) -> None:
        check_model(model)
        if program is not None and not callable(program):
            raise TypeError(f"program: expected a NumPyro program without arguments, or None, got {shown(program)}.")
        self._problem = Problem.of(
            model, X, y, target=target, sample_weight=sample_weight, feature_names=feature_names
        )  # fmt: skip
        self._method = self._problem.method(method)
        self._program = program
        self._tune = 0
        self._bound: dict[tuple[str, int], tuple[Kernel, Any]] = {}

    @property
    def model(self) -> Callable[[], Any] | None:
        """The NumPyro program, or None: ArviZ then converts the draws without it, given names and dims."""
        return self._program

    def __getstate__(self) -> dict[str, Any]:
        """Without what binding makes anew."""
        return {**self.__dict__, "_bound": {}}

    def _bind(self) -> tuple[Kernel, Any]:
        """Kernel and operands for the precision of the session."""
        wanted = str(jnp.result_type(float)), self._tune
        if wanted not in self._bound:
            method = with_dtype(self._method, wanted[0])
            # NumPyro may call under a trace; the operands must be plain arrays.
            with jax.ensure_compile_time_eval():
                bound = self._problem.bind(method, self._tune)
            if isinstance(bound[0], HostKernel):
                raise ValueError(
                    f"method: expected a sampler that is compiled whole, got {method!r}, which Python steps; bd.sample "
                    "takes it."
                )
            self._bound = {wanted: bound}
        return self._bound[wanted]

    def init(
        self, rng_key: jax.Array, num_warmup: int, init_params: Any, model_args: Any, model_kwargs: Any
    ) -> NumpyroState:
        """Start one chain, or as many as there are keys; ``z`` is zero until the first draw."""
        if model_args or model_kwargs:
            raise TypeError(
                "MCMC.run: expected the key alone, got data too; give X and y to bd.NumpyroKernel(model, X, y)."
            )
        if init_params is not None:
            raise ValueError(
                "init_params: expected None, because the sampler chooses its starting points; leave it out."
            )
        self._tune = int(num_warmup)
        kernel, operands = self._bind()
        first, words, chains = _first_key(rng_key)
        with jax.default_matmul_precision("highest"):  # as bd.sample takes products
            inner = kernel.init(operands, first, chains or 1)
            shapes = step_shapes(kernel, operands, inner)
            nothing = {name: jnp.zeros(leaf.shape, leaf.dtype) for name, leaf in shapes.items()}
            return self._wrap(inner, nothing, rng_key, words)

    def sample(self, state: NumpyroState, model_args: Any, model_kwargs: Any) -> NumpyroState:
        """One draw of every chain."""
        del model_args, model_kwargs
        kernel, operands = self._bind()
        first, words, _ = _first_key(state.rng_key)
        # MCMC continues chains with another key by writing it over the old one.
        inner = _with_key(state.inner, first, jnp.any(words != state.seen))
        with jax.default_matmul_precision("highest"):  # as bd.sample takes products
            inner, recorded = take_step(kernel, operands, inner)
            return self._wrap(inner, recorded, state.rng_key, words)

    def _wrap(
        self, inner: Any, recorded: dict[str, jax.Array], rng_key: jax.Array, words: Shaped[jax.Array, " words"]
    ) -> NumpyroState:
        kernel, _ = self._bind()
        record, centre = self._problem.in_response_units(natural(recorded)), self._problem.centring.centre
        if centre is not None:
            # NumPyro keeps every draw in the precision of the session, in which wᵀc is taken off.
            level = record["intercept"] - record["weight"] @ jnp.asarray(centre, record["weight"].dtype)
            many = self._problem.centring.original_model.loss.multiclass
            record["intercept"] = level - jnp.mean(level, axis=-1)[..., None] if many else level
        record["diverging"] = record.get("diverging", jnp.zeros(record["lp"].shape, bool)).astype(bool)
        _, _, chains = _first_key(rng_key)
        if chains is None:
            record = {name: value[0] for name, value in record.items()}
        stats = {name: record.pop(name) for name in dict.fromkeys((*kernel.statistics, "diverging"))}
        return NumpyroState(record, stats, inner, rng_key, words)

    def get_diagnostics_str(self, state: NumpyroState) -> str:
        """How the last trajectory went, for the progress bar of a single chain; empty for Gibbs sampling."""
        stats = state.sample_stats
        if "acceptance_rate" not in stats:
            return ""
        return f"{stats['n_steps']} steps of size {stats['step_size']:.2e}. acc. prob={stats['acceptance_rate']:.2f}"


def _first_key(rng_key: jax.Array) -> tuple[PRNGKeyArray, Shaped[jax.Array, " words"], int | None]:
    """First key, typed, its words, and the number of keys, None for one without an axis."""
    typed = jnp.issubdtype(rng_key.dtype, jax.dtypes.prng_key)
    # By their words: NumPyro hands over keys that it has split, which JAX's check of keys would not let be looked at.
    words = jax.random.key_data(rng_key) if typed else rng_key
    several = words.shape[0] if words.ndim > 1 else None
    first = words if several is None else words[0]
    impl = jax.random.key_impl(rng_key) if typed else None
    return jax.random.wrap_key_data(first, impl=impl), first, several


def _with_key(state: Any, key: PRNGKeyArray, changed: Bool[jax.Array, ""]) -> Any:
    """Replace every key in the state by one made of ``key``, if ``changed``."""
    leaves, structure = jax.tree.flatten(state)
    for i, leaf in enumerate(leaves):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            new = jax.random.fold_in(key, i)
            new = jax.random.split(new, leaf.shape) if leaf.ndim else new
            # By their words: JAX's check of keys takes a key that is chosen for one that is used.
            words = jnp.where(changed, jax.random.key_data(new), jax.random.key_data(leaf))
            leaves[i] = jax.random.wrap_key_data(words, impl=jax.random.key_impl(leaf))
    return jax.tree.unflatten(structure, leaves)
