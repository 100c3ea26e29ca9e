"""Description of a model in plain JSON, stored with its draws or fit, from which it is rebuilt.

A description names public components and their settings, ``{"class": "Hinge", "fields": {"margin": 1.0}}``, and holds
nothing but text, numbers and lists. Names are looked up among the components that the packages ``losses``, ``noise``,
``priors`` and ``rates`` export, and nowhere else: a file can neither import nor run anything, which a pickle can.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from .warnings import FormulaWarning, warn

if TYPE_CHECKING:
    from .data.column_facts import ColumnFacts
    from .data.formulas.encoder import StoredFormula
    from .model import Model

__all__ = [
    "attributes",
    "components",
    "describe",
    "read_classes",
    "rebuild",
    "stored_classes",
    "stored_facts",
    "stored_feature_names",
    "stored_model",
    "warn_of_formula",
]

_MODEL, _CLASSES, _TYPE = "model_description", "classes", "classes_type"
_FORMULA, _ENCODING, _FEATURES = "formula", "formula_encoding", "feature_names"
# Kinds of types of labels that are stored with them.
_STATED = "iufMm"
_FORMAT, _VERSION = "bayesdrop model", 1
_PACKAGES = ("losses", "noise", "priors", "rates")
_MAPPING, _TUPLE = "mapping", "tuple"


def components() -> dict[str, type]:
    """Every component that a description may name: the frozen dataclasses that the component packages export.

    Examples
    --------
    >>> "Hinge" in components(), "Popen" in components()
    (True, False)
    """
    found: dict[str, type] = {}
    for package in _PACKAGES:
        module = import_module(f"bayesdrop.{package}")
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, type) and dataclasses.is_dataclass(value):
                found[name] = value
    from .model import Model

    return {**found, "Model": Model}


def describe(model: Model) -> dict[str, Any]:
    """Describe a model by names, text, numbers and lists.

    Parameters
    ----------
    model : Model
        A model of the components of this package.

    Returns
    -------
    dict
        What :func:`json.dumps` takes and :func:`rebuild` reads. Arrays become lists.

    Raises
    ------
    TypeError
        If a component is not one of this package's, or a setting is no text, number, list or mapping.
    ValueError
        If a number is NaN or infinite.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> described = describe(bd.Model(bd.Hinge(2.0), C=0.5))
    >>> described["model"]["fields"]["loss"]
    {'class': 'Hinge', 'fields': {'margin': 2.0, 'expectation': 'augmentation'}}
    >>> rebuild(described) == bd.Model(bd.Hinge(2.0), C=0.5)
    True
    """
    return {"format": _FORMAT, "version": _VERSION, "model": _pack(model, "model", components())}


def rebuild(description: Mapping[str, Any] | str) -> Model:
    """Rebuild a model from what :func:`describe` returned, or from that as JSON text.

    Raises
    ------
    ValueError
        If the text is no JSON (a file cut short, say), names a component, a setting or a version that this release
        does not know, or holds settings that the components refuse. Nothing is imported or run.

    Examples
    --------
    >>> rebuild('{"format": "bayesdrop model", "version": 1, "model": {"class": "Popen", "fields": {}}}')
    Traceback (most recent call last):
    ...
    ValueError: model description: unknown component 'Popen' at model; expected one of ['Beta', 'Binomial', ...
    """
    from .model import Model

    try:
        if isinstance(description, str):
            description = json.loads(description)
        if not isinstance(description, Mapping) or description.get("format") != _FORMAT:
            raise ValueError(f'expected an object with "format": "{_FORMAT}", got {_short(description)}')
        version = description.get("version")
        if version != _VERSION:
            raise ValueError(
                f"expected version {_VERSION}, got {_short(version)}; read it with the release of bayesdrop that "
                "wrote it, or a later one"
            )
        model = _unpack(description.get("model"), "model", components())
        if not isinstance(model, Model):
            raise ValueError(f"expected a Model, got {_short(model)}")
    except json.JSONDecodeError as error:
        raise ValueError(
            f"model description: expected JSON, got {_short(description)} ({error}); the file was truncated or written "
            "by another program."
        ) from None
    except RecursionError:
        raise ValueError("model description: nested too deeply to be the description of a model.") from None
    except (ValueError, TypeError) as error:
        raise ValueError(f"model description: {error}.".replace("..", ".")) from None
    return model


def attributes(
    model: Model, classes: Any = None, facts: ColumnFacts | None = None, feature_names: Iterable[str] | None = None
) -> dict[str, str | int]:
    """Attributes that let a posterior be used later: the description, labels of classes, facts and order of columns.

    A component of the user's own cannot be described. Its draws are stored all the same, without the description.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> attributes(bd.Model(), np.array(["no", "yes"]))["classes"]
    '["no", "yes"]'
    """
    stored: dict[str, str | int] = {} if facts is None else dict(facts.attributes())
    if feature_names is not None:
        stored[_FEATURES] = json.dumps(list(feature_names))
    if facts is not None and facts.formula is not None:
        stored[_FORMULA] = facts.formula.formula
        with suppress(ValueError):  # too large for a file, of which a later call reports
            stored[_ENCODING] = facts.formula.to_json()
    try:
        stored[_MODEL] = json.dumps(describe(model), allow_nan=False)
    except TypeError:
        pass
    if classes is not None:
        labels = np.asarray(classes)
        if labels.dtype.kind in "Mm":
            plain = labels.astype(np.int64).tolist()
        else:
            plain = [one if isinstance(one, bool | int | float | str) else str(one) for one in labels.tolist()]
        stored[_CLASSES] = json.dumps(plain)
        # What numbers alone do not say: uint64, single precision, days.
        if labels.dtype.kind in _STATED and np.array(plain).dtype != labels.dtype:
            stored[_TYPE] = labels.dtype.str
    return stored


def stored_model(attrs: Mapping[str, Any]) -> Model | None:
    """Model that :func:`attributes` stored; None where there is none.

    Raises
    ------
    ValueError
        If the description is damaged, as :func:`rebuild` has it.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> stored_model(attributes(bd.Model(C=0.5))).C, stored_model({})
    (0.5, None)
    """
    return rebuild(attrs[_MODEL]) if _MODEL in attrs else None


def stored_classes(attrs: Mapping[str, Any]) -> np.ndarray | None:
    """Labels (K,) that :func:`attributes` stored; None where there are none."""
    return read_classes(attrs[_CLASSES], attrs.get(_TYPE)) if _CLASSES in attrs else None


def stored_feature_names(attrs: Mapping[str, Any]) -> list[str] | None:
    """Names of the features in the order of the model that :func:`attributes` stored; None where there are none.

    Raises
    ------
    ValueError
        If they are not a JSON list of different texts.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> stored_feature_names(attributes(bd.Model(), feature_names=["size", "age"]))
    ['size', 'age']
    """
    if _FEATURES not in attrs:
        return None
    try:
        names = json.loads(attrs[_FEATURES])
    except (ValueError, RecursionError, TypeError):
        names = None
    if not isinstance(names, list) or not {type(name) for name in names} <= {str} or len(set(names)) < len(names):
        raise ValueError(f"{_FEATURES}: expected a JSON list of different names, got {_short(attrs[_FEATURES])}.")
    return names


def stored_facts(attrs: Mapping[str, Any]) -> ColumnFacts:
    """Facts of the columns that :func:`attributes` stored, with the formula, which is read when it is needed.

    Raises
    ------
    ValueError
        If they are damaged.

    Examples
    --------
    >>> stored_facts({"has_names": 0})
    ColumnFacts(has_names=False, zero_based=None)
    """
    from .data.column_facts import ColumnFacts

    return dataclasses.replace(ColumnFacts.stored(attrs), formula=_stored_formula(attrs))


def _stored_formula(attrs: Mapping[str, Any]) -> StoredFormula | None:
    if _FORMULA not in attrs:
        return None
    from .data.formulas.encoder import StoredFormula

    return StoredFormula(str(attrs[_FORMULA]), str(attrs.get(_ENCODING, "")))


def warn_of_formula(attrs: Mapping[str, Any]) -> None:
    """Warn if the readers of a file with these attributes cannot encode tables by its formula."""
    formula = _stored_formula(attrs)
    if formula is not None and formula.reason:
        warn(
            f"the formula {formula.formula!r} encodes tables in this session alone: {formula.reason}. Readers of the "
            "file encode rows themselves, with columns of the names of the features, as by design.transform(rows) with "
            "design = bd.from_formula(formula, data).",
            FormulaWarning,
        )


def read_classes(text: str, dtype: Any = None) -> np.ndarray:
    """Labels (K,) as :func:`attributes` stored them, numbers, texts and booleans as such; of a ``dtype`` that is named.

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
    found = np.array(labels) if len(kinds) == 1 and kinds < {bool, int, float, str} else np.empty(0, dtype=object)
    if found.dtype.kind == "O":
        raise ValueError(f"classes: expected a JSON list of two labels or more, got {_short(text)}.")
    if len(set(labels)) < len(labels) or (found.dtype.kind == "f" and not np.all(np.isfinite(found))):
        raise ValueError(f"classes: expected different labels, got {_short(text)}.")
    return found if dtype is None else _of_type(found, labels, dtype)


def _of_type(found: np.ndarray, labels: list[Any], dtype: Any) -> np.ndarray:
    """Numbers as labels of a type that their file names."""
    values, kind = found, ""
    try:
        given = np.dtype(str(dtype))  # text that is no type where it is no text
        values, kind = np.array(labels, dtype=np.int64 if given.kind in "Mm" else given).astype(given), given.kind
    except (TypeError, ValueError, OverflowError):
        pass
    if kind not in tuple(_STATED) or len(np.unique(values)) < len(labels) or np.any(values != values):
        raise ValueError(f"classes: expected labels of a type of numbers or dates, got {_short(dtype)}.")
    return values


def _pack(value: Any, where: str, known: Mapping[str, type]) -> Any:
    kind = type(value)
    if dataclasses.is_dataclass(value):
        if known.get(kind.__name__) is not kind:
            raise TypeError(
                f"{where}: expected a component of bayesdrop, one of {sorted(known)}, got {value!r}; a component of "
                "your own cannot be described."
            )
        fields = [field.name for field in dataclasses.fields(value) if field.init]
        return {
            "class": kind.__name__,
            "fields": {name: _pack(getattr(value, name), f"{where}.{name}", known) for name in fields},
        }
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if not np.isfinite(value):
            raise ValueError(f"{where}: expected a finite number, got {value!r}.")
        return value
    if isinstance(value, Mapping):
        # JSON turns every key into text; pairs keep numbers apart from their names.
        pairs = [[_pack(key, where, known), _pack(item, where, known)] for key, item in value.items()]
        return {_MAPPING: pairs}
    if isinstance(value, tuple):
        return {_TUPLE: [_pack(item, where, known) for item in value]}
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return [_pack(item, where, known) for item in value]
    raise TypeError(f"{where}: expected text, a number, a list or a component of bayesdrop, got {value!r}.")


def _unpack(value: Any, where: str, known: Mapping[str, type]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [_unpack(item, where, known) for item in value]
    if isinstance(value, Mapping) and set(value) == {_TUPLE} and isinstance(value[_TUPLE], list):
        return tuple(_unpack(item, where, known) for item in value[_TUPLE])
    if isinstance(value, Mapping) and set(value) == {_MAPPING} and isinstance(value[_MAPPING], list):
        pairs = [_unpack(pair, where, known) for pair in value[_MAPPING]]
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            raise ValueError(f"expected pairs of key and value at {where}, got {_short(value)}")
        return dict(pairs)
    if not (isinstance(value, Mapping) and set(value) == {"class", "fields"} and isinstance(value["fields"], Mapping)):
        raise ValueError(f'expected "class" and "fields" at {where}, got {_short(value)}')
    name = value["class"]
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"unknown component {_short(name)} at {where}; expected one of {sorted(known)}")
    kind: Any = known[name]
    allowed = {field.name for field in dataclasses.fields(kind) if field.init}
    strange = sorted(set(value["fields"]) - allowed)
    if strange:
        raise ValueError(f"{name} has no setting {strange[0]!r} at {where}; expected some of {sorted(allowed)}")
    return kind(**{key: _unpack(item, f"{where}.{key}", known) for key, item in value["fields"].items()})


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
