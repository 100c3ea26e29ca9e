"""Convert a ``Fit`` to an xarray dataset and back, and to a table of weights and rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..._netcdf import read_netcdf, reading
from ..._progress import uninterrupted
from ..._stored import by_label, stored_classes, stored_count, stored_names, stored_numbers
from ..._typing import Float
from ..._validation import check_number
from ...description import (
    attributes,
    carried,
    carrying,
    required_model,
    stored_facts,
    stored_feature_names,
)
from ...priors.rate_prior import BetaLaw
from ..solvers.driver import Status

if TYPE_CHECKING:
    import xarray as xr

    from ...model import Model

__all__ = ["feature_gain", "fit_dataset", "fit_fields", "load_dataset", "rate_ends", "rows_of", "summary_frame"]

_OF_RATES, _OCCURRENCES = "rate_", "rate_occurrences"
_COVARIANCE = ("coefficient", "other_coefficient")


def fit_dataset(fit: Any) -> xr.Dataset:
    """All of a ``Fit`` on ``feature``, ``group``, ``class`` and ``iteration``; the attributes describe the model."""
    with uninterrupted():
        import xarray as xr

    classes = ("class",) * (fit.weight.ndim - 1)
    data: dict[str, Any] = {
        "weight": ((*classes, "feature"), fit.weight),
        "intercept": (classes, fit.intercept),
        "rate": ("feature", fit.rates),
        "objective": ("iteration", fit.objective_trace),
    }
    coords: dict[str, Any] = {"feature": fit.feature_names}
    coords |= {dim: [str(label) for label in fit.classes] for dim in classes}
    if fit.centre is not None:
        data["centre"] = ("feature", fit.centre)
    if fit.offset is not None:
        data["offset"] = ("obs_id", fit.offset)
    if fit.class_weight is not None:
        data["class_weight"] = ("label", [fit.class_weight[label] for label in fit.classes.tolist()])
    if fit.covariance is not None:
        data["covariance"] = (_COVARIANCE, fit.covariance)
    if fit.sigma is not None:
        data["sigma"] = ((), fit.sigma)
    posterior = fit.rate_posterior
    if posterior is not None:
        coords[posterior.dim] = posterior.names
        data |= {f"{_OF_RATES}{name}": (posterior.dim, value) for name, value in posterior.law._asdict().items()}
        data[_OCCURRENCES] = (posterior.dim, posterior.occurrences)
    attrs: dict[str, Any] = {
        "status": fit.status.name,
        "advice": fit.status.value,
        "n_iter": fit.n_iter,
        "solver": fit.solver,
        "model": repr(fit.model),
        **attributes(fit.model, fit.classes, fit.facts, fit.feature_names),
    }
    if fit.selection is not None:
        attrs["selection"] = str(fit.selection)
    return carrying(xr.Dataset(data, coords=coords, attrs=attrs), {})


def load_dataset(path: Any) -> xr.Dataset:
    """Read a file of :meth:`Fit.save` into memory; raise ValueError for other files."""
    with reading(path, "a fit", "Fit.save", "fit again") as file:
        groups = read_netcdf(file)
        if set(groups) != {"/"}:
            raise ValueError(f"expected one group, got {sorted(groups)}")
        return groups["/"]


def fit_fields(data: xr.Dataset, components: Model | None = None) -> dict[str, Any]:
    """Arguments of ``Fit``, with those of its ``RatePosterior`` as ``rate_posterior``; inverse of :func:`fit_dataset`.

    The model has the settings that a search chose; the search and the rows are not stored. ``components`` is a model
    with the user-defined components that a file names.

    Raises
    ------
    ValueError
        If parts are missing, out of range or inconsistent, or the file names user-defined components that
        ``components`` lacks.
    """
    try:
        model = required_model(data.attrs | carried([data]), "Fit.save", "bd.Fit.load", components)
        classes = stored_classes(data.attrs)
        many = ("class",) if model.loss.multiclass else ()
        if classes is None and (many or model.loss.binary):
            raise ValueError("expected the labels in the attribute 'classes', got none")
        names = stored_feature_names(data.attrs) or stored_names(data, "feature")
        rate_map = model.bind(names)
        data = by_label(by_label(data, "feature", names), rate_map.dim, rate_map.names or names)
        if many:
            data = by_label(data, "class", [str(label) for label in np.asarray(classes)])
        weight = stored_numbers(data, "weight", (*many, "feature"))
        if classes is not None and len(classes) != (len(weight) if many else 2):
            raise ValueError(f"expected a label for each class, got {classes.tolist()}")
        intercept = stored_numbers(data, "intercept", many)
        rates, trace = _rate_fields(data), stored_numbers(data, "objective", ("iteration",))
        if rates is not None and (
            not rate_map.is_free or (rates["dim"], rates["names"]) != (rate_map.dim, rate_map.names)
        ):
            raise ValueError(f"expected rates of {rate_map.names}, as the model has them, got {rates['names']}")
        if not len(trace):
            raise ValueError("expected an iteration at least")
        factor, sigma = _optional(data, "class_weight", ("label",), least=0), _optional(data, "sigma", ())
        if sigma is not None and not sigma > 0:
            raise ValueError(f"expected sigma above 0, got {sigma}")
        if factor is not None and (classes is None or len(factor) != len(classes) or not np.all(factor > 0)):
            raise ValueError(f"expected weights of the classes above 0, one for each, got {factor.tolist()}")
        return {
            "weight": weight,
            "intercept": intercept if many else float(intercept),
            "rates": stored_numbers(data, "rate", ("feature",), least=0, most=1),
            "rate_posterior": rates,
            "objective_trace": trace,
            "status": Status[str(data.attrs["status"])],
            "n_iter": stored_count(data.attrs["n_iter"], "n_iter"),
            "solver": str(data.attrs.get("solver", "")),
            "feature_names": names,
            "classes": classes,
            "model": model,
            "centre": _optional(data, "centre", ("feature",)),
            "offset": _optional(data, "offset", ("obs_id",)),
            "facts": stored_facts(data.attrs),
            "sigma": None if sigma is None else float(sigma),
            "covariance": _stored_covariance(data, np.size(weight) + np.size(intercept)),
            "class_weight": None
            if factor is None
            else dict(zip(np.asarray(classes).tolist(), factor.tolist(), strict=True)),
        }
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"Fit: this is not a fit as Fit.save writes it: {str(error).rstrip('.')}.") from None


def _optional(data: xr.Dataset, name: str, dims: tuple[str, ...], **limits: float) -> Any:
    """Numbers of a variable; None if the file does not have it."""
    return stored_numbers(data, name, dims, **limits) if name in data else None


def _stored_covariance(data: xr.Dataset, size: int) -> Float[np.ndarray, "D D"] | None:
    """Covariance of weights and intercepts; None if the file has none."""
    matrix = _optional(data, "covariance", _COVARIANCE)
    if matrix is None:
        return None
    if matrix.shape != (size, size) or not np.allclose(matrix, matrix.T) or np.any(matrix.diagonal() < 0):
        raise ValueError(f"expected a covariance of {size} weights and intercepts, got {matrix.shape} numbers")
    return np.asarray(matrix)


def _rate_fields(data: xr.Dataset) -> dict[str, Any] | None:
    """Arguments of ``RatePosterior``; None if the rates are fixed."""
    if _OCCURRENCES not in data:
        return None
    dim = str(next(iter(data[_OCCURRENCES].dims), "feature"))
    occurrences, names = stored_numbers(data, _OCCURRENCES, (dim,), least=0), stored_names(data, dim)
    law = BetaLaw(*(stored_numbers(data, f"{_OF_RATES}{name}", (dim,)) for name in BetaLaw._fields))
    if any(np.any(part <= 0) for part in law):
        raise ValueError(f"expected numbers above 0 in {[f'{_OF_RATES}{name}' for name in BetaLaw._fields]}")
    return {"law": law, "occurrences": occurrences, "names": names, "dim": dim}


def rows_of(feature_names: list[str], classes: Any = None) -> Any:
    """Index of a table: features, or classes and their features.

    Examples
    --------
    >>> rows_of(["age"], ["no", "yes"]).tolist()
    [('no', 'age'), ('yes', 'age')]
    """
    import pandas as pd

    if classes is None:
        return pd.Index(feature_names, name="feature")
    labels = [str(label) for label in classes]
    return pd.MultiIndex.from_product([labels, feature_names], names=["class", "feature"])


def feature_gain(fit: Any) -> Float[np.ndarray, "*classes p"]:
    """``g`` of ``E x̃ = g x + h`` of each feature, shaped like the weights; ``1 − rate`` under biased dropout."""
    gain = fit.model.noise.coefficients(np.asarray(fit.rates, dtype=np.float64)).gain
    return np.broadcast_to(gain, np.shape(fit.weight))


def rate_ends(fit: Any, probability: float) -> dict[str, Float[np.ndarray, "*classes p"]]:
    """Plug-in intervals of the features' learnt rates, ``rate_low`` and ``rate_high``, shaped like the weights."""
    posterior = fit.rate_posterior
    if posterior is None:
        return {}
    rate_map, columns = fit.model.bind(fit.feature_names), {}
    for name, end in zip(("rate_low", "rate_high"), posterior.interval(probability), strict=True):
        columns[name] = np.broadcast_to(rate_map.expand(np.asarray(end)), np.shape(fit.weight))
    return columns


def summary_frame(fit: Any, probability: float) -> Any:
    """``Fit.summary``; see there."""
    import pandas as pd

    probability = check_number(probability, "probability", above=0, below=1)
    columns: dict[str, Any] = {
        "weight": fit.weight,
        "scaled_weight": feature_gain(fit) * fit.weight,
        "rate": np.broadcast_to(fit.rates, np.shape(fit.weight)),
        **rate_ends(fit, probability),
    }
    index = rows_of(fit.feature_names, fit.classes if np.ndim(fit.weight) > 1 else None)
    return pd.DataFrame({name: np.ravel(values) for name, values in columns.items()}, index=index)
