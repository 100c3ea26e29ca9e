"""``sample_factorization``: the posterior of a factorisation whose columns are dropped, as ArviZ groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse

from .._typing import ArvizData, Bool, Float
from .._validation import (
    MOST_PARTS,
    check_choice,
    check_count,
    check_flag,
    check_instance,
    check_number,
    drawn_seed,
    shown,
    takes_seed,
)
from ..data.dataset import default_names
from ..designs import column_names, in_memory
from ..posterior.arviz_groups.builder import build_groups, draws_dataset, provenance
from ..posterior.arviz_groups.groups import assemble
from ..posterior.diagnostics.diagnosis import warn_of_run
from ..posterior.sampling import check_counts
from ..priors import Beta, InverseGamma
from ..sampling.run.late import LateInterruption

if TYPE_CHECKING:
    import xarray as xr

    from ..sampling.run.runner import Run

__all__ = ["sample_factorization"]

# Range of a standard deviation whose square and its reciprocal are finite in double precision.
_LEAST, _MOST = 1e-100, 1e100


@takes_seed
def sample_factorization(
    X: Any,
    n_components: int,
    *,
    retain_prior: Beta | None = None,
    variance_prior: InverseGamma | None = None,
    sigma: float | int | None = None,
    scale: float | int = 1.0,
    missing: str | None = None,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    seed: Any = 0,
    keep_fitted: bool = False,
    progress: bool = True,
) -> ArvizData:
    r"""Draw from the posterior of a matrix factorisation whose columns are retained or dropped.

        θ ~ Beta,   r_k ~ Bernoulli(θ),   u_ik, v_jk ~ N(0, scale²),   x_ij ~ N(Σ_k r_k u_ik v_jk, σ²)

    the Bayesian form of Cavazza et al. (2018) that :mod:`bayesdrop.models.matrix_factorization` states. ``θ`` is the
    probability that a column is **retained**; their factor ``1/θ`` is part of the factors' scale. The sampler is exact:
    masks with a factor integrated out, then the factor, rate and variance (:mod:`bayesdrop.factorization.gibbs`).

    Exchanging columns, or their signs, leaves the density unchanged, so draws of a column cannot be averaged, and only
    invariant quantities are returned and diagnosed.

    Chains start with every column retained and drop what the data do not support. A column returns only if a
    direction drawn from its prior happens to fit, so if two numbers of columns are about equally probable, a chain may
    stay at the one that it reached: R-hat of ``n_active`` is then large, a warning says so, and the chains together do
    not estimate the probabilities.

    Parameters
    ----------
    X : array or data frame (n, p)
        Data, about as large as ``scale² √n_components``; its columns are not centred.
    n_components : int
        Maximum number ``d`` of columns. A sweep costs ``O(n p d + d³)``, with missing entries
        ``O(n p d² + (n + p) d³)``.
    retain_prior : Beta, optional
        Prior of ``θ``; ``bd.Beta(1, 1)`` by default.
    variance_prior : InverseGamma, optional
        Prior of ``σ²``, in squared units of ``X``; ``bd.InverseGamma(1, 0.01)`` by default, worth two entries.
    sigma : float, optional
        Standard deviation of the noise, if it is known; then ``variance_prior`` must be None.
    scale : float, default=1.0
        Prior standard deviation of an entry of a factor, in units of ``√X``.
    missing : str, optional
        ``"nan"``: NaN marks an entry that was not observed. By default NaN raises an error.
    draws, tune, chains : int, default=(1000, 1000, 4)
        Draws kept per chain, warm-up draws discarded before them, and number of chains, which run in parallel.
    seed : int, numpy.random.Generator, RandomState or JAX key, default=0
        Same seed, same result, on one machine.
    keep_fitted : bool, default=False
        Add the group ``predictions`` with every draw of the fitted matrix ``Σ_k r_k u_ik v_jk``, missing entries
        included: ``chains · draws · n · p`` numbers.
    progress : bool, default=True
        Show a progress bar where standard error is a terminal; elsewhere, as in a notebook, one line at the end.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        ``posterior`` has ``n_active`` (how many columns are retained), ``retain`` (``θ``), ``sigma`` unless it is known
        and ``fitted_norm`` (Frobenius norm of the fitted matrix), all (chain, draw); ``sample_stats`` the log joint
        density ``lp``; ``observed_data`` the data as ``x`` (obs_id, feature); ``constant_data`` the priors.

    Raises
    ------
    ValueError
        If a setting is out of its range, an entry is not finite and not marked as missing, or no entry is observed.

    Warns
    -----
    IncompleteWarning
        If the run was interrupted from the keyboard; the finished draws are returned.
    MixingWarning
        If an R-hat is above 1.01 and above the largest expected of this number of quantities when the chains agree
        (:func:`bayesdrop.diagnose`), or an effective sample size (bulk or tail) is below 400.

    See Also
    --------
    DropoutMatrixFactorization

    Examples
    --------
    >>> import warnings
    >>> import bayesdrop as bd
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(30, 2)) @ rng.normal(size=(2, 12)) + 0.1 * rng.normal(size=(30, 12))
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # a few draws, for show
    ...     post = sample_factorization(X, 4, draws=20, tune=50, chains=2, progress=False)
    >>> int(np.median(bd.groups.dataset(post, "posterior")["n_active"]))
    2
    """
    data, seen, names = _checked(X, missing)
    check_count(n_components, "n_components", most=MOST_PARTS)
    check_count(tune, "tune")
    check_counts(draws, tune, chains)
    check_flag(keep_fitted, "keep_fitted")
    check_flag(progress, "progress")
    seed = drawn_seed(seed)
    check_number(scale, "scale", least=_LEAST, most=_MOST)
    if sigma is not None:
        check_number(sigma, "sigma", least=_LEAST, most=_MOST, advice="None learns it")
    if sigma is not None and variance_prior is not None:
        raise ValueError("variance_prior: expected None where sigma is known; leave one of the two out.")
    retain_prior = Beta() if retain_prior is None else retain_prior
    variance_prior = InverseGamma(1.0, 0.01) if variance_prior is None else variance_prior
    check_instance(retain_prior, "retain_prior", Beta, "a bd.Beta with one a and one b")
    if np.ndim(retain_prior.a) or np.ndim(retain_prior.b):
        raise TypeError(f"retain_prior: expected a bd.Beta with one a and one b, got {shown(retain_prior)}.")
    check_instance(variance_prior, "variance_prior", InverseGamma, "a bd.InverseGamma")

    import jax
    import jax.numpy as jnp

    from ..sampling.run.checks import check_process
    from ..sampling.run.runner import as_key, run
    from .gibbs import FactorizationKernel, Operands

    check_process()

    def number(value: Any) -> jax.Array:
        return jnp.asarray(float(value), jnp.float64)

    with jax.enable_x64(True):
        operands = Operands(
            jnp.asarray(np.where(seen, data, 0.0)),
            None if seen.all() else jnp.asarray(seen.astype(np.float64)),
            number(retain_prior.a),
            number(retain_prior.b),
            number(variance_prior.shape),
            number(variance_prior.scale),
            number(scale),
            number(np.mean(data[seen] ** 2) + variance_prior.mode if sigma is None else sigma**2),
        )
        kernel = FactorizationKernel(int(n_components), sigma is not None, bool(keep_fitted))
        late = LateInterruption()
        result = run(
            kernel, operands, as_key(seed), tune=int(tune), draws=int(draws), chains=int(chains), progress=progress,
            late=late,
        )  # fmt: skip
    constants: dict[str, float] = {
        "retain_prior_a": float(retain_prior.a), "retain_prior_b": float(retain_prior.b), "scale": float(scale),
        "n_components": int(n_components),
    }  # fmt: skip
    if sigma is not None:
        constants["sigma_known"] = float(sigma)
    else:
        constants |= {"variance_prior_shape": variance_prior.shape, "variance_prior_scale": variance_prior.scale}
    with late.whole():
        groups = _groups(result, np.where(seen, data, np.nan), names, constants)
    attrs = provenance(
        inference_method="mcmc",
        method="Gibbs, masks with a factor integrated out",
        target="factorization",
        model="matrix_factorization",
        seed=seed,
        run=result,
        tune=tune,
    )
    for group in groups.values():
        group.attrs.update(attrs)
    late.optional("the diagnosis (bd.diagnose)", lambda: warn_of_run(groups, attrs, draws), None)
    with late.whole():
        posterior = assemble(groups, attrs)
    late.warn()
    return posterior


def _checked(X: Any, missing: str | None) -> tuple[Float[np.ndarray, "n p"], Bool[np.ndarray, "n p"], list[str]]:
    """Data (n, p) in double precision, whether each entry is observed (n, p), and the names of the columns."""
    from sklearn.utils import check_array

    check_choice(missing, "missing", ("nan", None))
    if issparse(X):
        raise ValueError(
            "X: expected a dense array, got a sparse matrix; the sampler keeps every entry. Use a part of it, or "
            'bd.DropoutMatrixFactorization(missing="zeros"), which keeps it sparse.'
        )
    names = column_names(X)
    data = check_array(in_memory(X), dtype=np.float64, ensure_all_finite="allow-nan")
    seen = ~np.isnan(data)
    if missing is None and not seen.all():
        raise ValueError(
            'X: contains NaN, which is not marked as missing; use missing="nan" if these entries are, or fill them in.'
        )
    if not seen.any():
        raise ValueError("X: expected at least one observed entry, got none.")
    return data, seen, default_names(data.shape[1]) if names is None else names


def _groups(
    run: Run,
    data: Float[np.ndarray, "n p"],
    names: list[str],
    constants: dict[str, float],
) -> dict[str, xr.Dataset]:
    import xarray as xr

    coords = {"obs_id": np.arange(data.shape[0]), "feature": np.array(names)}
    groups = build_groups(
        run.draws,
        variables={name: dims for name, dims in run.variables.items() if name != "fitted"},
        statistics=run.statistics,
        coords=coords,
        observed=xr.Dataset({"x": (("obs_id", "feature"), data)}, coords=coords),
        constants={name: ((), value) for name, value in constants.items()},
    )
    if "fitted" in run.draws:
        groups["predictions"] = draws_dataset(run.draws, {"fitted": ("obs_id", "feature")}, coords)
    return groups
