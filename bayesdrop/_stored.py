"""Validation of stored datasets: types, dimensions, ranges, names and labels.

A dataset may come from a file that a stranger made. Errors are ``ValueError`` without the name of an argument, which
the caller adds.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ._typing import Float
from ._validation import shown

if TYPE_CHECKING:
    import xarray as xr

    Labelled = TypeVar("Labelled", xr.Dataset, xr.DataArray)

__all__ = [
    "by_label",
    "check_plain",
    "class_attributes",
    "read_classes",
    "stored_classes",
    "stored_count",
    "stored_names",
    "stored_numbers",
]

_CLASSES, _TYPE = "classes", "classes_type"
# Kinds of types of labels that are stored with them.
_STATED = "iufMm"


def stored_numbers(
    data: xr.Dataset,
    name: str,
    dims: tuple[str, ...] | None = None,
    *,
    least: float = -np.inf,
    most: float = np.inf,
) -> Float[np.ndarray, ...]:
    """A variable of finite real numbers within bounds, in double precision.

    Parameters
    ----------
    data : xarray.Dataset
        What was stored.
    name : str
        The variable.
    dims : tuple of str, optional
        Its dims; any by default.
    least, most : float
        Bounds, by default none but that numbers are finite.

    Raises
    ------
    ValueError
        If the variable is absent, on other dims, of another kind, or out of range.

    Examples
    --------
    >>> import xarray as xr
    >>> stored_numbers(xr.Dataset({"rate": ("feature", [0.5, 7.0])}), "rate", ("feature",), least=0, most=1)
    Traceback (most recent call last):
    ...
    ValueError: expected finite numbers from 0 to 1 in 'rate', got 7
    """
    axes = data[name].dims if name in data else None
    if axes is None or (dims is not None and axes != dims):
        raise ValueError(f"expected the variable {name!r} on {dims}, got {axes}")
    values = data[name].values
    if values.dtype.kind not in "iuf":
        raise ValueError(f"expected real numbers in {name!r}, got {values.dtype}")
    values = values.astype(np.float64)
    wrong = values[~(np.isfinite(values) & (values >= least) & (values <= most))]
    if wrong.size:
        raise ValueError(f"expected finite numbers from {least:g} to {most:g} in {name!r}, got {wrong[0]:g}")
    return values


def stored_names(data: xr.Dataset, name: str, dim: str | None = None) -> list[str]:
    """Texts on the dim of the same name, or on another: different ones, unless they are on another.

    Examples
    --------
    >>> import xarray as xr
    >>> stored_names(xr.Dataset(coords={"feature": ["age", "age"]}), "feature")
    Traceback (most recent call last):
    ...
    ValueError: expected different names in 'feature', got ['age', 'age']
    """
    texts = data.variables.get(name)
    if texts is None or texts.dims != (dim or name,):
        raise ValueError(f"expected names in {name!r} on {dim or name!r}, got {None if texts is None else texts.dims}")
    names = texts.values.tolist()
    if not all(isinstance(text, str) for text in names):
        raise ValueError(f"expected text in {name!r}, got {texts.dtype}")
    if dim is None and len(set(names)) < len(names):
        raise ValueError(f"expected different names in {name!r}, got {names[:20]}")
    return names


def stored_count(value: Any, name: str) -> int:
    """A whole number from 0 to 2**62.

    Examples
    --------
    >>> stored_count(np.float64("inf"), "n_iter")
    Traceback (most recent call last):
    ...
    ValueError: expected a whole number in 'n_iter', got inf
    """
    number = value.item() if isinstance(value, np.generic | np.ndarray) and value.size == 1 else value
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= 2**62:
        raise ValueError(f"expected a whole number in {name!r}, got {str(value)[:80]}")
    return number


def check_plain(data: xr.Dataset) -> None:
    """Raise ValueError if a variable holds anything but numbers, dates and text.

    Examples
    --------
    >>> import xarray as xr
    >>> check_plain(xr.Dataset({"y": ("obs_id", [1j])}))
    Traceback (most recent call last):
    ...
    ValueError: expected numbers or text in 'y', got complex128
    """
    for name, variable in data.variables.items():
        kind = variable.dtype.kind
        text = kind == "O" and all(isinstance(value, str) for value in variable.values.ravel().tolist())
        if kind not in "biufmMUS" and not text:
            raise ValueError(f"expected numbers or text in {name!r}, got {variable.dtype}")


def by_label(data: Labelled, dim: str, labels: Sequence[str], listed: int = 5) -> Labelled:
    """Select the entries of a dim that have some labels, in their order; data without labels on the dim stay.

    Parameters
    ----------
    data : xarray.Dataset or xarray.DataArray
        Stored draws or constants.
    dim : str
        Dim such as ``"feature"``.
    labels : sequence of str
        Labels wanted, in order.
    listed : int
        Labels that a message lists.

    Raises
    ------
    ValueError
        If a label is missing or repeated.

    Examples
    --------
    >>> import xarray as xr
    >>> by_label(xr.DataArray([1, 2], {"feature": ["size", "age"]}, "feature"), "feature", ["age", "size"]).values
    array([2, 1])
    """
    if dim not in data.coords:
        return data
    present, wanted = [str(label) for label in data[dim].values], [str(label) for label in labels]
    if present == wanted:
        return data
    count = Counter(present)
    missing, repeated = ([label for label in wanted if wrong(count[label])] for wrong in ((0).__eq__, (1).__lt__))
    if missing or repeated:
        raise ValueError(
            f"expected {len(wanted)} labels on {dim!r}, each once and in any order, got {len(present)}; "
            f"missing: {missing[:listed]}, repeated: {repeated[:listed]}"
        )
    place = {label: j for j, label in enumerate(present)}
    return data.isel({dim: np.array([place[label] for label in wanted])})


def class_attributes(classes: Any) -> dict[str, str]:
    """Labels of classes as attributes, which :func:`stored_classes` reads.

    Examples
    --------
    >>> class_attributes(np.array(["no", "yes"]))
    {'classes': '["no", "yes"]'}
    """
    labels = np.asarray(classes)
    if labels.dtype.kind in "Mm":
        plain = labels.astype(np.int64).tolist()
    else:
        plain = [one if isinstance(one, bool | int | float | str) else str(one) for one in labels.tolist()]
    stored = {_CLASSES: json.dumps(plain)}
    # What numbers alone do not say: uint64, single precision, days.
    if labels.dtype.kind in _STATED and np.array(plain).dtype != labels.dtype:
        stored[_TYPE] = labels.dtype.str
    return stored


def stored_classes(attrs: Mapping[str, Any]) -> np.ndarray | None:
    """Labels (K,) that :func:`class_attributes` stored; None where there are none."""
    return read_classes(attrs[_CLASSES], attrs.get(_TYPE)) if _CLASSES in attrs else None


def read_classes(text: str, dtype: Any = None) -> np.ndarray:
    """Labels (K,) as :func:`class_attributes` stored them, numbers, texts and booleans as such; of a ``dtype`` or not.

    Raises
    ------
    ValueError
        If the text is no JSON list of two different labels or more, all of them text, or numbers, or truth values, or
        they are none of that type.

    Examples
    --------
    >>> read_classes("[false, true]")
    array([False,  True])
    """
    try:
        labels = json.loads(text)
    except (ValueError, RecursionError, TypeError):
        labels = None
    kinds = {type(label) for label in labels} if isinstance(labels, list) and len(labels) >= 2 else set()
    array = np.array(labels) if len(kinds) == 1 and kinds < {bool, int, float, str} else np.empty(0, dtype=object)
    if array.dtype.kind == "O":
        raise ValueError(f"classes: expected a JSON list of two labels or more, got {shown(text)}.")
    if len(set(labels)) < len(labels) or (array.dtype.kind == "f" and not np.all(np.isfinite(array))):
        raise ValueError(f"classes: expected different labels, got {shown(text)}.")
    return array if dtype is None else _of_type(array, labels, dtype)


def _of_type(array: np.ndarray, labels: list[Any], dtype: Any) -> np.ndarray:
    """Numbers as labels of a type that their file names."""
    values, kind = array, ""
    try:
        as_type = np.dtype(str(dtype))  # text that is no type where it is no text
        values, kind = (
            np.array(labels, dtype=np.int64 if as_type.kind in "Mm" else as_type).astype(as_type),
            as_type.kind,
        )
    except (TypeError, ValueError, OverflowError):
        pass
    if kind not in tuple(_STATED) or len(np.unique(values)) < len(labels) or np.any(values != values):
        raise ValueError(f"classes: expected labels of a type of numbers or dates, got {shown(dtype)}.")
    return values
