"""Fingerprint of a run: everything its draws depend on, as a flat table.

Two runs with equal tables give equal draws, so a checkpoint is continued only if its table equals the caller's. Data
appear as checksums; settings appear by name and value (``model.C``, ``method.dtype``), so that a difference can be
reported in the names that users know.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import numbers
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray
from scipy.sparse import issparse

from ...data.dataset import Dataset
from ...designs import Design

__all__ = ["describe", "differences", "fingerprint"]

Table = dict[str, str | float | bool | None]

# Arrays and lists of at most this many entries are shown, longer ones become checksums.
_SHOWN = 8


def fingerprint(data: Dataset, key: PRNGKeyArray, **settings: Any) -> Table:
    """Table of everything that the draws depend on.

    Parameters
    ----------
    data : Dataset
        Features (n, p), targets, weights and offsets (n,), and names (p,).
    key : key
        Typed JAX key.
    **settings
        Model, method and all other settings that the draws depend on, by the names that users know.

    Examples
    --------
    >>> import jax
    >>> from bayesdrop.data.dataset import as_dataset
    >>> data = as_dataset([[0.0], [1.0]], [0, 1])
    >>> table = fingerprint(data, jax.random.key(3), chains=4)
    >>> table["seed"], table["chains"], table["X"][:22]
    ('3', 4.0, 'float64 (2, 1) sha256 ')
    """
    table: Table = {
        "X": _streamed(data.design) if data.design.is_streamed else _matrix(data.X),
        "y": _checksum(np.asarray(data.target, dtype=np.float64)),
        "sample_weight": _checksum(np.asarray(data.weight, dtype=np.float64)),
        "feature_names": _text_checksum(data.feature_names),
        "seed": _seed(key),
        **{f"{package} version": version(package) for package in ("bayesdrop", "jax")},
    }
    if data.offset is not None:
        table["offset"] = _checksum(data.offset)
    for name, value in settings.items():
        table |= describe(name, value)
    return table


def describe(name: str, value: Any) -> Table:
    """Flatten a setting: a component becomes its class and one entry for each of its settings.

    Examples
    --------
    >>> from bayesdrop.losses import Hinge
    >>> describe("loss", Hinge(margin=2))
    {'loss': 'Hinge', 'loss.margin': 2.0, 'loss.expectation': 'augmentation'}
    """
    if value is None or isinstance(value, bool | str):
        return {name: value}
    if isinstance(value, np.bool_):
        return {name: bool(value)}
    if isinstance(value, numbers.Real):
        return {name: float(value) if math.isfinite(value) else repr(float(value))}
    if isinstance(value, Mapping):
        return {name: _shown_or_checksum([[str(key), str(entry)] for key, entry in sorted(value.items(), key=str)])}
    if isinstance(value, Sequence) or hasattr(value, "__array__"):
        try:
            array = np.asarray(value)
        except ValueError:  # lists of different lengths
            array = np.array([str(entry) for entry in value])
        if np.issubdtype(array.dtype, np.number):
            array = np.asarray(array, dtype=np.float64)
            return {name: str(array.tolist()) if array.size <= _SHOWN else _checksum(array)}
        return {name: _shown_or_checksum([str(entry) for entry in array.ravel()])}
    if callable(value) and hasattr(value, "__qualname__"):
        return {name: f"{value.__module__}.{value.__qualname__}"}
    fields = (
        {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        if dataclasses.is_dataclass(value)
        else getattr(value, "__dict__", {})
    )
    table: Table = {name: type(value).__qualname__}
    for field_name, entry in fields.items():
        table |= describe(f"{name}.{field_name}", entry)
    return table


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """List the entries in which two tables differ, with both values unless they are checksums.

    Examples
    --------
    >>> differences({"X": "float64 (2, 1) sha256 aa", "chains": 4.0}, {"X": "float64 (2, 1) sha256 bb", "chains": 2.0})
    ['X differs', 'chains was 4 and is 2']
    """
    lines = []
    for name in [*new, *(name for name in old if name not in new)]:
        before, after = old.get(name, "absent"), new.get(name, "absent")
        if before == after and isinstance(before, bool) == isinstance(after, bool):
            continue
        before, after = _short(before), _short(after)
        lines.append(f"{name} differs" if before == after else f"{name} was {before} and is {after}")
    return lines


def _short(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    text = text.partition(" sha256 ")[0]
    return text if len(text) <= 80 else f"{text[:80]}…"


def _checksum(array: np.ndarray) -> str:
    array = np.ascontiguousarray(array)
    # Not .tobytes(): the features may fill half of the memory. Zero and minus zero count as different.
    digest = hashlib.sha256(array.reshape(-1).view(np.uint8).data).hexdigest()
    return f"{array.dtype} {array.shape} sha256 {digest}"


def _text_checksum(texts: Sequence[Any]) -> str:
    return f"{len(texts)} entries sha256 {hashlib.sha256(json.dumps(texts).encode()).hexdigest()}"


def _shown_or_checksum(texts: Sequence[Any]) -> str:
    return json.dumps(texts, ensure_ascii=False) if len(texts) <= _SHOWN else _text_checksum(texts)


def _matrix(X: Any) -> str:
    """Checksum of a dense matrix, or of compressed rows, where stored zeros count as entries."""
    if not issparse(X):
        return _checksum(np.asarray(X))
    parts = [_checksum(part) for part in (X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data)]
    digest = hashlib.sha256("".join(parts).encode()).hexdigest()
    return f"sparse {X.data.dtype} {X.shape} sha256 {digest}"


def _streamed(design: Design) -> str:
    """Checksum of the checksums of its blocks, in one pass; other blocks of the same rows count as other data."""
    return f"streamed {design.shape} {_text_checksum(design.each_block(_matrix))}"


def _seed(key: PRNGKeyArray) -> str:
    """The integer from which the key was made, or else the words of the key."""
    import jax

    words, kind = np.asarray(jax.random.key_data(key)).tolist(), str(jax.random.key_impl(key))
    if kind == "threefry2x32" and words[0] == 0:
        return str(words[1])
    return f"{kind} {words}"
