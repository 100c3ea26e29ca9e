"""Tables made of the cells: a set each, and a summary of all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.peers.methods import METHODS, REFERENCE, SHORT
from benchmarks.peers.scores import calibration_error, paired
from benchmarks.peers.sets import SETS
from benchmarks.peers.table import key
from benchmarks.published.cells import markdown

__all__ = ["Results", "compare", "of_set", "summary"]

Results = Mapping[str, Mapping[str, Any]]


def _of(results: Results, data: str, method: str) -> dict[int, Mapping[str, Any]]:
    """Results of a method on a set by the number of the split."""
    numbers = range(SETS[data].splits)
    return {number: results[key(data, method, number)] for number in numbers if key(data, method, number) in results}


def compare(results: Results, data: str, method: str, score: str) -> tuple[float, float] | None:
    """Difference of a score to the reference and its standard error, over the splits that both have; None if none."""
    mine, theirs = _of(results, data, method), _of(results, data, REFERENCE)
    both = [number for number in mine if number in theirs and score in mine[number]]
    if method == REFERENCE or not both:
        return None
    values = [[one[number][score] for number in both] for one in (mine, theirs)]
    return paired(values[0], values[1], SETS[data].correlation)


def _difference(found: tuple[float, float] | None, digits: int) -> str:
    """``+d ± e``, bold where it is more than two standard errors."""
    if found is None:
        return ""
    gap, error = found
    text = f"{gap:+.{digits}f}" + ("" if np.isnan(error) else f" ± {error:.{digits}f}")
    return f"**{text}**" if abs(gap) > 2 * error else text


def of_set(results: Results, data: str) -> str:
    """Table of a set: methods against scores."""
    rows = []
    for method in METHODS:
        found = list(_of(results, data, method).values())
        if not found:
            continue
        chances = "log_loss" in found[0]
        rows.append(
            [
                f"*{method}*" if METHODS[method].ours else method,
                f"{np.mean([one['error'] for one in found]):.2f}",
                _difference(compare(results, data, method, "error"), 2),
                f"{np.mean([one['log_loss'] for one in found]):.4f}" if chances else "",
                _difference(compare(results, data, method, "log_loss"), 4),
                f"{calibration_error(found):.1f}" if chances else "",
                f"{np.median([one['cpu'] for one in found]):.2g}",
            ]
        )
    if not rows:
        return ""
    header = ["method", "error, %", "less reference", "log loss", "less reference", "calibration error, %", "CPU, s"]
    n, p = next(one["shape"] for name, one in results.items() if name.startswith(f"{data} |"))
    done = max(len(_of(results, data, method)) for method in METHODS)
    return f"**{SETS[data].label}**, {n:,} training rows × {p:,}, {done} splits\n\n{markdown(header, rows)}"


def summary(results: Results) -> str:
    """On how many sets each method is ahead of the reference, level, or behind, by two standard errors."""
    rows = []
    for method in METHODS:
        counts = []
        for score in ("log_loss", "error"):
            found = [compare(results, data, method, score) for data in SETS]
            far = [(gap, 2 * error) for gap, error in filter(None, found) if not np.isnan(error)]
            ahead, behind = sum(gap < -error for gap, error in far), sum(gap > error for gap, error in far)
            counts.append(f"{ahead} / {len(far) - ahead - behind} / {behind}" if far else "")
        if any(counts) and method != SHORT:
            rows.append([f"*{method}*" if METHODS[method].ours else method, *counts])
    header = ["ahead / level / behind, sets", "log loss", "error"]
    return markdown(header, rows)
