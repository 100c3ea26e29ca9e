"""Translate polynomials and splines from formulaic's fitted state, and compute them on rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...._typing import Float
from .limits import LIMITS
from .nodes import BSpline, CubicSpline, Expression, Polynomial

__all__ = ["columns_of_spline", "cubic_spline", "number_of", "numbers_in", "polynomial"]


def number_of(value: Any) -> float:
    """A statistic of one column as a number; raise ValueError if there are several, or it is not finite."""
    array = np.asarray(value, dtype=np.float64)
    if array.size != 1 or not np.isfinite(array).all():
        raise ValueError("a statistic of several columns, or not a number")
    return float(array.reshape(-1)[0])


def numbers_in(values: Any) -> tuple[float, ...]:
    """A vector of statistics, such as knots; raise ValueError if it is not a vector of finite numbers."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise ValueError("statistics of several columns, or not numbers")
    return tuple(array.tolist())


def polynomial(x: Expression, degree: int, raw: bool, state: Mapping[str, Any]) -> Polynomial:
    """Polynomials of formulaic's ``poly``, from its state."""
    if not 0 <= degree <= LIMITS.degree:
        raise ValueError("a polynomial of that degree")
    if raw:
        return Polynomial(x, (0.0,) * degree, (0.0,) * degree, (1.0,) * degree)
    norms = [number_of(state["norms2"][k]) for k in range(degree + 1)]
    ratios = [0.0, *(norms[k] / norms[k - 1] for k in range(1, degree))]
    centres = tuple(number_of(state["alpha"][k]) for k in range(degree))
    return Polynomial(x, centres, tuple(ratios[:degree]), tuple(float(np.sqrt(norm)) for norm in norms[1:]))


def cubic_spline(x: Expression, state: Mapping[str, Any], beyond: str) -> CubicSpline:
    """Splines of formulaic's ``cr``, ``cs`` and ``cc``, from their state, by values and second derivatives."""
    from scipy.interpolate import CubicSpline as Interpolant

    knots, is_cyclic = np.array(numbers_in(state["knots"])), bool(state["cyclic"])
    if not 2 <= len(knots) <= LIMITS.knots or np.any(np.diff(knots) <= 0):
        raise ValueError("a spline of those knots")
    values = np.eye(len(knots))
    if is_cyclic:
        values = values[:, :-1]
        values[-1, 0] = 1.0
    if len(knots) == 2:
        curvatures = np.zeros_like(values)
    else:
        curvatures = Interpolant(knots, values, bc_type="periodic" if is_cyclic else "natural")(knots, 2)
    if state.get("constraints") is not None:
        constraints = np.atleast_2d(np.asarray(state["constraints"], dtype=np.float64))
        if constraints.shape[1] != values.shape[1]:
            raise ValueError("constraints of other columns")
        free = np.linalg.qr(constraints.T, mode="complete")[0][:, len(constraints) :]
        values, curvatures = values @ free, curvatures @ free
    at_knots, bends = (tuple(map(tuple, matrix.tolist())) for matrix in (values, curvatures))
    return CubicSpline(x, tuple(knots.tolist()), at_knots, bends, is_cyclic, beyond)


def columns_of_spline(node: Any, x: Float[np.ndarray, " n"], label: str) -> Float[np.ndarray, "n k"]:
    """Columns of a polynomial or spline, NaN where ``x`` is; raise ValueError beyond the knots if ``node`` does so."""
    columns = _COLUMNS[type(node)](node, _inside(x, node, label))
    columns[np.isnan(x)] = np.nan
    return columns


def _inside(x: Float[np.ndarray, " n"], node: Any, label: str) -> Float[np.ndarray, " n"]:
    """Values of a spline's argument, with values beyond the knots clipped or NaN as the formula says."""
    if isinstance(node, Polynomial) or node.beyond == "extend":
        return x
    low, high = node.knots[0], node.knots[-1]
    outside = (x < low) | (x > high)
    if node.beyond == "raise" and outside.any():
        raise ValueError(
            f"data: {int(outside.sum())} of {len(x)} rows are beyond the knots of {label!r}, from {low:g} to {high:g}; "
            "leave those rows out, or write extrapolation='clip', 'na', 'zero' or 'extend' in the formula."
        )
    return np.clip(x, low, high) if node.beyond == "clip" else np.where(outside, np.nan, x)


def _polynomial(node: Polynomial, x: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n k"]:
    columns = [np.ones(len(x)), np.zeros(len(x))]  # P_{i−1} and P_{i−2}
    result = np.empty((len(x), node.width))
    for number, (centre, ratio) in enumerate(zip(node.centres, node.ratios, strict=True)):
        columns = [(x - centre) * columns[0] - ratio * columns[1], columns[0]]
        result[:, number] = columns[0] / node.scales[number]
    return result


def _b_spline(node: BSpline, x: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n k"]:
    """Cox-de Boor recursion (de Boor 1972), for all columns at once."""
    knots, degree = np.array(node.knots), node.degree
    last, is_open = len(knots) - degree - 2, node.beyond == "extend"
    low, high = knots[:-1].copy(), knots[1:].copy()
    value, at = x[:, None], x[:, None] <= high[last]
    if is_open:
        low[degree], high[last] = -np.inf, np.inf
    basis = ((value >= low) & (value < high)).astype(np.float64)
    if not is_open:
        basis[:, last] = (value[:, 0] >= low[last]) & at[:, 0]
    for d in range(1, degree + 1):
        width = knots[d:] - knots[:-d]
        share = np.where(width > 0, (value - knots[:-d]) / np.where(width > 0, width, 1.0), 0.0)
        basis = share[:, :-1] * basis[:, :-1] + (1 - share[:, 1:]) * basis[:, 1:]
    if node.beyond in ("na", "zero"):
        basis[np.isnan(x)] = np.nan if node.beyond == "na" else 0.0
    return basis if node.has_first else basis[:, 1:]


def _cubic_spline(node: CubicSpline, x: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n k"]:
    """Splines by values and second derivatives at the knots (Wood 2006, Generalized Additive Models, section 4.1.2)."""
    knots = np.array(node.knots)
    low, high = knots[0], knots[-1]
    if node.is_cyclic:
        x = np.where(x > high, low + (x - high) % (high - low), x)
        x = np.where(x < low, high - (low - x) % (high - low), x)
    left = np.clip(np.searchsorted(knots, x) - 1, 0, len(knots) - 2)
    step = knots[left + 1] - knots[left]
    before, after = x - knots[left], knots[left + 1] - x
    bend = (np.where(x > high, 0.0, after**3 / step) - step * after) / 6
    bend_next = (np.where(x < low, 0.0, before**3 / step) - step * before) / 6
    values, curvatures = np.array(node.values), np.array(node.curvatures)
    columns = (after / step)[:, None] * values[left] + (before / step)[:, None] * values[left + 1]
    columns += bend[:, None] * curvatures[left] + bend_next[:, None] * curvatures[left + 1]
    if node.beyond == "zero":
        columns[np.isnan(x)] = 0.0
    return columns


_COLUMNS: dict[type, Callable[..., Float[np.ndarray, "n k"]]] = {
    Polynomial: _polynomial, BSpline: _b_spline, CubicSpline: _cubic_spline,
}  # fmt: skip
