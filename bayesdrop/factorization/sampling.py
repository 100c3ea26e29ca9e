"""``sample_factorization``: the posterior of a factorisation whose columns are dropped, as ArviZ groups."""

from __future__ import annotations

import datetime
import warnings
from importlib.metadata import version
from typing import Any

import numpy as np

from .._validation import check_choice, check_count, check_flag, check_instance, check_number, shown
from ..data import feature_names_of
from ..designs import in_memory
from ..diagnosis import diagnose_groups
from ..groups import assemble
from ..priors import Beta, InverseGamma

__all__ = ["sample_factorization"]

Array = Any


def sample_factorization(
    X: Any,
    n_components: int,
    *,
    retain_prior: Beta | None = None,
    variance_prior: InverseGamma | None = None,
    sigma: float | None = None,
    scale: float = 1.0,
    missing: str | None = None,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    seed: Any = 0,
    keep_fitted: bool = False,
    progress: bool = True,
) -> Any:
    r"""Draw from the posterior of a matrix factorisation whose columns are retained or dropped.

        θ ~ Beta,   r_k ~ Bernoulli(θ),   u_ik, v_jk ~ N(0, scale²),   x_ij ~ N(Σ_k r_k u_ik v_jk, σ²)

    the Bayesian form of Cavazza et al. (2018) that :mod:`bayesdrop.models.matrix_factorization` states. ``θ`` is the
    probability that a column is **retained**; their factor ``1/θ`` is part of the factors' scale. The sampler is exact:
    masks with a factor integrated out, then the factor, rate and variance (:mod:`bayesdrop.factorization.gibbs`).

    Columns may change places, and signs, without changing the density, so draws of a column cannot be averaged, and
    only what this leaves as it is is returned and diagnosed.

    Chains start with every column retained and drop what the data do not support. A column comes back only if a
    direction drawn from its prior happens to fit, so where one more column is as likely as not, a chain may stay with
    the number that it came to: R-hat of ``n_active`` is then large, the warning says so, and the chains together are
    no estimate of its probability.

    Parameters
    ----------
    X : array or data frame (n, p)
        Data, about as large as ``scale² √n_components``; its columns are not centred.
    n_components : int
        Most columns ``d``, at least 1. A sweep costs ``O(n p d + d³)``, or ``O(n p d² + n d³)`` with missing entries.
    retain_prior : Beta, optional
        Of ``θ``; ``bd.Beta(1, 1)`` by default.
    variance_prior : InverseGamma, optional
        Of ``σ²``, in squared units of ``X``; ``bd.InverseGamma(1, 0.01)`` by default, worth two entries.
    sigma : float, optional
        Standard deviation of the noise, if it is known; takes no ``variance_prior``.
    scale : float
        Prior standard deviation of an entry of a factor, in units of ``√X``.
    missing : str, optional
        ``"nan"``: NaN is an entry that was not observed.
    draws, tune, chains : int
        Draws kept of each chain, draws thrown away before them, and chains, which run side by side.
    seed : int or JAX key
        Same seed, same result, on one machine.
    keep_fitted : bool
        Add the group ``predictions`` with every draw of the fitted matrix ``Σ_k r_k u_ik v_jk``, missing entries
        included: ``chains · draws · n · p`` numbers.
    progress : bool
        Show a progress bar.

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
    MixingWarning
        If some R-hat is above 1.01 or some effective sample size (bulk or tail) below 400.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(30, 2)) @ rng.normal(size=(2, 12)) + 0.1 * rng.normal(size=(30, 12))
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # a few draws, for show
    ...     post = sample_factorization(X, 4, draws=20, tune=50, chains=2, progress=False)
    >>> int(np.median(bd.groups.dataset(post, "posterior")["n_active"]))
    2
    """
    from ..inference.sampling import MOST_CHAINS, MOST_DRAWS

    data, seen, names = _checked(X, missing)
    check_count(n_components, "n_components", most=10**6)
    check_count(draws, "draws", most=MOST_DRAWS)
    check_count(tune, "tune", most=MOST_DRAWS)
    check_count(chains, "chains", most=MOST_CHAINS)
    check_flag(keep_fitted, "keep_fitted")
    check_flag(progress, "progress")
    check_number(scale, "scale", above=0)
    if sigma is not None:
        check_number(sigma, "sigma", above=0, advice="None learns it")
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

    from ..inference.runner import as_key, run
    from .gibbs import FactorizationKernel, Operands

    with jax.enable_x64(True):
        number = lambda value: jnp.asarray(float(value), jnp.float64)  # noqa: E731
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
        found = run(
            kernel, operands, as_key(seed), tune=int(tune), draws=int(draws), chains=int(chains), progress=progress
        )
    attrs: dict[str, str | int | float] = {
        "inference_library": "bayesdrop",
        "inference_library_version": version("bayesdrop"),
        **{f"{name}_version": version(name) for name in ("jax", "arviz")},
        "created_at": datetime.datetime.now(datetime.UTC).isoformat(),
        "sampling_time": found.seconds,
        "tuning_steps": int(tune),
        "complete": int(found.complete),
        "seed": int(seed) if isinstance(seed, int | np.integer) else repr(seed),
        "model": "matrix_factorization",
        "sampler": "Gibbs, masks with a factor integrated out",
    }
    groups = _groups(found.draws, np.where(seen, data, np.nan), names)
    groups["constant_data"] = groups["constant_data"].assign(
        retain_prior_a=float(retain_prior.a), retain_prior_b=float(retain_prior.b), scale=float(scale),
        n_components=int(n_components), **(
            {"sigma_known": float(sigma)} if sigma is not None else
            {"variance_prior_shape": variance_prior.shape, "variance_prior_scale": variance_prior.scale}
        ),
    )  # fmt: skip
    for group in groups.values():
        group.attrs.update(attrs)
    advice = diagnose_groups(groups, attrs).advice
    if advice:
        from ..inference.sampling import MixingWarning

        warnings.warn(advice, MixingWarning, stacklevel=2)
    return assemble(groups, attrs)


def _checked(X: Any, missing: str | None) -> tuple[Array, Array, list[str]]:
    """Data (n, p) in double precision, what of it is observed, and the names of the columns."""
    from sklearn.utils import check_array

    check_choice(missing, "missing", ("nan", None))
    if hasattr(X, "tocsr"):
        raise ValueError(
            "X: expected a dense array, got a sparse matrix; the sampler keeps every entry. Take a part of it, or "
            'bd.DropoutMatrixFactorization(missing="zeros"), which keeps it sparse.'
        )
    names = feature_names_of(X) if hasattr(X, "columns") else None
    data = check_array(in_memory(X), dtype=np.float64, ensure_all_finite="allow-nan")
    seen = ~np.isnan(data)
    if missing is None and not seen.all():
        raise ValueError(
            'X: contains NaN, which is not marked as missing; take missing="nan" if these entries are, or fill them in.'
        )
    if not seen.any():
        raise ValueError("X: expected at least one observed entry, got none.")
    return data, seen, feature_names_of(data) if names is None else names


def _groups(draws: dict[str, Array], data: Array, names: list[str]) -> dict[str, Any]:
    import xarray as xr

    chains, length = draws["lp"].shape
    steps = {"chain": np.arange(chains), "draw": np.arange(length)}
    cells = {"obs_id": np.arange(data.shape[0]), "feature": np.array(names)}
    scalars = [name for name in draws if name not in ("lp", "fitted")]
    groups = {
        "posterior": xr.Dataset({name: (("chain", "draw"), draws[name]) for name in scalars}, coords=steps),
        "sample_stats": xr.Dataset({"lp": (("chain", "draw"), draws["lp"])}, coords=steps),
        "observed_data": xr.Dataset({"x": (("obs_id", "feature"), data)}, coords=cells),
        "constant_data": xr.Dataset(),
    }
    if "fitted" in draws:
        dims = ("chain", "draw", "obs_id", "feature")
        groups["predictions"] = xr.Dataset({"fitted": (dims, draws["fitted"])}, coords=steps | cells)
    return groups
