"""Validation of ``y`` in a program: the coding that it documents, or an error."""

import numpy as np
from numpyro.util import not_jax_tracer

__all__ = ["check_counts", "check_labels", "check_numbers"]


def check_labels(y, n, classes=2):
    """Raise ValueError unless ``y`` is None or has one of the numbers 0, …, ``classes`` − 1 for each of ``n`` rows.

    Within a compiled function whose argument it is, ``y`` has no values yet, and only its shape is looked at.
    """
    if not _has_shape(y, (n,)):
        return
    found = np.unique(np.asarray(y))
    if found.dtype.kind not in "biuf" or not np.isin(found, np.arange(classes)).all():
        wanted = "0 and 1" if classes == 2 else f"whole numbers from 0 to {classes - 1}"
        came = ", ".join(str(value) for value in found[:4].tolist()) + (", …" if len(found) > 4 else "")
        code = "(labels == positive).astype(int)" if classes == 2 else "np.unique(labels, return_inverse=True)[1]"
        raise ValueError(f"y: expected labels coded as {wanted}, got {came}; code them with y = {code}.")


def check_numbers(y, shape, missing=False):
    """Raise ValueError unless ``y`` is None or an array of this shape of finite numbers, or NaN where ``missing``."""
    if not _has_shape(y, shape):
        return
    values = np.asarray(y)
    if values.dtype.kind not in "biuf" or not np.all(np.isfinite(values) | (missing & np.isnan(values))):
        wanted = "numbers that are finite, or NaN where missing" if missing else "finite numbers"
        raise ValueError(f"y: expected {wanted}, got {values.dtype} values such as {_odd(values)}; clean or code them.")


def check_counts(y, n):
    """Raise ValueError unless ``y`` is None or has a whole number >= 0 for each of ``n`` rows."""
    check_numbers(y, (n,))
    if _has_shape(y, (n,)):
        values = np.asarray(y)
        odd = values[(values < 0) | (values != np.floor(values))]
        if len(odd):
            raise ValueError(
                f"y: expected counts, whole numbers from 0 on, got {odd[:1].tolist()[0]!r}; rates are no counts."
            )


def _has_shape(y, shape):
    """Whether there are values to look at; their shape is checked in any case."""
    if y is None:
        return False
    if np.shape(y) != shape:
        raise ValueError(f"y: expected shape {shape}, one value for each row of X, got {np.shape(y)}.")
    return not_jax_tracer(y)


def _odd(values):
    odd = values.ravel() if values.dtype.kind not in "biuf" else values[~np.isfinite(values)]
    return repr(odd[:1].tolist()[0])
