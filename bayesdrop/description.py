"""Description of a model in plain JSON, stored with its draws or fit, from which it is rebuilt.

A description names public components and their settings, ``{"class": "Hinge", "fields": {"margin": 1.0}}``, and holds
nothing but text, numbers and lists. Names are looked up among the components that the packages ``losses``, ``noise``,
``priors`` and ``rates`` export, and nowhere else: a file can neither import nor run anything, which a pickle can.

A component of the user's own is described by its name, ``{"own": "lab.Student", "fields": {"freedom": 4.0}}``, and read
back with a model that has it. A result in memory needs neither: its datasets carry the model object in their
``encoding``, which copies, selections and pickles keep and which no file gets.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from ._stored import class_attributes
from ._validation import shown
from .warnings import FormulaWarning, warn

if TYPE_CHECKING:
    import xarray as xr

    from .data.column_facts import ColumnFacts
    from .data.formulas.encoder import StoredFormula
    from .model import Model

__all__ = [
    "attributes",
    "carried",
    "carrying",
    "components",
    "describe",
    "rebuild",
    "required_model",
    "stored_facts",
    "stored_feature_names",
    "stored_model",
    "warn_of_formula",
]

_MODEL = "model_description"
_OBJECT = "bayesdrop_model"
_FORMULA, _ENCODING, _FEATURES = "formula", "formula_encoding", "feature_names"
_FORMAT, _VERSION = "bayesdrop model", 1
_PACKAGES = ("losses", "noise", "priors", "rates")
_MAPPING, _TUPLE, _OWN = "mapping", "tuple", "own"


class _OwnComponentError(ValueError):
    """A description names a component of the user's own, and no model is given that has it."""


def components() -> dict[str, type]:
    """Every component that a description may name: the frozen dataclasses that the component packages export.

    Examples
    --------
    >>> "Hinge" in components(), "Popen" in components()
    (True, False)
    """
    kinds: dict[str, type] = {}
    for package in _PACKAGES:
        module = import_module(f"bayesdrop.{package}")
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, type) and dataclasses.is_dataclass(value):
                kinds[name] = value
    from .model import Model

    return {**kinds, "Model": Model}


def describe(model: Model) -> dict[str, Any]:
    """Describe a model by names, text, numbers and lists.

    Parameters
    ----------
    model : Model
        A model; components of the user's own are described by their names and settings.

    Returns
    -------
    dict
        What :func:`json.dumps` takes and :func:`rebuild` reads. Arrays become lists.

    Raises
    ------
    ValueError
        If a number of a component of this package is NaN or infinite.

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


def rebuild(description: Mapping[str, Any] | str, own: Model | None = None) -> Model:
    """Rebuild a model from what :func:`describe` returned, or from that as JSON text.

    Components of the user's own, which are described by their names, are those of ``own`` in the same places.

    Raises
    ------
    ValueError
        If the text is no JSON (a file cut short, say), names a component, a setting or a version that this release
        does not know, or a component that ``own`` lacks, or holds settings that the components refuse. Nothing is
        imported or run.

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
            raise ValueError(f'expected an object with "format": "{_FORMAT}", got {shown(description)}')
        version = description.get("version")
        if version != _VERSION:
            advice = "read it with the release of bayesdrop that wrote it, or a later one"
            raise ValueError(f"expected version {_VERSION}, got {shown(version)}; {advice}")
        model = _unpack(description.get("model"), "model", components(), own)
        if not isinstance(model, Model):
            raise ValueError(f"expected a Model, got {shown(model)}")
    except json.JSONDecodeError as error:
        raise ValueError(
            f"model description: expected JSON, got {shown(description)} ({error}); the file was truncated or written "
            "by another program."
        ) from None
    except _OwnComponentError:
        raise
    except RecursionError:
        raise ValueError("model description: nested too deeply to be the description of a model.") from None
    except (ValueError, TypeError) as error:
        raise ValueError(f"model description: {error}.".replace("..", ".")) from None
    return model


def attributes(
    model: Model, classes: Any = None, facts: ColumnFacts | None = None, feature_names: Iterable[str] | None = None
) -> dict[str, Any]:
    """Attributes for later uses of a posterior: the model and its description, labels, facts and order of columns.

    The model object is for :func:`carrying`; all else are attributes.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> attributes(bd.Model(), np.array(["no", "yes"]))["classes"]
    '["no", "yes"]'
    """
    stored: dict[str, Any] = {_OBJECT: model, _MODEL: json.dumps(describe(model), allow_nan=False)}
    stored |= {} if facts is None else facts.attributes()
    if feature_names is not None:
        stored[_FEATURES] = json.dumps(list(feature_names))
    if facts is not None and facts.formula is not None:
        stored[_FORMULA] = facts.formula.formula
        with suppress(ValueError):  # too large for a file, of which a later call reports
            stored[_ENCODING] = facts.formula.to_json()
    if classes is not None:
        stored |= class_attributes(classes)
    return stored


def carrying(group: xr.Dataset, attrs: Mapping[str, Any]) -> xr.Dataset:
    """A dataset that carries the model object of its attributes, or of others, in its ``encoding``.

    Examples
    --------
    >>> import xarray as xr
    >>> import bayesdrop as bd
    >>> model = bd.Model()
    >>> group = carrying(xr.Dataset({"rate": ("draw", [0.1, 0.2])}), attributes(model))
    >>> carried([group.isel(draw=[0])]) == {"bayesdrop_model": model}, group.attrs
    (True, {})
    """
    model = group.attrs.get(_OBJECT, attrs.get(_OBJECT))
    if model is None:
        return group
    copied = group.copy()
    copied.attrs = {name: value for name, value in group.attrs.items() if name != _OBJECT}
    copied.encoding = {**group.encoding, _OBJECT: model}
    return copied


def carried(groups: Iterable[xr.Dataset]) -> dict[str, Any]:
    """The model object that one of the datasets carries, as :func:`attributes` has it; empty if none does."""
    models = [group.encoding[_OBJECT] for group in groups if _OBJECT in group.encoding]
    return {_OBJECT: models[0]} if models else {}


def stored_model(attrs: Mapping[str, Any]) -> Model | None:
    """Model of :func:`attributes`; None where there is none, or a file names components of the user's own.

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
    with suppress(_OwnComponentError):
        return _read(attrs) if _OBJECT in attrs or _MODEL in attrs else None
    return None


def _read(attrs: Mapping[str, Any], own: Model | None = None) -> Model:
    """The model object, or the model of the description, with components of the user's own from another model."""
    return rebuild(attrs[_MODEL], own) if _OBJECT not in attrs or own is not None else attrs[_OBJECT]


def required_model(attrs: Mapping[str, Any], writer: str, reader: str, own: Model | None = None) -> Model:
    """Model of :func:`attributes`, with components of the user's own from another model; see :func:`rebuild`.

    Raises
    ------
    ValueError
        If there is no model, its description is damaged, or it names components of the user's own that ``own`` lacks.
        The message names the functions that store models and that read files.
    """
    if not {_MODEL, _OBJECT} & set(attrs):
        raise ValueError(
            f"expected the attribute {_MODEL!r}, which {writer} stores, got none: another library or an earlier "
            f"release made this. Make it again by {writer}."
        )
    try:
        return _read(attrs, own)
    except _OwnComponentError as error:
        raise ValueError(
            f"{error}, a component of your own, which no file holds; import it and give the model that has it, as in "
            f"{reader}(path, model=model)."
        ) from None


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
        raise ValueError(f"{_FEATURES}: expected a JSON list of different names, got {shown(attrs[_FEATURES])}.")
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


def _pack(value: Any, where: str, kinds: Mapping[str, type]) -> Any:
    kind = type(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
        if kinds.get(kind.__name__) is kind:
            packed = {name: _pack(part, f"{where}.{name}", kinds) for name, part in fields.items()}
            return {"class": kind.__name__, "fields": packed}
        packed = {}
        for name, part in fields.items():
            try:
                packed[name] = _pack(part, f"{where}.{name}", kinds)
            except ValueError:  # infinity may be a setting of a user's own
                packed[name] = repr(part)
        return {_OWN: _name(kind), "fields": packed}
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
        pairs = [[_pack(key, where, kinds), _pack(item, where, kinds)] for key, item in value.items()]
        return {_MAPPING: pairs}
    if isinstance(value, tuple):
        return {_TUPLE: [_pack(item, where, kinds) for item in value]}
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return [_pack(item, where, kinds) for item in value]
    return {_OWN: _name(value if hasattr(value, "__qualname__") else kind)}


def _name(value: Any) -> str:
    """Module and name of a class or function."""
    return f"{value.__module__}.{value.__qualname__}"


def _unpack(value: Any, where: str, kinds: Mapping[str, type], template: Any) -> Any:
    """Inverse of :func:`_pack`; ``template`` is what another model has in this place."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [_unpack(item, where, kinds, None) for item in value]
    if isinstance(value, Mapping) and set(value) == {_TUPLE} and isinstance(value[_TUPLE], list):
        return tuple(_unpack(item, where, kinds, None) for item in value[_TUPLE])
    if isinstance(value, Mapping) and set(value) == {_MAPPING} and isinstance(value[_MAPPING], list):
        pairs = [_unpack(pair, where, kinds, None) for pair in value[_MAPPING]]
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            raise ValueError(f"expected pairs of key and value at {where}, got {shown(value)}")
        return dict(pairs)
    if isinstance(value, Mapping) and isinstance(value.get(_OWN), str) and set(value) <= {_OWN, "fields"}:
        return _own(value, where, kinds, template)
    if not (isinstance(value, Mapping) and set(value) == {"class", "fields"} and isinstance(value["fields"], Mapping)):
        raise ValueError(f'expected "class" and "fields" at {where}, got {shown(value)}')
    name = value["class"]
    if not isinstance(name, str) or name not in kinds:
        raise ValueError(f"unknown component {shown(name)} at {where}; expected one of {sorted(kinds)}")
    kind: Any = kinds[name]
    allowed = {field.name for field in dataclasses.fields(kind) if field.init}
    unknown = sorted(set(value["fields"]) - allowed)
    if unknown:
        raise ValueError(f"{name} has no setting {unknown[0]!r} at {where}; expected some of {sorted(allowed)}")
    parts = value["fields"].items()
    return kind(**{key: _unpack(item, f"{where}.{key}", kinds, getattr(template, key, None)) for key, item in parts})


def _own(value: Mapping[str, Any], where: str, kinds: Mapping[str, type], template: Any) -> Any:
    """What another model has where a file names a component of the user's own, with the file's settings."""
    fields, packed = value.get("fields", {}), None if template is None else _pack(template, where, kinds)
    if not isinstance(packed, dict) or packed.get(_OWN) != value[_OWN]:
        inside = [part for part in fields.values() if isinstance(part, Mapping)] if isinstance(fields, Mapping) else []
        names = [part[_OWN] for part in (value, *inside) if isinstance(part.get(_OWN), str)]
        raise _OwnComponentError(f"{where} is {' of '.join(map(shown, names))}")
    settings = packed.get("fields", {})
    if not isinstance(fields, Mapping) or set(fields) != set(settings):
        raise ValueError(f"expected the settings {sorted(settings)} of {value[_OWN]} at {where}, got {shown(fields)}")
    other: dict[str, Any] = {name: item for name, item in fields.items() if item != settings[name]}
    changed = {name: _unpack(item, f"{where}.{name}", kinds, getattr(template, name)) for name, item in other.items()}
    return dataclasses.replace(template, **changed) if changed else template
