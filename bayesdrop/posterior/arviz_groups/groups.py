"""The one seam to ArviZ: groups are plain xarray datasets until the last line.

ArviZ before 1.0 holds them in an ``InferenceData``, later versions in an ``xarray.DataTree``. Only this module asks
which.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._arviz import arviz
from ..._atomic_files import write_netcdf
from ..._validation import check_path, shown

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["assemble", "dataset", "extend", "group_names", "load", "save"]


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
        If there is no such group; the message lists those that there are.
    """
    names = group_names(tree)
    if not isinstance(group, str):
        raise TypeError(f"group: expected the name of a group, one of {names}, got {shown(group)}.")
    if group not in names:
        raise ValueError(f"group: expected one of {names}, got {shown(group)}.")
    node = tree[group]
    found: xr.Dataset = node.to_dataset() if hasattr(node, "to_dataset") else node
    return found


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
    """Write all groups to one netCDF file, with either ArviZ.

    The file takes the place of an older one in one step; if writing fails, the older one is still there.

    Raises
    ------
    FileNotFoundError
        If the folder of ``path`` does not exist.

    Examples
    --------
    >>> import tempfile
    >>> import xarray as xr
    >>> path = tempfile.mkdtemp() + "/posterior.nc"
    >>> save(assemble({"posterior": xr.Dataset({"rate": (("chain", "draw"), [[0.5]])})}), path)
    >>> float(dataset(load(path), "posterior")["rate"].mean())
    0.5
    """
    group_names(tree)
    write_netcdf(tree, path)


def load(path: Any) -> Any:
    """Read what ``save`` wrote into memory.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file was cut short, is damaged, is none of ArviZ's, refers to other files, or claims far more numbers
        than it can hold; the message names the file.
    """
    file = check_path(path)
    if not file.exists():
        raise FileNotFoundError(f"path: there is no file {str(file)!r}; bd.groups.save writes one.")
    try:
        if file.is_dir():
            raise ValueError("it is a folder")
        _check_contents(file)
        if _has_data_tree():
            import xarray as xr

            with xr.open_datatree(file, engine="h5netcdf") as tree:
                tree = tree.load()
        else:
            tree = arviz().from_netcdf(str(file), engine="h5netcdf")
    except Exception as error:  # whatever HDF5, netCDF and xarray make of a broken file
        raise ValueError(
            f"path: {str(file)!r} cannot be read as a posterior ({type(error).__name__}: {str(error)[:200]}). It was "
            "cut short, or written by something else; sample again, or read it with the program that wrote it."
        ) from error
    return tree


# Deflate, which netCDF files use, makes nothing smaller than one part in 1032.
_MOST_COMPRESSED = 1032


def _check_contents(file: Path) -> None:
    """Raise ValueError if an HDF5 file leads to other files, or would swell beyond any honest compression."""
    import h5py

    total, seen = 0, set()
    with h5py.File(file, "r") as root:
        groups = [root]
        while groups:
            group = groups.pop()
            address = h5py.h5o.get_info(group.id).addr
            if address in seen:
                raise ValueError("its groups hold one another")
            seen.add(address)
            for name in group:
                if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                    raise ValueError(f"{name!r} is a link to elsewhere")
                entry = group[name]
                if isinstance(entry, h5py.Group):
                    groups.append(entry)
                elif isinstance(entry, h5py.Dataset):
                    if entry.external or entry.is_virtual:
                        raise ValueError(f"{name!r} lies in another file")
                    total += (entry.size or 0) * entry.dtype.itemsize
    if len(seen) == 1:
        raise ValueError("it holds no ArviZ groups")
    if total > 2**20 + _MOST_COMPRESSED * file.stat().st_size:
        raise ValueError(f"it claims {total} bytes of numbers and has {file.stat().st_size}")
