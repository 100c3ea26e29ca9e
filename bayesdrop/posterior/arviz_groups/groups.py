"""Convert groups of a posterior, xarray datasets, to and from ArviZ.

ArviZ before 1.0 uses an ``InferenceData``, later versions an ``xarray.DataTree``. Only this module distinguishes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._arviz import arviz
from ..._netcdf import read_netcdf, reading, write_netcdf
from ..._stored import check_plain, stored_numbers
from ..._validation import shown
from ...description import attributes, carried, carrying, required_model, warn_of_formula
from ...model import check_model

if TYPE_CHECKING:
    import xarray as xr

    from ...model import Model

__all__ = ["assemble", "dataset", "extend", "group_names", "load", "read_attributes", "save"]


def assemble(groups: Mapping[str, xr.Dataset], attrs: Mapping[str, Any] | None = None) -> Any:
    """Join datasets into the object that the installed ArviZ uses.

    Parameters
    ----------
    groups : mapping from group name to xarray.Dataset
        ArviZ groups such as ``posterior`` and ``observed_data``.
    attrs : mapping, optional
        Attributes of the whole; netCDF takes text and numbers, no booleans. A model object among them
        (:func:`bayesdrop.description.attributes`) is carried by every group in memory.

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
    import xarray as xr

    groups = {name: carrying(group, attrs or {}) for name, group in groups.items()}
    attrs = carrying(xr.Dataset(attrs=attrs), {}).attrs
    if int(version("arviz").split(".")[0]) >= 1:
        tree = xr.DataTree.from_dict({f"/{name}": group for name, group in groups.items()})
        tree.attrs.update(attrs)
        return tree
    return arviz().InferenceData(attrs=attrs, **groups)


def group_names(tree: Any) -> list[str]:
    """Names of the groups, with either ArviZ; see ``assemble``."""
    if hasattr(tree, "children"):
        return list(tree.children)
    if not callable(getattr(tree, "groups", None)) or isinstance(tree, type):
        raise TypeError(
            "tree: expected what bd.sample or bd.groups.load returned (InferenceData or DataTree), got "
            f"{type(tree).__name__}."
        )
    return list(tree.groups())


def dataset(tree: Any, group: str) -> xr.Dataset:
    """Dataset of one group, with either ArviZ; see ``assemble``.

    Raises
    ------
    TypeError, ValueError
        If there is no such group; the message lists the groups.
    """
    names = group_names(tree)
    if not isinstance(group, str):
        raise TypeError(f"group: expected the name of a group, one of {names}, got {shown(group)}.")
    if group not in names:
        raise ValueError(f"group: expected one of {names}, got {shown(group)}.")
    node = tree[group]
    group_dataset: xr.Dataset = node.to_dataset() if hasattr(node, "to_dataset") else node
    return group_dataset


def read_attributes(tree: Any) -> dict[str, Any]:
    """Attributes of a tree and its posterior, with the model object of a group in memory, if there is one.

    Examples
    --------
    >>> import xarray as xr
    >>> import bayesdrop as bd
    >>> tree = assemble({"posterior": xr.Dataset({"rate": 0.5})}, bd.description.attributes(bd.Model(C=0.5)))
    >>> read_attributes(tree)["bayesdrop_model"].C
    0.5
    """
    groups = {name: dataset(tree, name) for name in group_names(tree)}
    posterior_attrs = groups["posterior"].attrs if "posterior" in groups else {}
    return {**getattr(tree, "attrs", {}), **posterior_attrs, **carried(groups.values())}


def extend(tree: Any, groups: Mapping[str, xr.Dataset]) -> Any:
    """Add groups, or replace those of the same name, in a new object that shares the others; see ``assemble``.

    Examples
    --------
    >>> import xarray as xr
    >>> one = xr.Dataset({"y": ("obs_id", [0.5])})
    >>> group_names(extend(assemble({"posterior": one}), {"log_likelihood": one}))
    ['posterior', 'log_likelihood']
    """
    return assemble({**{name: dataset(tree, name) for name in group_names(tree)}, **groups}, read_attributes(tree))


def save(tree: Any, path: Any) -> None:
    """Write all groups to one netCDF file, with either ArviZ.

    An older file is replaced in one step; if writing fails, it is unchanged.

    Raises
    ------
    FileNotFoundError
        If the folder of ``path`` does not exist.

    Warns
    -----
    FormulaWarning
        If the formula of the posterior has Python code, which no file stores.

    Examples
    --------
    >>> import tempfile
    >>> import xarray as xr
    >>> path = tempfile.mkdtemp() + "/posterior.nc"
    >>> save(assemble({"posterior": xr.Dataset({"rate": (("chain", "draw"), [[0.5]])})}), path)
    >>> float(dataset(load(path), "posterior")["rate"].mean())
    0.5
    """
    import xarray as xr

    groups = {name: dataset(tree, name) for name in group_names(tree)}
    warn_of_formula(tree.attrs)
    write_netcdf({"/": xr.Dataset(attrs=tree.attrs), **groups}, path)


def load(path: Any, *, model: Model | None = None) -> Any:
    """Read what ``save`` wrote into memory.

    Parameters
    ----------
    path : path
        The file.
    model : Model, optional
        A model with the user-defined components of the posterior, which no file stores; all settings and other
        components are read from the file. By default only the draws are read, and functions that need such a component
        raise an error that names it.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is truncated or damaged, is not ArviZ's, refers to other files, claims more numbers than it can
        hold or memory allows, or holds draws that this package cannot have made; or if ``model`` lacks a user-defined
        component that the file names. The message names the file.
    """
    if model is not None:
        check_model(model)
    with reading(path, "a posterior", "bd.groups.save", "sample again") as file:
        groups = read_netcdf(file)
        root = groups.pop("/")
        if not groups:
            raise ValueError("it holds no ArviZ groups")
        for group in groups.values():
            check_plain(group)
        if root.attrs.get("inference_library") == "bayesdrop":
            _check_draws(groups)
        if model is None:
            return assemble(groups, root.attrs)
        passed_model = required_model(root.attrs, "bd.sample", "bd.groups.load", model)
        return assemble(groups, attributes(passed_model) | root.attrs)


# Variables that this package draws, and their ranges.
_RANGES = {"weight": (-np.inf, np.inf), "intercept": (-np.inf, np.inf), "rate": (0.0, 1.0), "sigma": (0.0, np.inf)}


def _check_draws(groups: Mapping[str, xr.Dataset]) -> None:
    """Raise ValueError if draws of this package are out of range, or not on chain and draw."""
    for variable in set(_RANGES) & set(groups.get("posterior", ())):
        group = groups["posterior"]
        if not {"chain", "draw"} <= set(group[variable].dims):
            raise ValueError(f"expected draws of {variable!r} on chain and draw, got {group[variable].dims}")
        minimum, maximum = _RANGES[variable]
        stored_numbers(group, variable, least=minimum, most=maximum)
