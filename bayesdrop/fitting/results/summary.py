"""The weights and rates of a ``Fit`` as a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._typing import Float
from ..._validation import check_number

__all__ = ["feature_gain", "rate_ends", "rows_of", "summary_frame"]


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
    index, found = fit.model.bind(fit.feature_names).index, {}
    for name, end in zip(("rate_low", "rate_high"), posterior.interval(probability), strict=True):
        found[name] = np.broadcast_to(np.asarray(end)[index].T, np.shape(fit.weight))
    return found


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
