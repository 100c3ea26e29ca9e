"""Build ArviZ groups from draws: the same groups, names and attributes for every posterior.

The caller states the variables with their dims, and the statistics of the sampler. Constants of a model, such as priors
and fixed rates, are in :mod:`.constants`.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

    from ...sampling.run.runner import Run

__all__ = ["Attributes", "build_groups", "draws_dataset", "provenance"]

Attributes = dict[str, str | int | float]
"""Attributes of a group: text and numbers only, because of netCDF."""

_CHAIN_DRAW = ("chain", "draw")


def draws_dataset(
    draws: Mapping[str, Any], variables: Mapping[str, tuple[str, ...]], coords: Mapping[str, Any]
) -> xr.Dataset:
    """Draws by name as one dataset on ``chain``, ``draw`` and the dims of each variable.

    Parameters
    ----------
    draws : mapping from name to array (C, S, …)
        Draws of ``C`` chains, ``S`` of each; names without an entry in ``variables`` are left out.
    variables : mapping from name to dims
        Dims after chain and draw, such as ``{"weight": ("feature",), "intercept": ()}``.
    coords : mapping from dim to labels
        Labels along those dims; unused dims are left out.

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
    """Groups of a posterior: draws, statistics of the sampler, the response and constants.

    Parameters
    ----------
    draws : mapping from name to array (C, S, …)
        Variables and statistics, as :class:`bayesdrop.sampling.run.runner.Run` has them.
    variables : mapping from name to dims
        Variables, with dims after chain and draw.
    statistics : sequence of str
        Names of statistics, one number per draw; those that are not among ``draws`` were not recorded. Without any the
        group ``sample_stats`` is left out.
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
    *,
    inference_method: str,
    method: str,
    target: str,
    model: str,
    seed: Any,
    run: Run | None = None,
    tune: int = 0,
    thin: int = 1,
) -> Attributes:
    """Attributes of the origin of draws: versions of libraries, target, method, and statistics of the run.

    Parameters
    ----------
    inference_method : str
        ``"mcmc"``, ``"variational"`` or ``"prior"``.
    method : str
        The method with its settings, as ``repr`` shows it.
    target : str
        Target density: ``"noising"``, ``"marginalised"``, ``"hidden layer"`` or ``"factorization"``.
    model : str
        The model, as ``repr`` shows it; :func:`bayesdrop.description.attributes` says how it is read back.
    seed : int or JAX key
        Seed as passed.
    run : Run, optional
        The run of a sampler, with its time and its end.
    tune, thin : int
        Number of discarded draws, and number of later draws of a chain per kept draw.

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
            "thin": int(thin),
            "complete": int(run.complete),
            "stopped": run.stopped,
        }
    return attrs


def _labelled(variables: Mapping[str, tuple[Any, Any]], coords: Mapping[str, Any]) -> xr.Dataset:
    """Variables with labels along every dim, by default numbers from 0."""
    import xarray as xr

    plain = xr.Dataset(dict(variables))
    labels: Iterable[tuple[str, Any]] = (
        (str(dim), np.asarray(coords[str(dim)]) if dim in coords else np.arange(size))
        for dim, size in plain.sizes.items()
    )
    return plain.assign_coords(dict(labels))
