"""Where a multiplicative noise is centred: ``x̃ = c + α(x − c)``, so that a dropped entry takes the value ``c``.

With ``c = 0`` it is the published noise. Zero is the natural value of an absent word or a dark pixel; the mean radius
of a cell nucleus is never near it, and a noise that sets it to zero makes a value that no row has. A noise itself
speaks of ``x − c`` and never sees the columns; :mod:`bayesdrop.fitting.objective.centring` finds ``c``, and the design
makes ``X − c`` of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._validation import check_numbers, shown

__all__ = ["AUTO", "MEAN", "centre_of", "check_centre", "require_zero_centre"]

AUTO, MEAN = "auto", "mean"


def check_centre(centre: Any) -> None | str | tuple[float, ...]:
    """Return None, "mean", "auto" or a tuple of finite numbers; raise ValueError on anything else.

    Examples
    --------
    >>> import numpy as np
    >>> check_centre(np.array([1.0, 0.0])), check_centre("mean")
    ((1.0, 0.0), 'mean')
    """
    if centre is None or (isinstance(centre, str) and centre in (AUTO, MEAN)):
        return centre
    expected = 'None, "mean", "auto" or one finite number for each feature, shape (p,)'
    value = check_numbers(centre, "centre", expected)
    if value.ndim != 1 or value.size == 0 or not np.all(np.isfinite(value)):
        raise ValueError(f"centre: expected {expected}, got {shown(centre)}.")
    return tuple(value.tolist())


def centre_of(noise: Any) -> Any:
    """Centre (p,) of a noise whose centre is known in numbers; None where it is zero, or not found yet.

    Examples
    --------
    >>> from bayesdrop.noise import Dropout
    >>> centre_of(Dropout(centre=[1.0, 0.0])), centre_of(Dropout())
    (array([1., 0.]), None)
    """
    return np.array(noise.centre) if isinstance(noise.centre, tuple) else None


def require_zero_centre(noise: Any, what: str) -> None:
    """Raise ValueError if the user centred the noise elsewhere and ``what`` knows the noise about 0 alone.

    Examples
    --------
    >>> from bayesdrop.noise import Dropout
    >>> require_zero_centre(Dropout(), "the hidden layer")
    >>> require_zero_centre(Dropout(centre="mean"), "the hidden layer")
    Traceback (most recent call last):
    ...
    ValueError: centre: the hidden layer has noise about 0 only, ...
    """
    if noise.centre is not None and noise.centre != AUTO:
        raise ValueError(
            f"centre: {what} has noise about 0 only, got {noise!r}; subtract the centre from the columns of X before, "
            "which is the same with an intercept, and leave centre out."
        )
