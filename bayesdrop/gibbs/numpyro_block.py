r"""Weights and intercept as one block of a NumPyro Gibbs sampler, with hyper-parameters that NUTS draws.

    w ~ N(0, diag(scale²)),  b flat,  y_i ~ exp{−C s_i φ(y_i, m_i, v_i)}

with ``m`` and ``v`` the moments of the scores under the noise, ``m = Xw + b`` and ``v = 0`` without any. Given
``scale`` and ``C``, the block draws the auxiliary variables of the loss and then ``(w, b)`` from a Gaussian (Polson &
Scott 2011; Polson, Scott & Windle 2013; with noise Chen, Zhu, Chen & Chen 2015), which leaves the conditional of
``(w, b)`` as it is. NUTS draws the hyper-parameters given the weights, on the program without auxiliary variables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from .._typing import AnyArray, Float, Shaped
from .._validation import check_choice, check_instance, shown
from ..data.dataset import as_dataset
from ..data.responses import check_responses
from ..losses.protocols import Augmented, require
from ..model import Model, check_model, require_complete
from ..noise import Coefficients
from ..noise.base import require_zero_centre
from .choices import Case, Limits, choose
from .moves.columns import dense_columns, sparse_columns
from .weights import DRAWS, NoisedFeatures, augmented_weights

__all__ = ["WeightsBlock"]

Sites = Mapping[str, Shaped[AnyArray, "..."]]
# A user's function returns whatever JAX takes for an array, a Python number included.
FromSites = Callable[[Sites], Any]
Hyperparameter = str | FromSites | None


class _Operands(NamedTuple):
    """Data in one precision; ``row_weight`` (n,) and ``precision`` (p,) leave out what a site gives."""

    features: NoisedFeatures
    row_weight: Float[jax.Array, " n"]
    precision: Float[jax.Array, " p"]


class WeightsBlock:
    """Update the sites ``weight`` and ``intercept`` of a NumPyro program, given its other sites.

    For :class:`numpyro.infer.CustomGibbs` as a block of :class:`numpyro.infer.Gibbs` (NumPyro 0.22), or as the
    ``gibbs_fn`` of ``numpyro.infer.HMCGibbs(NUTS(program), block, block.sites)`` (any NumPyro). Chain methods are
    those of NumPyro's kernels: "sequential", "parallel" or ``jax.vmap``. It works in the precision of the sites.

    The program must state the same posterior: ``weight`` (p,) normal with the mean of ``weight_prior`` (0 by default)
    and standard deviations ``scale``; ``intercept`` () flat, ``ImproperUniform(constraints.real, (), ())``, if
    ``model.fit_intercept``; the factor ``−C Σ s_i φ_i`` or a likelihood that is proportional to its exponential as a
    function of the score; and any priors of the other sites. This is not checked.

    Parameters
    ----------
    model : Model
        Loss, fixed rates (``bd.Fixed(0.0)`` for no noise) or a noise without rates, and ``C`` and the scale of
        ``weight_prior`` unless given below. The noise is about 0: ``centre="auto"`` means None here. With noise the
        posterior is the pseudo-posterior that ``bd.sample`` calls ``target="marginalised"``, and the loss must have
        ``expectation="augmentation"``.
    X : array, data frame or scipy sparse (n, p)
        Features. Sparse input is never made dense.
    y : sequence of n labels or numbers
        As in ``bd.sample``: the larger of two labels is the positive class.
    scale : str or callable, optional
        Prior standard deviation of the weights, () or (p,): the name of a site, or a function of the dictionary of all
        other sites, such as ``lambda sites: sites["global"] * sites["local"]``. By default that of ``weight_prior``.
    C : str or callable, optional
        Weight of the loss, () or (n,), likewise; for a noise standard deviation ``sigma`` and ``bd.Squared()``,
        ``lambda sites: sites["sigma"] ** -2``. By default ``model.C``.
    feature_names : sequence of p str, optional
        Names of the columns; taken from a data frame.
    weight, intercept : str, default=("weight", "intercept")
        Names of the two sites.
    sample_weight : array (n,), optional
        Row weights ``s``, >= 0.
    draw : str, default="auto"
        How the Gaussian is drawn, as ``weights`` of :class:`bayesdrop.Gibbs`.

    Attributes
    ----------
    sites : list of str
        Names of the sites that the block draws.

    Raises
    ------
    ValueError
        If the data do not fit, rates are free, the loss has no auxiliary variables, or the weight prior or the noise
        variance is unknown and no site gives it; during the run, if a site is missing or has the wrong shape.

    See Also
    --------
    NumpyroKernel

    References
    ----------
    - Polson & Scott (2011), Data augmentation for support vector machines, Bayesian Analysis 6.
    - Polson, Scott & Windle (2013), Bayesian inference for logistic models using Pólya-Gamma latent variables, JASA
      108.

    Examples
    --------
    The scale of the weights of a support vector machine is learnt with them.

    >>> import bayesdrop as bd
    >>> import jax, numpyro, numpyro.distributions as dist
    >>> from jax import numpy as jnp
    >>> from numpyro.infer import MCMC, NUTS, HMCGibbs
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(50, 3, n_informative=2, n_redundant=0, random_state=0)
    >>> def program():
    ...     scale = numpyro.sample("scale", dist.HalfNormal(2.0))
    ...     weight = numpyro.sample("weight", dist.Normal(0.0, scale).expand([3]))
    ...     intercept = numpyro.sample("intercept", dist.ImproperUniform(dist.constraints.real, (), ()))
    ...     slack = 1 - (2 * y - 1) * (X @ weight + intercept)
    ...     numpyro.factor("minus_loss", -jnp.sum(jnp.maximum(0.0, slack)))
    >>> block = bd.WeightsBlock(bd.Model(bd.Hinge(), rates=bd.Fixed(0.0)), X, y, scale="scale")
    >>> kernel = HMCGibbs(NUTS(program), block, block.sites)
    >>> mcmc = MCMC(kernel, num_warmup=5, num_samples=5, progress_bar=False)
    >>> mcmc.run(jax.random.key(0))
    >>> {name: value.shape for name, value in sorted(mcmc.get_samples().items())}
    {'intercept': (5,), 'scale': (5,), 'weight': (5, 3)}

    In NumPyro 0.22 the same kernel is ``Gibbs([(CustomGibbs(block), block.sites), (NUTS(program), None)])``.
    """

    def __init__(
        self,
        model: Model,
        X: Any,
        y: Any,
        *,
        scale: Hyperparameter = None,
        C: Hyperparameter = None,
        weight: str = "weight",
        intercept: str = "intercept",
        sample_weight: Any = None,
        feature_names: Sequence[str] | None = None,
        draw: str = "auto",
    ) -> None:
        check_model(model)
        for name, site in (("weight", weight), ("intercept", intercept)):
            check_instance(site, name, str, "the name of a site")
        for name, value, example in (("scale", scale, '"scale"'), ("C", C, '"C"')):
            if not (value is None or isinstance(value, str) or callable(value)):
                raise TypeError(
                    f"{name}: expected the name of a site such as {example}, a function of the sites, or None for the "
                    f"number of the model, got {shown(value)}."
                )
        if scale is None and not model.weight_prior.gaussian:
            raise ValueError(
                f"weight_prior: {model.weight_prior!r} has no known scales; name the site that has them, as in "
                'scale="scale", or use bd.Normal(...).'
            )
        for parameter in model.loss.parameters:
            if not parameter.degree:
                raise ValueError(
                    f"loss: the {parameter.name} of {model.loss!r} is unknown; give it, for a block draws weights."
                )
            if C is None:
                raise ValueError(
                    f'C: {model.loss!r} has an unknown scale; name its site, as in C=lambda sites: sites["sigma"] ** '
                    f"-{parameter.degree}, or give the loss a number."
                )
        require_complete(model, "bd.WeightsBlock")
        data = as_dataset(X, y, sample_weight, feature_names, model.loss.binary).with_weight()
        check_responses(model.loss, data.design, data.target, fit_intercept=model.fit_intercept)
        n, p = data.design.shape
        rate_map = model.bind(data.feature_names)
        if rate_map.is_free:
            raise ValueError(
                f"rates: expected fixed ones, got {rate_map.size} free; use bd.Fixed(0.0) for no noise, or bd.sample, "
                "which learns them."
            )
        model.noise.check(data.design.minimum())
        require_zero_centre(model.noise, "bd.WeightsBlock")
        noise = model.noise.coefficients(rate_map.initial)
        noisy = any(bool(np.any(part)) for part in (noise.quadratic, noise.linear, noise.constant))
        loss = require(model.loss, Augmented, "bd.WeightsBlock", "take NumPyro's own kernel for all sites")
        if noisy and not loss.augmented:
            raise ValueError(
                f'loss: expected expectation="augmentation", for {model.loss!r} has no auxiliary variables; '
                "rates=bd.Fixed(0.0) leaves the noise out, and bd.HMC() samples this model unchanged."
            )
        if np.any(noise.shift):
            raise ValueError(f"noise: expected one without a shift of the mean, got {model.noise!r}.")
        dense = not data.design.is_sparse
        allowed = ["auto", *DRAWS] if dense else ["auto", "conjugate_gradient"]
        check_choice(draw, "draw", allowed, f"X is {'dense' if dense else 'sparse'}")
        gaussian_draw = DRAWS[choose(Case(n, p, dense), Limits()).name if draw == "auto" else draw]
        self._weights = augmented_weights(loss, noise, model.fit_intercept, gaussian_draw)
        self._scale, self._C = scale, C
        self._intercept = intercept if model.fit_intercept else None
        self._weight = weight
        self._data, self._noise, self._dense = data, noise, dense
        self._row_weight = data.weight if C is not None else model.C * data.weight
        if model.intercept_prior is not None:
            raise ValueError("intercept_prior: the block draws the intercept under a flat prior; leave it out.")
        prior = model.weight_prior.of_columns(data.feature_names)
        if prior.relative:
            prior = prior.absolute(data.design.column_summary(data.weight).spread)
        self._prior = np.ones(p) if scale is not None else prior.precision(p)
        self._location = prior.location(p)
        self._bound: dict[str, _Operands] = {}

    @property
    def sites(self) -> list[str]:
        """Names of the sites that the block draws."""
        return [self._weight] if self._intercept is None else [self._weight, self._intercept]

    def __getstate__(self) -> dict[str, Any]:
        """State without the cached operands, which are built again."""
        return {**self.__dict__, "_bound": {}}

    def __call__(self, rng_key: PRNGKeyArray, gibbs_sites: Sites, hmc_sites: Sites) -> dict[str, jax.Array]:
        """Draw the sites of the block given the others; NumPyro calls this by these names."""
        p = len(self._data.feature_names)
        missing = [name for name in self.sites if name not in gibbs_sites]
        if missing:
            raise ValueError(f"sites: expected {self.sites} to be drawn by this block, got {sorted(gibbs_sites)}.")
        weight = gibbs_sites[self._weight]
        if jnp.shape(weight) != (p,):
            raise ValueError(f"{self._weight}: expected shape {(p,)}, one per feature, got {jnp.shape(weight)}.")
        real = partial(jnp.asarray, dtype=weight.dtype)
        operands = self._operands(str(weight.dtype))
        n, precision = operands.row_weight.shape[0], operands.precision
        if self._scale is not None:
            precision = real(_read("scale", self._scale, hmc_sites, p)) ** -2 * precision
        offset = real(0.0 if self._intercept is None else gibbs_sites[self._intercept])
        mean, var = self._weights.moments(operands.features, weight[None], offset[None])
        power: Any = np.ones((), weight.dtype)
        if self._C is not None:
            power = real(_read("C", self._C, hmc_sites, n)) * operands.row_weight
        elif np.any(self._row_weight != 1):
            power = operands.row_weight
        key_aux, key_draw = jax.random.split(rng_key)
        drawn, intercept = self._weights.draw(
            key_aux, key_draw, operands.features, mean, var, power, precision[None],
            None if self._location is None else real(self._location),
        )  # fmt: skip
        sites = {self._weight: drawn[0]}
        if self._intercept is not None:
            sites[self._intercept] = intercept[0]
        return sites

    def _operands(self, dtype: str) -> _Operands:
        """Data in the precision of the sites."""
        if dtype not in self._bound:
            # NumPyro calls under a trace; the operands must be plain arrays.
            with jax.ensure_compile_time_eval():
                real = partial(jnp.asarray, dtype=dtype)
                columns = (dense_columns if self._dense else sparse_columns)(self._data.X, np.dtype(dtype))
                coefficients = Coefficients(*(real(part)[None] for part in self._noise))
                features = NoisedFeatures(columns, coefficients, real(self._data.target))
                self._bound[dtype] = _Operands(features, real(self._row_weight), real(self._prior))
        return self._bound[dtype]


def _read(name: str, source: str | FromSites, sites: Sites, q: int) -> Any:
    """A hyper-parameter, () or (q,), from the other sites; Any, because a user's function may return a number."""
    if callable(source):
        value = source(sites)
    elif source in sites:
        value = sites[source]
    else:
        raise ValueError(f"{name}: expected a site {source!r} besides this block, got {sorted(sites)}.")
    if jnp.shape(value) not in ((), (1,), (q,)):
        raise ValueError(f"{name}: expected one number or {q} of them, got shape {jnp.shape(value)} from {source!r}.")
    return value
