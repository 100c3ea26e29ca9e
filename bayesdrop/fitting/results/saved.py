"""A fit as an xarray dataset, and the fit that such a dataset holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._validation import check_path
from ...description import attributes, stored_classes, stored_model
from ...priors.stored import stored_update
from ..driver import Status

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["fit_dataset", "fit_fields", "load_dataset"]

_OF_RATES, _OCCURRENCES = "rate_", "rate_occurrences"


def fit_dataset(fit: Any) -> xr.Dataset:
    """All of a ``Fit`` on ``feature``, ``group``, ``class`` and ``iteration``; the attributes describe the model."""
    import xarray as xr

    classes = ("class",) * (fit.weight.ndim - 1)
    data: dict[str, Any] = {
        "weight": ((*classes, "feature"), fit.weight),
        "intercept": (classes, fit.intercept),
        "rate": ((*classes[: fit.rates.ndim - 1], "feature"), fit.rates),
        "objective": ("iteration", fit.objective_trace),
    }
    coords: dict[str, Any] = {"feature": fit.feature_names}
    coords |= {dim: [str(label) for label in fit.classes] for dim in classes}
    if fit.centre is not None:
        data["centre"] = ("feature", fit.centre)
    if fit.offset is not None:
        data["offset"] = ("obs_id", fit.offset)
    posterior = fit.rate_posterior
    if posterior is not None:
        coords[posterior.dim] = posterior.names
        dims = (posterior.dim, *classes)[: posterior.occurrences.ndim]
        data |= {f"{_OF_RATES}{name}": (dims, value) for name, value in posterior.law.constants().items()}
        data[_OCCURRENCES] = (dims, posterior.occurrences)
    attrs: dict[str, Any] = {
        "status": fit.status.name,
        "advice": fit.status.value,
        "n_iter": fit.n_iter,
        "model": repr(fit.model),
        **attributes(fit.model, fit.classes),
    }
    if fit.selection is not None:
        attrs["selection"] = str(fit.selection)
    return xr.Dataset(data, coords=coords, attrs=attrs)


def load_dataset(path: Any) -> xr.Dataset:
    """Read a dataset into memory; raise ValueError on a file that holds none."""
    import xarray as xr

    file = Path(check_path(path))
    if not file.is_file():
        raise FileNotFoundError(f"path: expected a file that Fit.save wrote, found none at {str(file)!r}.")
    try:
        return xr.load_dataset(file, engine="h5netcdf")
    except (OSError, ValueError, KeyError, RuntimeError, TypeError) as error:
        raise ValueError(f"path: expected a file that Fit.save wrote, got {str(file)!r} ({error}).") from None


def fit_fields(data: xr.Dataset) -> dict[str, Any]:
    """Arguments of ``Fit``, and of its ``RatePosterior`` under ``rate_posterior``; inverse of :func:`fit_dataset`.

    What was chosen by a search is the model's; the search itself, and the rows, are not kept.

    Raises
    ------
    ValueError
        If parts are missing or do not belong together, or the model had components of the user's own.
    """
    try:
        model, classes = stored_model(data.attrs), stored_classes(data.attrs)
        if model is None:
            raise ValueError(
                "expected the attribute 'model_description', which Fit.save writes for models made of this package's "
                "components; the file was written by an earlier release, or holds a component of your own"
            )
        many = ("class",) if model.loss.multiclass else ()
        own = many if model.loss.class_rates else ()
        needed = {"weight": (*many, "feature"), "intercept": many, "rate": (*own, "feature"), "objective": ()}
        for name, dims in needed.items():
            found = data[name].dims if name in data else None
            if found is None or (name != "objective" and found != dims):
                raise ValueError(f"expected the variable {name!r} on {dims}, got {found}")
        if classes is None and (many or model.loss.binary):
            raise ValueError("expected the labels in the attribute 'classes', got none")
        if classes is not None and len(classes) != (data.sizes["class"] if many else 2):
            raise ValueError(f"expected a label for each class, got {classes.tolist()}")
        intercept = data["intercept"].values
        names = [str(name) for name in data["feature"].values]
        model.bind(names)
        return {
            "weight": data["weight"].values,
            "intercept": intercept if many else float(intercept),
            "rates": data["rate"].values,
            "rate_posterior": _rate_fields(data),
            "objective_trace": data["objective"].values,
            "status": Status[str(data.attrs["status"])],
            "n_iter": int(data.attrs["n_iter"]),
            "feature_names": names,
            "classes": classes,
            "model": model,
            "centre": data["centre"].values if "centre" in data else None,
            "offset": data["offset"].values if "offset" in data else None,
        }
    except (ValueError, KeyError) as error:
        raise ValueError(f"Fit: this is no fit as Fit.save writes it: {str(error).rstrip('.')}.") from None


def _rate_fields(data: xr.Dataset) -> dict[str, Any] | None:
    """Arguments of ``RatePosterior``; None if the rates are fixed."""
    if _OCCURRENCES not in data:
        return None
    constants = {
        str(name).removeprefix(_OF_RATES): data[name].values.astype(np.float64)
        for name in data
        if str(name).startswith(_OF_RATES) and name != _OCCURRENCES
    }
    law, dim = stored_update(constants), str(data[_OCCURRENCES].dims[0])
    if law is None:
        raise ValueError(f"the law of the rates has the constants {sorted(constants)}, of no prior that is known here")
    names = [str(name) for name in data[dim].values]
    return {"law": law, "occurrences": data[_OCCURRENCES].values, "names": names, "dim": dim}
