"""A noise and its fixed rates, from the parameters of a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._typing import Float
from .._validation import check_instance
from ..noise import Dropout, Noise
from ..noise.centre import require_zero_centre
from ..rates import Fixed, Rates
from ..rates.base import check_rate

__all__ = ["check_noise", "fixed_rates", "keeps_zeros"]


def check_noise(noise: Any) -> Noise:
    """Return the noise, biased dropout about 0 by default.

    Raises
    ------
    TypeError
        If it is no noise.
    ValueError
        If it is centred elsewhere: the baselines are the published ones.

    Examples
    --------
    >>> check_noise(None)
    Dropout(unbiased=False, centre=None)
    """
    if noise is None:
        return Dropout(centre=None)
    checked: Noise = check_instance(noise, "noise", Noise, "an object such as bd.Dropout()")
    require_zero_centre(checked, "this baseline")
    return checked


def fixed_rates(rates: Any, noise: Noise, feature_names: Sequence[str]) -> Float[np.ndarray, " p"]:
    """Dropout rates (p,) of the features, zeros for a noise that has none.

    Parameters
    ----------
    rates : float, array (p,) or Fixed
        Rates in [0, 1). A baseline learns none.
    noise : Noise
        Noise that they belong to.
    feature_names : sequence of p str
        Names of the columns.

    Examples
    --------
    >>> fixed_rates(0.25, Dropout(), ["age", "weight"])
    array([0.25, 0.25])
    """
    if isinstance(rates, Rates) and not isinstance(rates, Fixed | type):
        raise ValueError(
            f"rates: expected fixed dropout rates, such as 0.3, an array (p,) or bd.Fixed(0.3), got {rates!r}; this "
            "baseline does not learn rates. bd.DropoutLogisticRegression and bd.DropoutSVC do."
        )
    fixed = rates if isinstance(rates, Fixed) else Fixed(check_rate(rates, "rates"))
    if not noise.has_rate:
        return np.zeros(len(feature_names))
    return fixed.bind(feature_names).initial


def keeps_zeros(noise: Noise) -> bool:
    """True if the noise leaves an entry of zero as it is, so that sparse data stay sparse.

    Examples
    --------
    >>> from bayesdrop.noise import GaussianNoise
    >>> keeps_zeros(Dropout()), keeps_zeros(GaussianNoise())
    (True, False)
    """
    coefficients = noise.coefficients(np.full(1, 0.5))
    return not (np.any(coefficients.shift) or np.any(coefficients.constant))
