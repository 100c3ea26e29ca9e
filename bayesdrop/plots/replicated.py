"""Observed and replicated responses of a posterior, for the plots of predictive checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._typing import Float, Int, Num, Shaped
from .._validation import shown
from ..description import stored_facts, stored_model
from ..effects.naming import response_name
from ..posterior.arviz_groups.groups import dataset, group_names
from ..posterior.draws.draws import read_group

__all__ = ["Replicated", "ends", "read_replicated", "rows_by"]

_MOST_GROUPS = 12  # maximum number of panels, or of bars in one panel


@dataclass(frozen=True)
class Replicated:
    """Observed and replicated responses of the fitted rows.

    Attributes
    ----------
    observed : array (n,)
        Numbers, counts, or indices of classes.
    drawn : array (S, n)
        Replicated responses, one data set per row.
    name : str
        Name of the response.
    labels : list of str or None
        Labels of the classes; None for numbers and counts.
    """

    observed: Num[np.ndarray, " n"]
    drawn: Num[np.ndarray, "S n"]
    name: str
    labels: list[str] | None

    @property
    def is_whole(self) -> bool:
        """Whether responses are counts or classes."""
        return bool(self.observed.dtype.kind in "iub")

    def some(self, count: int) -> Num[np.ndarray, "some n"]:
        """At most ``count`` of the replicated data sets, spread evenly over the draws."""
        places = np.linspace(0, len(self.drawn) - 1, min(count, len(self.drawn))).round().astype(int)
        return self.drawn[places]


def read_replicated(post: Any) -> Replicated:
    """Observed and replicated responses of a posterior.

    Raises
    ------
    TypeError, ValueError
        If ``post`` is not a posterior, or has no group ``posterior_predictive`` or ``observed_data``.

    Examples
    --------
    >>> import xarray as xr
    >>> import bayesdrop as bd
    >>> groups = {"observed_data": xr.Dataset({"y": ("obs_id", [0, 3])}),
    ...           "posterior_predictive": xr.Dataset({"y": (("chain", "draw", "obs_id"), [[[1, 2], [0, 4]]])})}
    >>> read_replicated(bd.groups.assemble(groups)).drawn.tolist()
    [[1, 2], [0, 4]]
    """
    observed = read_group(post, "observed_data")
    if "posterior_predictive" not in group_names(post):
        raise ValueError(
            "post: expected a group 'posterior_predictive', got none; add it by bd.posterior_predictive(post, X), with "
            "the rows that were sampled."
        )
    drawn = dataset(post, "posterior_predictive")
    variable = next((name for name in observed.data_vars if name in drawn), None)
    if variable is None:
        raise ValueError(
            f"post: expected one variable in observed_data and posterior_predictive, got {list(observed.data_vars)} "
            f"and {list(drawn.data_vars)}."
        )
    y, values = observed[variable], drawn[variable].transpose("chain", "draw", ...)
    attrs = dict(getattr(post, "attrs", {}))
    if "posterior" in group_names(post):
        attrs |= dataset(post, "posterior").attrs
    model = stored_model(attrs)
    labels = [str(label) for label in observed["class"].values] if "class" in observed.coords else None
    if labels is None and model is not None and model.loss.binary:
        labels = ["0", "1"]
    name = response_name(stored_facts(attrs).formula)
    return Replicated(
        np.asarray(y.values), np.asarray(values.values).reshape(-1, y.size),
        str(variable) if name == "y" else name, labels,
    )  # fmt: skip


def rows_by(by: Any, n: int) -> tuple[str, list[str], Int[np.ndarray, " n"]]:
    """Name of a column, its different values as texts, and the index of each row's value.

    Raises
    ------
    ValueError
        If the column has another number of rows, missing values, or more than twelve different values.

    Examples
    --------
    >>> rows_by(["n", "s", "n"], 3)[1:]
    (['n', 's'], array([0, 1, 0]))
    """
    import pandas as pd

    column: Shaped[np.ndarray, ...] = np.asarray(by, dtype=object)
    if column.shape != (n,):
        raise ValueError(
            f"by: expected a value for each of the {n} rows that were sampled, such as data['site'], got {shown(by)}."
        )
    if pd.isna(column).any():
        raise ValueError("by: missing values; fill them, with 'missing' for example.")
    values = getattr(getattr(by, "cat", None), "categories", None)
    values = sorted(set(column.tolist()), key=str) if values is None else [v for v in values if v in set(column)]
    if len(values) > _MOST_GROUPS:
        raise ValueError(
            f"by: {len(values)} different values, at most {_MOST_GROUPS} have a place; cut a number into intervals, as "
            "pandas.cut(x, 4) does."
        )
    place = {value: k for k, value in enumerate(values)}
    name = getattr(by, "name", None)
    return (
        "group" if name is None else str(name), [str(value) for value in values],
        np.array([place[value] for value in column.tolist()]),
    )  # fmt: skip


def ends(drawn: Float[np.ndarray, "S k"], probability: float) -> Float[np.ndarray, "2 k"]:
    """Equal-tailed intervals of columns of draws."""
    return np.asarray(np.quantile(drawn, [(1 - probability) / 2, (1 + probability) / 2], axis=0))
