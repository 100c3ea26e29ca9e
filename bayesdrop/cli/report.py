"""Output of the commands: the folder, tables of rates, the diagnosis of a posterior, and files."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from .._atomic_files import replace_file
from .._netcdf import write_netcdf
from .._progress import uninterrupted
from .._typing import Float
from ..data.table_files import InputError
from ..posterior.arviz_groups.builder import SUMMARY, THINNED, not_kept
from ..posterior.arviz_groups.groups import dataset, save
from ..posterior.diagnostics.diagnosis import diagnose
from ..posterior.diagnostics.mixing import mixing
from ..posterior.draws.log_prior import prior_interval
from .screen import plain

if TYPE_CHECKING:
    from ..data.encoding import Encoding
    from ..fitting.results.result import Fit

__all__ = [
    "Output",
    "hidden_by_plug_in",
    "of_rates",
    "print_rates",
    "print_sample",
    "rate_frame",
    "sample_quietly",
    "write_csv",
    "write_fit",
    "write_posterior",
]

PROBABILITY = 0.9
# What begins a formula in a spreadsheet, or ends a cell before it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001


class Output:
    """A folder that gets all of the files at the end, or none of them.

    Files are written to a hidden folder inside it and renamed when the work is done. After an error nothing is left,
    not even the folder if it was new.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "result"
    >>> with Output(folder) as out:
    ...     _ = out.file("a.txt").write_text("done")
    >>> [path.name for path in folder.iterdir()]
    ['a.txt']
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self._names: list[str] = []
        self._created: list[Path] = []
        self._stage: Path | None = None

    def __enter__(self) -> Output:
        try:
            with uninterrupted():
                self._created = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
                if self.folder.exists() and not self.folder.is_dir():
                    raise NotADirectoryError(20, "it is a file")
                self.folder.mkdir(parents=True, exist_ok=True)
                self._stage = Path(tempfile.mkdtemp(prefix=".bayesdrop-", dir=self.folder))
        except BaseException as error:
            self._clear(failed=True)
            if not isinstance(error, OSError):
                raise
            raise InputError(
                f"--out: cannot write to {self.folder}: {(error.strerror or str(error)).lower()}; name a folder that "
                "you may write to."
            ) from None
        return self

    def file(self, name: str) -> Path:
        """Path to write ``name`` to for now."""
        assert self._stage is not None
        self._names.append(name)
        return self._stage / name

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._stage is not None:
                for name in self._names:
                    with open(self._stage / name, "r+b") as file:
                        os.fsync(file.fileno())
                with uninterrupted():
                    for name in self._names:
                        replace_file(self._stage / name, self.folder / name)
        finally:
            self._clear(kind is not None)

    def _clear(self, failed: bool) -> None:
        """Remove the hidden folder, and after an error the folders that are new."""
        with uninterrupted():
            if self._stage is not None:
                shutil.rmtree(self._stage, ignore_errors=True)
            for path in self._created if failed else ():
                if path.is_dir() and not any(path.iterdir()):
                    path.rmdir()

    def summary(self) -> list[str]:
        """Lines that say what lies where, and what is left from an earlier run."""
        known = {"fit.nc", "posterior.nc", "rates.csv", "weights.csv", "report.html", *_PICTURES}
        lines = [f"Written to {self.folder}/: {', '.join(self._names)}"]
        if self.folder.is_dir():
            old = sorted(path.name for path in self.folder.iterdir() if path.name in known - set(self._names))
            if old:
                lines.append(f"Left there from an earlier run: {', '.join(old)}")
        return lines


_PICTURES = ("rates.png", "ranks.png", "rate_against_weight.png", "objective.png", "demo.png")


def write_csv(frame: Any, path: Path) -> None:
    """Write a data frame without its index, for people who open it in a spreadsheet.

    A cell or a name of text that a spreadsheet would run as a formula gets an apostrophe before it.

    Examples
    --------
    >>> import pandas as pd
    >>> path = Path(tempfile.mkdtemp()) / "a.csv"
    >>> write_csv(pd.DataFrame({"feature": ["=1+1", "age"], "weight": [-1.5, 2.0]}), path)
    >>> print(path.read_text())
    feature,weight
    '=1+1,-1.5
    age,2.0
    <BLANKLINE>
    """

    def harmless(cell: Any) -> Any:
        if not isinstance(cell, str):
            return cell
        # A carriage return is not quoted, and would begin a row of its own; a line feed is.
        cell = f"'{cell}" if cell[:1] in _FORMULA else cell
        return cell.replace("\r", "\n")

    text = [place for place, kind in enumerate(frame.dtypes) if kind.kind not in "biufcmM"]
    safe = frame.copy()
    for place in text:
        safe.isetitem(place, frame.iloc[:, place].astype(object).map(harmless))
    safe.rename(columns=harmless).to_csv(path, index=False)


def rate_frame(fit: Fit, post: Any = None) -> Any:
    """Rates as a pandas data frame, one row per free rate (per feature if they are fixed), in the order of the fit.

    Columns: ``learnt_rate``, ``plug_in_low``, ``plug_in_high``, ``occurrences`` and, if ``post`` is given,
    ``posterior_median``, ``posterior_low``, ``posterior_high``, ``r_hat``, ``ess_bulk``, ``ess_tail``. Intervals hold
    90 % and their estimate: plug-in ones have the highest density, those of the posterior equal tails.
    """
    import pandas as pd

    plug_in = fit.rate_posterior
    if plug_in is None:
        return pd.DataFrame({"feature": fit.feature_names, "fixed_rate": fit.rates})
    low, high = plug_in.interval(PROBABILITY)
    frame = pd.DataFrame(
        {
            plug_in.dim: plug_in.names,
            "learnt_rate": plug_in.mode,
            "plug_in_low": low,
            "plug_in_high": high,
            "occurrences": plug_in.occurrences,
        }
    )
    if post is None:
        return frame
    low, median, high = _ends(post, "rate", plug_in.dim)
    if "rate" in not_kept(post):
        known = dataset(post, SUMMARY)["rate"]
        r_hat, size = (known.sel(statistic=kind).values for kind in ("r_hat", "ess"))
        measured = {"r_hat": r_hat, "ess_bulk": size, "ess_tail": np.full(len(frame), np.nan)}
    else:
        found = mixing(dataset(post, "posterior")[["rate"]])
        measured = {kind: np.asarray(table["rate"]) for kind, table in found.items()}
    return frame.assign(posterior_median=median, posterior_low=low, posterior_high=high, **measured)


def _ends(post: Any, name: str, dim: str) -> Float[np.ndarray, "3 ..."]:
    """Both ends of the equal-tailed 90 % interval of a variable and its median between them."""
    if name in not_kept(post):
        return dataset(post, SUMMARY)[name].sel(statistic=["q5", "median", "q95"]).transpose(..., dim).values
    values = dataset(post, "posterior")[name].transpose("chain", "draw", ..., dim).values.astype(float)
    return np.quantile(values, [(1 - PROBABILITY) / 2, 0.5, (1 + PROBABILITY) / 2], axis=(0, 1))


def of_rates(post: Any) -> Any:
    """What draws of the rates can be drawn from: the few that were kept of all variables, if not all were."""
    return dataset(post, THINNED) if post is not None and "rate" in not_kept(post) else post


def sample_quietly(model: Any, X: Any, y: Any, **options: Any) -> Any:
    """Draw with ``bd.sample``, without its warnings about mixing and interruption: the report says the same."""
    import warnings

    from ..posterior.sampling import sample
    from ..warnings import IncompleteWarning, MixingWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixingWarning)
        warnings.simplefilter("ignore", IncompleteWarning)
        return sample(model, X, y, **options)


def print_rates(screen: Any, fit: Fit, post: Any = None, *, most: int = 12) -> None:
    """Print the rates, smallest first; only the ends of a long list."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    plug_in = fit.rate_posterior
    if plug_in is None:
        screen.print(f"Fixed dropout rate: {_range(fit.rates)}")
        return
    frame = rate_frame(fit, post)
    frame = frame.sort_values("learnt_rate", kind="stable")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(f"\n{plug_in.dim}", max_width=40)
    table.add_column("learnt rate,\n90 % plug-in", justify="right", no_wrap=True)
    if post is not None:
        for heading in ("posterior median,\n90 % interval", "\nR-hat", "bulk\nESS", "tail\nESS"):
            table.add_column(heading, justify="right", no_wrap=True)
    ends = [*range(most // 2), *range(len(frame) - most // 2, len(frame))]
    for position in range(len(frame)) if len(frame) <= most else ends:
        row = frame.iloc[position]
        # As text and not as a string, in which rich would read [/] as markup.
        cells: list[Any] = [Text(plain(row[plug_in.dim]))]
        cells += [_interval(row["learnt_rate"], row["plug_in_low"], row["plug_in_high"])]
        if post is not None:
            cells.append(_interval(row["posterior_median"], row["posterior_low"], row["posterior_high"]))
            cells += [_number(row["r_hat"], ".3f"), _number(row["ess_bulk"], ",.0f"), _number(row["ess_tail"], ",.0f")]
        table.add_row(*cells)
        if len(frame) > most and position == most // 2 - 1:
            table.add_row(f"… {len(frame) - most} more …", *[""] * (len(cells) - 1))
    screen.print(table)


def _number(value: float, form: str) -> str:
    """A number, or a dash where there are too few draws to tell."""
    return format(value, form) if np.isfinite(value) else "–"


def _interval(middle: float, low: float, high: float) -> str:
    return f"{middle:.3f}  {low:.3f}–{high:.3f}"


def _range(values: np.ndarray) -> str:
    low, high = float(np.min(values)), float(np.max(values))
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def hidden_by_plug_in(fit: Fit, post: Any) -> str:
    """What the plug-in intervals leave out, and how much the data said, in numbers."""
    frame = rate_frame(fit, post)
    plug_in = frame["plug_in_high"] - frame["plug_in_low"]
    posterior = frame["posterior_high"] - frame["posterior_low"]
    low, high = prior_interval(fit, PROBABILITY)
    outside = (frame["posterior_median"] < frame["plug_in_low"]) | (frame["posterior_median"] > frame["plug_in_high"])
    many = len(frame) > 1
    widths = "Median widths" if many else "Widths"
    text = (
        "The plug-in interval takes the fitted weights as known and the masks as their signs, although no mask was "
        f"seen. {widths} of the 90 % intervals: plug-in {plug_in.median():.2f}, posterior "
        f"{posterior.median():.2f}, prior {np.median(high - low):.2f}"
    )
    if many:
        text += (
            f"; {int(outside.sum())} of {len(frame)} posterior medians lie outside the plug-in interval, and "
            f"{int(np.sum(posterior > 0.9 * (high - low)))} posterior intervals are hardly narrower than the prior's"
        )
    return f"{text}. As a statement about the rates, report the posterior."


def print_sample(screen: Any, fit: Fit, post: Any, draws: int, advice: str) -> None:
    """Print the diagnosis, ``advice`` if it is a bad one, and what the plug-in intervals leave out."""
    found = diagnose(post)
    if found.draws < draws:
        screen.print(
            f"Interrupted: the {found.draws} of {draws} draws of each chain that were finished are kept: partial."
        )
    screen.print(plain(found), markup=False)
    if not found.ok:
        screen.print(advice, markup=False)
    if fit.rate_posterior is not None:
        screen.print(hidden_by_plug_in(fit, post), markup=False)


def write_fit(
    out: Output, fit: Fit, post: Any = None, extra: dict[str, Any] | None = None, encoding: Encoding | None = None
) -> None:
    """Write ``fit.nc``, ``rates.csv``, ``weights.csv`` and the plots of a fit.

    ``extra`` are columns of ``weights.csv`` by feature; ``encoding`` goes into ``fit.nc``, for ``bayesdrop predict``.
    """
    import pandas as pd

    from .. import plots

    data = fit.to_dataset()
    write_netcdf({"/": data if encoding is None else encoding.add_to(data)}, out.file("fit.nc"))
    write_csv(rate_frame(fit, post if fit.rate_posterior is not None else None), out.file("rates.csv"))
    named = pd.DataFrame({"feature": fit.feature_names, **(extra or {})})
    found = fit.summary(probability=PROBABILITY)[["weight", "scaled_weight", "rate"]]
    if post is not None:
        for name, column in zip(("low", "median", "high"), _ends(post, "weight", "feature"), strict=True):
            found[f"posterior_{name}"] = column.ravel()
    # One row per feature, and of many classes one per class and feature.
    whose = found.index.to_frame(index=False)
    found = pd.concat([whose.merge(named, on="feature", how="left"), found.reset_index(drop=True)], axis=1)
    write_csv(found, out.file("weights.csv"))
    if fit.rate_posterior is not None:
        _picture(out, "rates.png", plots.rates_forest(of_rates(post), fit))
        _picture(out, "rate_against_weight.png", plots.rate_against_weight(fit))
    _picture(out, "objective.png", plots.objective_trace(fit))


def write_posterior(out: Output, post: Any) -> None:
    """Write ``posterior.nc`` and the rank plot."""
    from .. import plots

    save(post, out.file("posterior.nc"))
    group = dataset(post, "posterior")
    kept = [name for name in ("rate", "weight", "intercept") if name in group]
    if group.sizes["chain"] > 1 and group.sizes["draw"] >= 20 and kept:
        _picture(out, "ranks.png", plots.ranks(post, kept[0])[0])


def _picture(out: Output, name: str, ax: Any) -> None:
    import matplotlib.pyplot as plt

    ax.figure.savefig(out.file(name), dpi=150)
    plt.close(ax.figure)
