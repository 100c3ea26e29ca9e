"""``report.html``: one self-contained page with the results of ``bayesdrop fit``."""

from __future__ import annotations

import base64
import io
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from .._typing import Float
from .report import Output, of_rates, rate_frame
from .screen import plain

if TYPE_CHECKING:
    from ..fitting.results.result import Fit

__all__ = ["undetermined", "write_page"]

_FOLDS, _SEED = 5, 0
# Rows of a table that are shown; the files hold all of them.
_MOST = 60
# A level that so few rows have says little of its weight.
_RARE = 5
# Columns that go together as closely as this share their weight by the prior alone.
_COLLINEAR = 0.999

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
body{overflow-wrap:anywhere}
h1{font-size:1.7rem}h2{margin-top:2.5rem;border-bottom:1px solid #ccc;font-size:1.25rem}
pre{background:#f6f6f6;padding:.8rem;white-space:pre-wrap;font-size:.85rem}
div{overflow-x:auto}table{border-collapse:collapse;font-size:.78rem}
th,td{padding:.15rem .5rem;text-align:right;border-bottom:1px solid #eee;overflow-wrap:normal}
th:first-child,td:first-child{text-align:left;min-width:9rem;overflow-wrap:anywhere}
img{max-width:100%;height:auto}p.small{color:#666;font-size:.85rem}
"""


def write_page(out: Output, table: Any, fit: Fit, post: Any, messages: list[str]) -> None:
    """Write the page; ``messages`` are the lines that the command has printed.

    Text from the data is escaped, and pictures are part of the page.
    """
    from .. import __version__, plots
    from ..effects.contrasts import level_contrasts
    from ..effects.table import weights_table
    from ..posterior.diagnostics.diagnosis import diagnose

    levels = level_contrasts(fit.feature_names, table.groups, table.categorical) if table.levels else None
    weights = weights_table(fit if post is None else post, contrasts=levels)
    sections = [("Data and fit", _text("\n".join(messages)))]
    scores = _held_out(fit, table)
    if scores:
        sections.append(("On rows that the fit has not seen", scores))
    shown = weights.iloc[np.argsort(-np.abs(weights["scaled_weight"].to_numpy()), kind="stable")[:_MOST]]
    kind = str(weights.attrs.get("weight_interval", ""))
    advice = "" if "low" in weights else " (here: --sample)"
    head = f"Largest scaled weights first, {len(shown)} of {len(weights)}. Intervals: {kind}{advice}."
    forest = _picture(plots.weights_forest(weights, top=25))
    sections.append(("Weights", _small(head) + forest + _frame(shown)))
    if fit.rate_posterior is not None:
        rates = _picture(plots.rates_forest(of_rates(post), fit))
        sections.append(("Dropout rates", rates + _frame(rate_frame(fit, post).head(_MOST))))
    elif np.ptp(fit.rates) == 0:
        rate = float(np.ravel(fit.rates)[0])
        sections.append(("Dropout rates", _small("No noise." if rate == 0 else f"All fixed at {rate:g}.")))
    if post is not None:
        sections.append(("Diagnosis of the draws", _text(plain(diagnose(post)))))
    else:
        sections.append(("Convergence", _picture(plots.objective_trace(fit))))
    lines = undetermined(table, weights)
    items = "".join(f"<li>{escape(plain(line))}</li>" for line in lines)
    nothing = "Nothing of the kind that this page looks for: intervals about zero, rare levels, equal columns."
    sections.append(("What the data do not determine", f"<ul>{items}</ul>" if lines else _small(nothing)))
    sections.append(("Model", _text(repr(fit.model)) + _small(f"bayesdrop {escape(__version__)}")))
    title = escape(plain(f"{table.target}: {len(table.y)} rows, {len(fit.feature_names)} features"))
    body = "".join(f"<section><h2>{escape(name)}</h2>{content}</section>" for name, content in sections)
    out.file("report.html").write_text(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1>{body}</body></html>",
        encoding="utf-8",
    )


def undetermined(table: Any, weights: Any) -> list[str]:
    """What the data leave open: weights of either sign, rare levels, and columns that cannot be distinguished.

    Parameters
    ----------
    table : Table
        The rows.
    weights : pandas.DataFrame
        As :func:`bayesdrop.weights_table` makes it.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayesdrop.data.tables import encode
    >>> frame = pd.DataFrame({"size": [1.0, 2.0, 4.0], "double": [2.0, 4.0, 8.0], "sold": ["no", "yes", "no"]})
    >>> print(*undetermined(encode(frame, "sold"), pd.DataFrame(index=["size", "double"])))
    size and double go together (correlation 1.000): how they share their weight is the prior's word.
    """
    from scipy import sparse

    lines = []
    if "low" in weights:
        open_signs = (weights["low"] < 0) & (weights["high"] > 0)
        names = [" of ".join(map(str, name[::-1])) if isinstance(name, tuple) else str(name) for name in weights.index]
        found = [name for name, is_open in zip(names, open_signs, strict=True) if is_open]
        if found:
            percent = 100 * weights.attrs.get("probability", 0.9)
            lines.append(
                f"The sign of {len(found)} of {len(weights)} weights ({percent:g} % intervals hold 0): {_few(found)}."
            )
    X = table.X
    if table.levels:
        rows = np.asarray((X > 0).sum(axis=0)).ravel()  # not those that are missing
        is_level = np.isin(table.groups, table.categorical)
        rare = [f"{table.feature_names[j]} ({rows[j]})" for j in np.flatnonzero(is_level & (rows < _RARE) & (rows > 0))]
        if rare:
            lines.append(f"Weights of levels that fewer than {_RARE} rows have: {_few(rare)}.")
    if not sparse.issparse(X) and X.shape[1] <= 500:
        lines += [
            f"{one} and {other} go together (correlation {r:.3f}): how they share their weight is the prior's word."
            for one, other, r in _alike(X, table.feature_names)
        ]
    return lines


def _alike(X: Float[np.ndarray, "n p"], names: list[str]) -> list[tuple[str, str, float]]:
    """Pairs of columns without missing entries that are all but multiples of each other, the first ten."""
    varied = np.flatnonzero(np.std(X, axis=0) > 0)
    if len(varied) < 2:
        return []
    r = np.corrcoef(X[:, varied], rowvar=False)
    first, second = np.nonzero(np.triu(np.abs(r) > _COLLINEAR, k=1))
    return [(names[varied[i]], names[varied[j]], float(r[i, j])) for i, j in zip(first[:10], second[:10], strict=True)]


def _held_out(fit: Fit, table: Any) -> str:
    """Scores by folds at the model that was chosen, with a picture of the calibration of two classes; may be empty."""
    from .. import plots
    from ..fitting.tuning.folds import shuffled_folds

    n = len(table.y)
    fewest = int(np.min(np.unique(table.y, return_counts=True)[1])) if table.classes else n
    if fewest < _FOLDS:
        return ""
    splitter = shuffled_folds(_FOLDS, classes=bool(table.classes), seed=_SEED)
    mean = np.zeros((n, table.classes) if table.classes > 2 else n)
    label = np.empty(n, dtype=np.asarray(table.y).dtype)
    for train, test in splitter.split(np.zeros(n), table.y if table.classes else None):
        part = _refitted(fit, table, train).predict(table.X[test])
        mean[test] = part.probability if table.classes > 2 else part.mean
        if table.classes:
            label[test] = part.label
    if not table.classes:
        error = float(np.sqrt(np.mean((table.y - mean) ** 2)))
        spread = float(np.std(table.y))
        return _small(f"{_FOLDS} folds: root mean squared error {error:.4g}, standard deviation {spread:.4g}.")
    wrong = 100 * float(np.mean(label != table.y))
    code = np.searchsorted(np.asarray(fit.classes), table.y)
    chance = mean[np.arange(n), code] if table.classes > 2 else np.where(code == 1, mean, 1 - mean)
    loss = float(-np.mean(np.log(np.clip(chance, 1e-300, None))))
    common = 100 * (1 - np.max(np.bincount(code)) / n)
    items = f"{_FOLDS} folds: {wrong:.2f} % wrong (always the commonest class: {common:.2f} %), log loss {loss:.4f}."
    picture = _picture(plots.reliability_curve(table.y, mean)) if table.classes == 2 else ""
    return _small(items) + picture


def _refitted(fit: Fit, table: Any, rows: Any) -> Fit:
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    from ..fitting.fit import fit as fit_model
    from ..warnings import MissingWarning

    with warnings.catch_warnings():
        for kind in (ConvergenceWarning, MissingWarning):
            warnings.simplefilter("ignore", kind)
        return fit_model(fit.model, table.X[rows], table.y[rows], feature_names=table.feature_names)


def _few(names: list[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _text(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def _small(text: str) -> str:
    return f'<p class="small">{escape(text)}</p>' if text else ""


def _frame(frame: Any) -> str:
    """A table, what it holds escaped and made plain."""
    from pandas.api.types import is_numeric_dtype

    index = any(frame.index.names)
    named = frame.rename(index=plain) if index else frame
    if index and named.index.nlevels > 1:
        named = named.reset_index()
        index = False
    text = {name: named[name].map(plain) for name in named if not is_numeric_dtype(named[name].dtype)}
    shown = named.assign(**text).to_html(index=index, border=0, float_format="{:.3g}".format, escape=True)
    return f"<div>{shown}</div>"


def _picture(ax: Any) -> str:
    """What is drawn, as an image within the page."""
    import matplotlib.pyplot as plt

    figure, buffer = ax.figure, io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, bbox_inches="tight")
    plt.close(figure)
    words = escape(plain(ax.get_title() or ax.get_xlabel() or "picture"), quote=True)
    return f'<p><img alt="{words}" src="data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"></p>'
