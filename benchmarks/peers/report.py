"""Tables made of the cells: a summary of all, ours against each peer, and a set each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.peers.methods import METHODS, REFERENCE, SHORT
from benchmarks.peers.scores import ahead, calibration_error, paired
from benchmarks.peers.sets import FAMILIES, SETS, SPLITS
from benchmarks.peers.table import key
from benchmarks.published.cells import markdown

__all__ = ["OURS", "PEERS", "Results", "against", "compare", "families", "of_set", "summary", "wins"]

Results = Mapping[str, Mapping[str, Any]]

OURS = ("dropout logistic", "dropout logistic CV", "dropout SVC")
"""Estimators that are compared with each peer."""

PEERS = tuple(method for method, one in METHODS.items() if not one.ours)


def _of(results: Results, data: str, method: str) -> dict[int, Mapping[str, Any]]:
    """Results of a method on a set by the number of the split."""
    names = {number: key(data, method, number) for number in range(SPLITS)}
    return {number: results[name] for number, name in names.items() if name in results}


def compare(
    results: Results, data: str, method: str, score: str, reference: str = REFERENCE
) -> tuple[float, float] | None:
    """Difference of a score to a reference and its standard error, over the splits that both have; None if none."""
    mine, theirs = _of(results, data, method), _of(results, data, reference)
    both = [number for number in mine if number in theirs and score in mine[number] and score in theirs[number]]
    if method == reference or not both:
        return None
    values = [[one[number][score] for number in both] for one in (mine, theirs)]
    return paired(values[0], values[1], SETS[data].correlation)


def _score(results: Results, peer: str) -> str:
    """By what a peer is compared: the log loss, or the error if it has no probabilities."""
    has = any("log_loss" in one for data in SETS for one in _of(results, data, peer).values())
    return "log_loss" if has else "error"


def _leads(results: Results, mine: str, peer: str) -> dict[str, tuple[float, float]]:
    """Difference and standard errors ahead, by set, where both have more than one split."""
    found = {data: compare(results, data, mine, _score(results, peer), peer) for data in SETS}
    return {data: (gap[0], ahead(*gap)) for data, gap in found.items() if gap is not None and not np.isnan(gap[1])}


def against(results: Results) -> str:
    """On how many sets each of ours is ahead of each peer, level and behind, the mean lead, and times."""
    rows = []
    for mine in OURS:
        for peer in PEERS:
            leads = np.array([lead for _, lead in _leads(results, mine, peer).values()])
            if not len(leads):
                continue
            times = [
                [one["cpu"] for data in SETS if _of(results, data, mine) and _of(results, data, peer)
                 for one in _of(results, data, method).values()]
                for method in (mine, peer)
            ]  # fmt: skip
            counts = (leads > 2, leads > 1, np.abs(leads) <= 1, leads < -1, leads < -2)
            rows.append(
                [
                    f"*{mine}*",
                    peer,
                    _score(results, peer).replace("_", " "),
                    str(len(leads)),
                    *(str(int(np.sum(which))) for which in counts),
                    f"{leads.mean():+.2f}",
                    f"{np.median(leads):+.2f}",
                    *(f"{np.median(part):.2g}" for part in times),
                ]
            )
    columns = ["ours", "peer", "score", "sets", "ahead by 2", "ahead by 1", "level", "behind by 1", "behind by 2"]
    return markdown([*columns, "mean z", "median z", "CPU of ours, s", "CPU of the peer, s"], rows)


def wins(results: Results) -> str:
    """On which sets a peer is ahead of one of ours by more than two standard errors, and by more than one."""
    rows = []
    for mine in OURS:
        for peer in PEERS:
            leads = _leads(results, mine, peer)
            if leads:
                form = "{:.3f}" if _score(results, peer) == "log_loss" else "{:.1f} %"
                far, near = (_named(leads, least, most, form) for least, most in ((-np.inf, -2), (-2, -1)))
                rows.append([f"*{mine}*", peer, far, near])
    return markdown(["ours", "peer", "peer ahead by more than 2", "peer ahead by 1 to 2"], rows)


def _named(leads: Mapping[str, tuple[float, float]], least: float, most: float, form: str) -> str:
    """Labels of the sets within bounds, with the differences, the largest first; none if there is none."""
    found = sorted(((gap, data) for data, (gap, lead) in leads.items() if least <= lead < most), reverse=True)
    return "; ".join(f"{SETS[data].label} ({form.format(gap)})" for gap, data in found) or "none"


def families(results: Results) -> str:
    """Of each kind of data, how many sets the default is ahead of the reference on, level and behind."""
    rows = []
    for mine in OURS:
        leads = _leads(results, mine, REFERENCE)
        for family in FAMILIES:
            part = np.array([lead for data, (_, lead) in leads.items() if SETS[data].family == family])
            if len(part):
                counts = (part > 1, np.abs(part) <= 1, part < -1)
                cells = [str(int(np.sum(which))) for which in counts]
                rows.append([f"*{mine}*", family, str(len(part)), *cells, f"{part.mean():+.2f}"])
    return markdown(["ours", "family", "sets", "ahead by 1", "level", "behind by 1", "mean z"], rows)


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
    return f"{_title(results, data)}\n\n{markdown(header, rows)}"


def _title(results: Results, data: str) -> str:
    n, p, K = next(one["shape"] for name, one in results.items() if name.startswith(f"{data} |"))
    done = max(len(_of(results, data, method)) for method in METHODS)
    return f"**{SETS[data].label}**, {n:,} training rows × {p:,}, {K} classes, {done} splits"


def summary(results: Results, methods: Sequence[str] = tuple(METHODS)) -> str:
    """On how many sets each method is ahead of the reference, level, or behind, by two standard errors."""
    rows = []
    for method in methods:
        counts = []
        for score in ("log_loss", "error"):
            found = [compare(results, data, method, score) for data in SETS]
            far = [(gap, 2 * error) for gap, error in filter(None, found) if not np.isnan(error)]
            front, behind = sum(gap < -error for gap, error in far), sum(gap > error for gap, error in far)
            counts.append(f"{front} / {len(far) - front - behind} / {behind}" if far else "")
        if any(counts) and method != SHORT:
            rows.append([f"*{method}*" if METHODS[method].ours else method, *counts])
    header = ["ahead / level / behind, sets", "log loss", "error"]
    return markdown(header, rows)
