"""Encoding of the columns of a table as features, stored to encode other rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .._stored import stored_names, stored_numbers
from .._typing import Bool, Float, Shaped
from .columns import Column, known_labels, read_numbers, read_texts, refuse_cells
from .frames import listed
from .numerals import Numerals
from .table_files import InputError, known_column

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Encoding", "count_missing", "numbers", "refuse_missing"]

_VARIABLES = ("table_column", "table_level", "table_is_level", "table_centre", "table_scale")
_TARGET, _IDENTIFIERS, _READING = "table_target", "table_identifiers", "table_reading"


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
    numerals : mapping from str to Numerals
        How the columns of numbers are written, where they are not plain.
    na : tuple of str
        Cells that stand for missing values.
    header : str
        ``"first"`` if the first line of a file has the names of the columns, ``"none"`` if it is a row.
    """

    columns: list[str]
    levels: list[str]
    is_level: Bool[np.ndarray, " p"]
    centre: Float[np.ndarray, " p"]
    scale: Float[np.ndarray, " p"]
    target: str
    identifiers: list[str] = field(default_factory=list)
    numerals: Mapping[str, Numerals] = field(default_factory=dict)
    na: tuple[str, ...] = ()
    header: str = "first"

    def apply(
        self, frame: Any, missing: str | None = None, unseen: str = "error"
    ) -> tuple[Float[np.ndarray, "n p"], list[str]]:
        """Encode other rows.

        Parameters
        ----------
        frame : pandas.DataFrame (n, ·)
            Rows with the columns that became features; others are left aside.
        missing : None or "nan"
            Whether a missing value is refused, or NaN in all features of its column.
        unseen : "error" or "population"
            Whether a level that was not there before is refused, or has no indicator: all of its column's are 0.

        Returns
        -------
        X : array (n, p)
            Features.
        notes : list of str
            Which levels were not there before, and in how many rows.

        Raises
        ------
        InputError
            On columns or levels that are not there, missing or infinite values, text where there were numbers, or no
            rows.

        Examples
        --------
        >>> import pandas as pd
        >>> from bayesdrop.data.tables import encode
        >>> frame = pd.DataFrame({"size": [1.0, 3.0], "color": ["red", "blue"], "sold": ["no", "yes"]})
        >>> found = encode(frame, "sold").encoding
        >>> X, notes = found.apply(pd.DataFrame({"color": ["green", "red"], "size": [2.0, 5.0]}), unseen="population")
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
        found = {name: self._column(frame[name], name) for name in used}
        if missing is None:
            refuse_missing(found, "fill them in or remove those rows; what was fitted with --missing takes them")
        X, notes = np.zeros((len(frame), len(self.columns))), []
        for name, column in found.items():
            places = [j for j, one in enumerate(self.columns) if one == name]
            if column.kind == "number":
                values = numbers(column.values, name, missing)
                X[:, places[0]] = (values - self.centre[places[0]]) / self.scale[places[0]]
                continue
            there = column.values.notna().to_numpy()
            text = column.values.to_numpy(dtype=object)
            for j in places:
                X[:, j] = np.where(there, text == self.levels[j], np.nan)
            strange = text[there & ~np.isin(text.astype(str), [self.levels[j] for j in places])]
            if len(strange):
                rows = f"{len(strange)} row{'s' if len(strange) > 1 else ''}"
                seen = listed(dict.fromkeys(strange.tolist()), 5)
                if unseen == "error":
                    raise InputError(
                        f"TABLE: {name!r} has levels that no row had when the model was fitted: {seen} ({rows}); known "
                        f"are {listed([self.levels[j] for j in places], 12)}. Leave those rows out, recode them, or "
                        "take --unseen population, which counts them as none of the levels."
                    )
                notes.append(f"{name!r} has levels that no row had before, taken for none: {seen} ({rows}).")
        return X, notes

    def response(self, column: Any, classes: Shaped[np.ndarray, " K"] | None) -> tuple[Any, list[int]]:
        """The response in other rows, missing where it is not known, and the positions of cells that cannot be one."""
        if classes is not None and np.asarray(classes).dtype.kind not in "iuf":
            return known_labels(read_texts(column, self.na)[0], classes), []
        values, _, odd = read_numbers(column, self.numerals.get(self.target, Numerals()), self.na)
        return values, odd

    def _column(self, column: Any, name: str) -> Column:
        """A column of other rows, read as it was when the model was fitted."""
        if self.is_level[self.columns.index(name)]:
            texts, marks = read_texts(column, self.na)
            known = [level for level, one in zip(self.levels, self.columns, strict=True) if one == name]
            truth = {level.lower(): level for level in known if level.lower() in ("true", "false")}
            return Column("categories", texts.map(lambda text: truth.get(text.lower(), text), "ignore"), marks=marks)
        numerals = self.numerals.get(name, Numerals())
        values, marks, odd = read_numbers(column, numerals, self.na)
        if odd:
            how = f" ({numerals})" if str(numerals) else ""
            raise refuse_cells(column, name, odd, f"was a number{how} when the model was fitted", "correct them")
        return Column("number", values, numerals, marks=marks)

    def add_to(self, data: xr.Dataset) -> xr.Dataset:
        """A dataset on ``feature`` with this encoding in it; see :meth:`of`."""
        values = (self.columns, self.levels, self.is_level, self.centre, self.scale)
        named = {name: ("feature", np.asarray(value)) for name, value in zip(_VARIABLES, values, strict=True)}
        numerals = {name: [one.decimal, one.unit] for name, one in self.numerals.items() if one != Numerals()}
        reading = json.dumps({"numerals": numerals, "na": list(self.na), "header": self.header})
        attrs = {_TARGET: self.target, _IDENTIFIERS: json.dumps(self.identifiers), _READING: reading}
        return data.assign(named).assign_attrs(attrs)

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
                *_stored_reading(str(attrs.get(_READING, "{}"))),
            )
        except (ValueError, RecursionError) as error:
            raise InputError(f"MODEL: the encoding of the table is damaged: {error}; fit again.") from None


def _stored_reading(text: str) -> tuple[dict[str, Numerals], tuple[str, ...], str]:
    """How tables are read, as :meth:`Encoding.add_to` stores it: numerals, missing values and header."""
    reading = json.loads(text)
    if not isinstance(reading, dict):
        raise ValueError(f"expected a mapping in {_READING!r}")
    numerals, na, header = reading.get("numerals", {}), reading.get("na", []), reading.get("header", "first")
    if not (isinstance(numerals, dict) and isinstance(na, list) and header in ("first", "none")):
        raise ValueError(f"expected numerals, missing values and a header in {_READING!r}")
    written = [how for how in numerals.values() if isinstance(how, list) and len(how) == 2 and how[0] in (".", ",")]
    if len(written) < len(numerals) or not all(isinstance(one, str) for one in (*na, *(how[1] for how in written))):
        raise ValueError(f"expected a mark of decimals and a unit for each column, and texts, in {_READING!r}")
    return {name: Numerals(*how) for name, how in numerals.items()}, tuple(na), header


def count_missing(columns: Mapping[str, Column]) -> str:
    """Columns that have missing values, with their numbers and how they are written; empty if none has.

    Examples
    --------
    >>> import pandas as pd
    >>> count_missing({"size": Column("number", pd.Series([1.0, None]), marks=["-"])})
    "'size' (1 of 2, '-')"
    """
    counts = {name: int(column.values.isna().sum()) for name, column in columns.items()}
    return ", ".join(
        f"{name!r} ({counts[name]} of {len(column.values)}{', ' if column.marks else ''}{listed(column.marks, 3)})"
        for name, column in columns.items()
        if counts[name]
    )


def refuse_missing(found: Mapping[str, Column], advice: str) -> None:
    """Raise InputError if a column has missing values, with their numbers and what to do."""
    if counts := count_missing(found):
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
