"""The one seam to ArviZ: groups are plain xarray datasets until the last line.

ArviZ before 1.0 holds them in an ``InferenceData``, later versions in an ``xarray.DataTree``. Only this module asks
which.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["arviz", "assemble", "dataset", "extend", "group_names", "load", "save"]


def arviz() -> Any:
    """Import ArviZ without the announcement of its successor that version 0.23 makes once a day."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz as az

    return az


def _has_data_tree() -> bool:
    return int(version("arviz").split(".")[0]) >= 1


def assemble(groups: Mapping[str, xr.Dataset], attrs: Mapping[str, str | int | float] | None = None) -> Any:
    """Join datasets into what the installed ArviZ works with.

    Parameters
    ----------
    groups : mapping from group name to xarray.Dataset
        ArviZ groups such as ``posterior`` and ``observed_data``.
    attrs : mapping, optional
        Attributes of the whole; netCDF takes text and numbers, no booleans.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree

    Examples
    --------
    >>> import xarray as xr
    >>> tree = assemble({"posterior": xr.Dataset({"rate": (("chain", "draw"), [[0.5]])})}, {"seed": 0})
    >>> group_names(tree)
    ['posterior']
    >>> dataset(tree, "posterior")["rate"].shape
    (1, 1)
    """
    attrs = dict(attrs or {})
    if _has_data_tree():
        import xarray as xr

        tree = xr.DataTree.from_dict({f"/{name}": group for name, group in groups.items()})
        tree.attrs.update(attrs)
        return tree
    return arviz().InferenceData(attrs=attrs, **groups)


def group_names(tree: Any) -> list[str]:
    """Names of the groups, with either ArviZ; see ``assemble``."""
    return list(tree.children) if hasattr(tree, "children") else list(tree.groups())


def dataset(tree: Any, group: str) -> xr.Dataset:
    """Dataset of one group, with either ArviZ; see ``assemble``.

    Raises
    ------
    KeyError
        If there is no such group; the message lists those that there are.
    """
    if group not in group_names(tree):
        raise KeyError(f"no group {group!r}; expected one of {group_names(tree)}.")
    node = tree[group]
    return node.to_dataset() if hasattr(node, "to_dataset") else node


def extend(tree: Any, groups: Mapping[str, xr.Dataset]) -> Any:
    """Add groups, or replace those of the same name, in a new object that shares the others; see ``assemble``.

    Examples
    --------
    >>> import xarray as xr
    >>> one = xr.Dataset({"y": ("obs_id", [0.5])})
    >>> group_names(extend(assemble({"posterior": one}), {"log_likelihood": one}))
    ['posterior', 'log_likelihood']
    """
    return assemble({**{name: dataset(tree, name) for name in group_names(tree)}, **groups}, tree.attrs)


def save(tree: Any, path: Any) -> None:
    """Write all groups to one netCDF file, with either ArviZ."""
    if _has_data_tree():
        tree.to_netcdf(path, engine="h5netcdf")
    else:
        tree.to_netcdf(str(path), engine="h5netcdf")


def load(path: Any) -> Any:
    """Read what ``save`` wrote into memory."""
    if _has_data_tree():
        import xarray as xr

        with xr.open_datatree(path, engine="h5netcdf") as tree:
            return tree.load()
    return arviz().from_netcdf(str(path), engine="h5netcdf")
