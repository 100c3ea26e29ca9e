"""Tabulate draws in a data frame: ``bd.draws_table``."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._typing import DataFrame
from ..._validation import check_choice, extra, shown
from .draws import read_group

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["draws_table"]


def draws_table(post: Any, variables: Any = None, *, backend: str = "pandas") -> DataFrame:
    """Return the draws of a posterior as a data frame, one row per chain and draw.

    Parameters
    ----------
    post : InferenceData or DataTree
        What ``bd.sample`` or another sampler here returned, ``bd.groups.load``, or any object of ArviZ with the group
        ``posterior``.
    variables : str or sequence of str, optional
        Variables, in order; all by default.
    backend : str, default="pandas"
        ``"pandas"`` or ``"polars"``, which has to be installed.

    Returns
    -------
    pandas.DataFrame or polars.DataFrame (chains · draws, ·)
        ``chain`` and ``draw``, chains one after another, and the variables: ``intercept``, ``weight[age]``,
        ``rate[age]``, and with classes ``weight[setosa, age]``, by the names along their dims.

    Raises
    ------
    TypeError, ValueError
        If ``post`` has no posterior, a variable is not in it, or two columns would have one name.
    ImportError
        If the backend is not installed.

    See Also
    --------
    weights_table, groups

    Examples
    --------
    >>> import bayesdrop as bd
    >>> import xarray as xr
    >>> rate = (("chain", "draw", "feature"), [[[0.1, 0.2], [0.3, 0.4]]])
    >>> draws = xr.Dataset({"rate": rate}, {"feature": ["a", "b"]})
    >>> bd.draws_table(bd.groups.assemble({"posterior": draws}))
       chain  draw  rate[a]  rate[b]
    0      0     0      0.1      0.2
    1      0     1      0.3      0.4
    """
    check_choice(backend, "backend", ("pandas", "polars"))
    posterior = read_group(post, "posterior")
    steps = [posterior.get_index(dim).to_numpy() for dim in ("chain", "draw")]
    names = ["chain", "draw"]
    columns = [np.repeat(steps[0], len(steps[1])), np.tile(steps[1], len(steps[0]))]
    for variable in _wanted(posterior, variables):
        array = posterior[variable].transpose("chain", "draw", ...)
        labels = itertools.product(*(array.get_index(dim) for dim in array.dims[2:]))
        names += [f"{variable}[{', '.join(map(str, label))}]" if label else variable for label in labels]
        columns += list(np.asarray(array.values).reshape(len(columns[0]), -1).T)
    table = dict(zip(names, columns, strict=True))
    if len(table) < len(names):
        raise ValueError(
            f"post: expected a different name for each number, got {len(table)} for {len(names)}; rename features, "
            "groups or classes."
        )
    return extra(backend, f'backend="{backend}" needs', "").DataFrame(table)


def _wanted(posterior: xr.Dataset, variables: Any) -> list[str]:
    """Names of requested variables, after a check that they exist."""
    names = [str(name) for name in posterior.data_vars]
    if variables is None:
        return names
    wanted = [variables] if isinstance(variables, str) else variables
    if isinstance(wanted, Mapping | bytes) or not isinstance(wanted, Iterable):
        raise TypeError(f"variables: expected names of variables, got {shown(variables)}; there are {names}.")
    wanted = list(wanted)
    if unknown := [name for name in wanted if not isinstance(name, str) or name not in names]:
        raise ValueError(f"variables: no variable {shown(unknown[0])} in the posterior; expected some of {names}.")
    return list(dict.fromkeys(wanted))
