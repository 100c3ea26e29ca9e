"""How the columns of a table became features, kept so that other rows become the same features."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .._stored import stored_names, stored_numbers
from .._typing import Bool, Float
from .frames import listed
from .table_files import InputError, known_column

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Encoding", "count_missing", "numbers", "refuse_missing"]

_VARIABLES = ("table_column", "table_level", "table_is_level", "table_centre", "table_scale")
_TARGET, _IDENTIFIERS = "table_target", "table_identifiers"


@dataclass(frozen=True)
class Encoding:
    """Features from the columns of a table.

    Attributes
    ----------
    columns : list of p str
        Column of each feature.
    levels : list of p str
        Level whose indicator the feature is, as text; empty for a number.
    is_level : bool array (p,)
        Whether it is an indicator.
    centre, scale : array (p,)
        What was subtracted from and divided out of a number.
    target : str
        Column of the response.
    identifiers : list of str
        Columns that tell rows apart and are no features.
    """

    columns: list[str]
    levels: list[str]
    is_level: Bool[np.ndarray, " p"]
    centre: Float[np.ndarray, " p"]
    scale: Float[np.ndarray, " p"]
    target: str
    identifiers: list[str] = field(default_factory=list)

    def apply(self, frame: Any, missing: str | None = None) -> tuple[Float[np.ndarray, "n p"], list[str]]:
        """Encode other rows.

        Parameters
        ----------
        frame : pandas.DataFrame (n, ·)
            Rows with the columns that became features; others are left aside.
        missing : None or "nan"
            Whether a missing value is refused, or NaN in all features of its column.

        Returns
        -------
        X : array (n, p)
            Features. A level that was not there before has no indicator, so that all of its column's are 0.
        notes : list of str
            Which levels those are, and in how many rows.

        Raises
        ------
        InputError
            On columns that are not there, missing or infinite values, text where there were numbers, or no rows.

        Examples
        --------
        >>> import pandas as pd
        >>> from bayesdrop.data.tables import encode
        >>> frame = pd.DataFrame({"size": [1.0, 3.0], "color": ["red", "blue"], "sold": ["no", "yes"]})
        >>> found = encode(frame, "sold").encoding
        >>> X, notes = found.apply(pd.DataFrame({"color": ["green", "red"], "size": [2.0, 5.0]}))
        >>> X.tolist()
        [[0.0, 0.0, 0.0], [3.0, 0.0, 1.0]]
        >>> print(*notes)
        'color' has levels that no row had before, taken for none: 'green' (1 row).
        """
        frame = frame.rename(columns=str)
        if len(frame) == 0:
            raise InputError("TABLE: no rows, only a header; expected at least one.")
        used = list(dict.fromkeys(self.columns))
        for name in used:
            known_column(name, list(frame.columns), "TABLE")
        if missing is None:
            refuse_missing(frame[used], "fill them in or remove those rows; what was fitted with --missing takes them")
        X, notes = np.zeros((len(frame), len(self.columns))), []
        for name in used:
            places = [j for j, column in enumerate(self.columns) if column == name]
            if not self.is_level[places[0]]:
                values = numbers(frame[name], name, missing)
                X[:, places[0]] = (values - self.centre[places[0]]) / self.scale[places[0]]
                continue
            text = np.array([str(value) for value in frame[name]], dtype=object)
            there = frame[name].notna().to_numpy()
            for j in places:
                X[:, j] = np.where(there, text == self.levels[j], np.nan)
            unseen = text[there & ~np.isin(text, [self.levels[j] for j in places])]
            if len(unseen):
                rows = f"{len(unseen)} row{'s' if len(unseen) > 1 else ''}"
                seen = listed(dict.fromkeys(unseen.tolist()), 5)
                notes.append(f"{name!r} has levels that no row had before, taken for none: {seen} ({rows}).")
        return X, notes

    def add_to(self, data: xr.Dataset) -> xr.Dataset:
        """A dataset on ``feature`` with this encoding in it; see :meth:`of`."""
        values = (self.columns, self.levels, self.is_level, self.centre, self.scale)
        named = {name: ("feature", np.asarray(value)) for name, value in zip(_VARIABLES, values, strict=True)}
        return data.assign(named).assign_attrs({_TARGET: self.target, _IDENTIFIERS: json.dumps(self.identifiers)})

    @classmethod
    def of(cls, data: xr.Dataset) -> Encoding:
        """The encoding that :meth:`add_to` put into a dataset.

        Raises
        ------
        InputError
            If there is none, or a part of it is missing or out of range.

        Examples
        --------
        >>> import xarray as xr
        >>> there = Encoding(["size"], [""], np.array([False]), np.array([2.0]), np.array([1.0]), "sold")
        >>> Encoding.of(there.add_to(xr.Dataset(coords={"feature": ["size"]}))).target
        'sold'
        """
        attrs: Mapping[str, Any] = data.attrs
        if not all(name in data for name in _VARIABLES) or _TARGET not in attrs:
            raise InputError(
                "MODEL: expected a fit that the command line wrote, got one that does not say how a table becomes its "
                "features; predict from Python, by bayesdrop.Fit.load(file).predict(X)."
            )
        column, level, is_level, centre, scale = _VARIABLES
        try:
            identifiers = json.loads(str(attrs.get(_IDENTIFIERS, "[]")))
            if not isinstance(identifiers, list):
                raise ValueError(f"expected a list in {_IDENTIFIERS!r}")
            if data[is_level].dims != ("feature",) or data[is_level].dtype != bool:
                raise ValueError(f"expected truth values in {is_level!r} on 'feature'")
            return cls(
                stored_names(data, column, "feature"),
                stored_names(data, level, "feature"),
                data[is_level].values,
                stored_numbers(data, centre, ("feature",)),
                stored_numbers(data, scale, ("feature",), least=np.nextafter(0, 1)),
                str(attrs[_TARGET]),
                [str(name) for name in identifiers],
            )
        except (ValueError, RecursionError) as error:
            raise InputError(f"MODEL: the encoding of the table is damaged: {error}; fit anew.") from None


def count_missing(frame: Any) -> str:
    """Columns of a data frame that have missing values, with their numbers; empty if none has.

    Examples
    --------
    >>> import pandas as pd
    >>> count_missing(pd.DataFrame({"size": [1.0, None], "color": ["red", "blue"]}))
    "'size' (1 of 2)"
    """
    missing = frame.isna().sum()
    return ", ".join(f"{name!r} ({count} of {len(frame)})" for name, count in missing[missing > 0].items())


def refuse_missing(frame: Any, advice: str) -> None:
    """Raise InputError if a column of a data frame has missing values, with their numbers and what to do."""
    if counts := count_missing(frame):
        raise InputError(f"TABLE: missing values in {counts}; {advice}.")


def numbers(column: Any, name: str, missing: str | None = None) -> Float[np.ndarray, " n"]:
    """A column of numbers in double precision; raise InputError if some are infinite, complex or no numbers.

    What is missing is NaN where ``missing`` is "nan".
    """
    if np.issubdtype(np.asarray(column).dtype, np.complexfloating):
        raise InputError(f"TABLE: column {name!r} holds complex numbers; split it into real columns, or --drop it.")
    try:
        values = np.asarray(column.to_numpy(dtype=float, na_value=np.nan))
    except (ValueError, TypeError) as error:
        raise InputError(f"TABLE: column {name!r} was a number when the model was fitted: {error}.") from None
    bad = int(np.sum(~np.isfinite(values) if missing is None else np.isinf(values)))
    if bad:
        raise InputError(
            f"TABLE: column {name!r} has {bad} infinite value{'s' if bad > 1 else ''}; replace them by finite numbers, "
            "or leave the column out with --drop."
        )
    return values
