"""Build ArviZ groups from draws: the same groups, names and attributes for every posterior.

Who has draws says which of them are variables, on which dims, and which are statistics of the sampler. What a model
holds besides its draws, priors and fixed rates, is in :mod:`.constants`.

Variables whose draws were not kept have summaries, and a few draws: ``posterior_summary`` has each of them on
``statistic``: mean, sd, quantiles, R-hat and effective sample size, as :mod:`bayesdrop.sampling.run.summary` states
them. ``posterior_thinned`` has every variable of the posterior at the same few draws, evenly spaced, from which the
quantiles are.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._memory import BLOCK
from ..._typing import Float, Shaped
from .groups import dataset, group_names

if TYPE_CHECKING:
    import xarray as xr

    from ...sampling.run.runner import Run

__all__ = [
    "Attributes",
    "build_groups",
    "draws_dataset",
    "needs_all_draws",
    "not_kept",
    "provenance",
    "summary_groups",
    "STATISTICS",
    "SUMMARY",
    "THINNED",
]

Attributes = dict[str, str | int | float]
"""Attributes of a group: text and numbers only, as netCDF takes them."""

_CHAIN_DRAW = ("chain", "draw")


def draws_dataset(
    draws: Mapping[str, Any], variables: Mapping[str, tuple[str, ...]], coords: Mapping[str, Any]
) -> xr.Dataset:
    """Draws by name as one dataset on ``chain``, ``draw`` and the dims of each variable.

    Parameters
    ----------
    draws : mapping from name to array (C, S, …)
        Draws of ``C`` chains, ``S`` of each; names that are no variables are left out.
    variables : mapping from name to dims
        Dims after chain and draw, such as ``{"weight": ("feature",), "intercept": ()}``.
    coords : mapping from dim to labels
        Labels along those dims; dims that no variable has are left out.

    Examples
    --------
    >>> draws_dataset({"rate": np.zeros((4, 10, 2))}, {"rate": ("feature",)}, {"feature": ["age", "size"]})["rate"].dims
    ('chain', 'draw', 'feature')
    """
    return _labelled({name: ((*_CHAIN_DRAW, *dims), draws[name]) for name, dims in variables.items()}, coords)


def build_groups(
    draws: Mapping[str, Any],
    *,
    variables: Mapping[str, tuple[str, ...]],
    statistics: Sequence[str] = (),
    coords: Mapping[str, Any],
    observed: xr.Dataset,
    constants: Mapping[str, tuple[Any, Any]],
) -> dict[str, xr.Dataset]:
    """Groups of a posterior: draws, statistics of the sampler, the response and what was held fixed.

    Parameters
    ----------
    draws : mapping from name to array (C, S, …)
        Variables and statistics, as :class:`bayesdrop.sampling.run.runner.Run` has them.
    variables : mapping from name to dims
        What is a variable, with its dims after chain and draw.
    statistics : sequence of str
        What is a statistic, one number a draw; those that are not among ``draws`` were not recorded. Without any there
        is no group ``sample_stats``.
    coords : mapping from dim to labels
        Labels along the dims of variables and constants.
    observed : xarray.Dataset
        The group ``observed_data``.
    constants : mapping from name to (dims, value)
        The group ``constant_data``.

    Returns
    -------
    dict from group name to xarray.Dataset
        ``posterior``, ``sample_stats``, ``observed_data`` and ``constant_data``.

    Examples
    --------
    >>> import xarray as xr
    >>> groups = build_groups(
    ...     {"weight": np.zeros((2, 5, 1)), "lp": np.zeros((2, 5))}, variables={"weight": ("feature",)},
    ...     statistics=["lp"], coords={"feature": ["age"]}, observed=xr.Dataset(), constants={})
    >>> sorted(groups)
    ['constant_data', 'observed_data', 'posterior', 'sample_stats']
    """
    groups = {"posterior": draws_dataset(draws, variables, coords)}
    recorded = {name: () for name in statistics if name in draws}
    if recorded:
        groups["sample_stats"] = draws_dataset(draws, recorded, {})
    return groups | {"observed_data": observed, "constant_data": _labelled(constants, coords)}


def provenance(
    *, inference_method: str, method: str, target: str, model: str, seed: Any, run: Run | None = None, tune: int = 0
) -> Attributes:
    """Where draws come from: the library and its neighbours, what was drawn by which method, and how the run went.

    Parameters
    ----------
    inference_method : str
        ``"mcmc"``, ``"variational"`` or ``"prior"``.
    method : str
        The method with its settings, as ``repr`` shows it.
    target : str
        Which density: ``"noising"``, ``"marginalised"``, ``"hidden layer"`` or ``"factorization"``.
    model : str
        The model, as ``repr`` shows it; :func:`bayesdrop.description.attributes` says how it is read back.
    seed : int or JAX key
        As the user gave it.
    run : Run, optional
        The run of a sampler, with its time and its end.
    tune : int
        Draws of the run that were discarded.

    Examples
    --------
    >>> found = provenance(inference_method="prior", method="direct", target="noising", model="Model()", seed=0)
    >>> found["inference_library"], found["seed"]
    ('bayesdrop', 0)
    """
    attrs: Attributes = {
        "inference_library": "bayesdrop",
        "inference_library_version": version("bayesdrop"),
        **{f"{name}_version": version(name) for name in ("jax", "numpyro", "arviz")},
        "created_at": datetime.datetime.now(datetime.UTC).isoformat(),
        "inference_method": inference_method,
        "method": method,
        "target": target,
        "model": model,
        "seed": int(seed) if isinstance(seed, int | np.integer) else repr(seed),
    }
    if run is not None:
        attrs |= {
            "sampling_time": run.seconds,
            "tuning_steps": int(tune),
            "complete": int(run.complete),
            "stopped": run.stopped,
        }
    return attrs


def _labelled(variables: Mapping[str, tuple[Any, Any]], coords: Mapping[str, Any]) -> xr.Dataset:
    """Variables with labels along every dim: those given, else numbers from 0."""
    import xarray as xr

    plain = xr.Dataset(dict(variables))
    labels: Iterable[tuple[str, Any]] = (
        (str(dim), np.asarray(coords[str(dim)]) if dim in coords else np.arange(size))
        for dim, size in plain.sizes.items()
    )
    return plain.assign_coords(dict(labels))


SUMMARY, THINNED = "posterior_summary", "posterior_thinned"
_QUANTILES = {"q5": 0.05, "q25": 0.25, "median": 0.5, "q75": 0.75, "q95": 0.95}
STATISTICS = ("mean", "sd", *_QUANTILES, "r_hat", "ess")
"""What there is of a number whose draws were not kept, in order."""


def summary_groups(run: Run, posterior: xr.Dataset, coords: Mapping[str, Any]) -> dict[str, xr.Dataset]:
    """Both groups; none if all draws were kept.

    Parameters
    ----------
    run : Run
        With its summaries.
    posterior : xarray.Dataset
        The variables whose draws were kept.
    coords : mapping from dim to labels
        Labels along the dims of variables.
    """
    import xarray as xr

    if not run.summaries:
        return {}
    dims = {name: run.variables[name] for name in run.summaries}
    few = draws_dataset({name: part.draws for name, part in run.summaries.items()}, dims, coords)
    few = few.assign_coords(draw=run.steps)
    stacked = {}
    for name, part in run.summaries.items():
        ends = _quantiles(part.draws)
        stacked[name] = (("statistic", *dims[name]), np.stack([part.mean, part.sd, *ends, part.r_hat, part.ess]))
    labels = {str(dim): few[dim] for dim in few.dims if dim not in ("chain", "draw")}
    summary = xr.Dataset(stacked, coords={"statistic": list(STATISTICS), **labels})
    return {SUMMARY: summary, THINNED: few.assign(posterior.isel(draw=run.steps).data_vars)}


def _quantiles(draws: Shaped[np.ndarray, "C m ..."]) -> Float[np.ndarray, "q ..."]:
    """Quantiles over chains and draws, some numbers at a time."""
    flat = draws.reshape(*draws.shape[:2], -1)
    found = np.empty((len(_QUANTILES), flat.shape[2]))
    step = max(1, BLOCK // (draws.shape[0] * draws.shape[1]))
    for start in range(0, flat.shape[2], step):
        some = flat[:, :, start : start + step].astype(np.float64)
        found[:, start : start + step] = np.quantile(some, list(_QUANTILES.values()), axis=(0, 1))
    return found.reshape(-1, *draws.shape[2:])


def not_kept(post: Any) -> list[str]:
    """Variables of a posterior whose draws were not kept."""
    names = group_names(post)
    return [str(name) for name in dataset(post, SUMMARY).data_vars] if {SUMMARY, THINNED} <= set(names) else []


def needs_all_draws(names: Sequence[str]) -> str:
    """What to do where draws that were not kept are needed, to be said after what is expected."""
    listed = ", ".join(map(repr, names))
    return (
        f"the draws of {listed} were not kept one by one (`variables` of bd.sample), and this needs them all. Sample "
        f"again without `variables`, or with {listed} in it; bd.predict, bd.elpd and bd.weights_table make do with the "
        f"few draws of the group {THINNED!r}, and {SUMMARY!r} has means, quantiles and diagnostics."
    )
