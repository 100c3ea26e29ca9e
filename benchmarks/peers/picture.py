"""Log losses beside the reference's, a panel a method."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.peers.methods import METHODS, REFERENCE
from benchmarks.peers.report import Results, compare
from benchmarks.peers.sets import SETS

__all__ = ["PANELS", "draw"]

# Nats at which the axis ends; what lies beyond is an arrow there.
_END = 0.2
PANELS = (
    "dropout logistic",
    "dropout SVC",
    "ridge logistic, C = 1",
    "NBSVM, logistic, by log loss",
    "gradient boosting",
)
"""Methods of the picture."""
_COLOURS = {"ahead": "#1b6ca8", "level": "#8a8a8a", "behind": "#b5403a"}


def draw(results: Results, path: Path) -> None:
    """Draw differences of the log loss with two standard errors, and write the picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    found = {method: {data: compare(results, data, method, "log_loss") for data in SETS} for method in PANELS}
    found = {method: gaps for method, gaps in found.items() if any(gaps.values())}
    names = [data for data in SETS if any(gaps[data] for gaps in found.values())]
    columns = max(1, len(found))
    lines = max(1, -(-len(found) // columns))
    figure, axes = plt.subplots(
        lines, columns, figsize=(2.6 * columns + 1.6, (0.24 * len(names) + 0.9) * lines), sharey=True, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for axis in axes.flat[len(found) :]:
        axis.set_visible(False)
    for axis, (method, gaps) in zip(axes.flat, found.items(), strict=False):
        axis.axvline(0, color="black", linewidth=0.8)
        for place, data in enumerate(names):
            if gaps[data] is None:
                continue
            gap, error = gaps[data]
            single = bool(np.isnan(error))  # of one split: a hollow point, of which nothing is said
            reach = 0.0 if single else 2 * error
            colour = _COLOURS["level" if single or abs(gap) <= reach else "ahead" if gap < 0 else "behind"]
            inside = float(np.clip(gap, -_END, _END))
            marker = "o" if inside == gap else ">" if gap > 0 else "<"
            reach = reach if inside == gap else 0.0
            axis.errorbar(
                inside, place, xerr=reach, fmt=marker, color=colour, markersize=4, linewidth=1.2,
                markerfacecolor="white" if single else colour,
            )  # fmt: skip
        axis.set_title(method, fontsize=9, fontweight="bold" if METHODS[method].ours else "normal")
        axis.set_xlim(-1.05 * _END, 1.05 * _END)
        axis.set_yticks(range(len(names)), [SETS[data].label for data in names], fontsize=8)
        axis.tick_params(axis="x", labelsize=8)
        axis.grid(axis="y", color="#e6e6e6", linewidth=0.6)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].invert_yaxis()
    figure.supxlabel(
        f"log loss minus that of {REFERENCE}: nats a row, with two standard errors; arrows lie beyond the axis",
        fontsize=9,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)
