"""What the commands share: the folder they write to, tables of rates, the diagnosis of a sample, and the files."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from .diagnosis import ESS_LIMIT, R_HAT_LIMIT, mixing
from .table import InputError

if TYPE_CHECKING:
    from .results import Fit

__all__ = [
    "Diagnosis",
    "Output",
    "console",
    "diagnose",
    "print_rates",
    "print_sample",
    "rate_frame",
    "write_fit",
    "write_posterior",
]

PROBABILITY = 0.9


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

    def __enter__(self) -> Output:
        missing = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
        self._created = missing
        try:
            if self.folder.exists() and not self.folder.is_dir():
                raise NotADirectoryError(20, "it is a file")
            self.folder.mkdir(parents=True, exist_ok=True)
            self._stage = Path(tempfile.mkdtemp(prefix=".bayesdrop-", dir=self.folder))
        except OSError as error:
            self._remove_created()
            raise InputError(
                f"--out: cannot write to {self.folder}: {(error.strerror or str(error)).lower()}; name a folder that "
                "you may write to."
            ) from None
        return self

    def file(self, name: str) -> Path:
        """Path to write ``name`` to for now."""
        self._names.append(name)
        return self._stage / name

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                for name in self._names:
                    os.replace(self._stage / name, self.folder / name)
        finally:
            shutil.rmtree(self._stage, ignore_errors=True)
            if kind is not None:
                self._remove_created()

    def _remove_created(self) -> None:
        for path in self._created:
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()

    def summary(self) -> list[str]:
        """Lines that say what lies where, and what is left from an earlier run."""
        known = {"fit.nc", "posterior.nc", "rates.csv", "weights.csv", *_PICTURES}
        lines = [f"Written to {self.folder}/: {', '.join(self._names)}"]
        if self.folder.is_dir():
            old = sorted(path.name for path in self.folder.iterdir() if path.name in known - set(self._names))
            if old:
                lines.append(f"Left there from an earlier run: {', '.join(old)}")
        return lines


_PICTURES = ("rates.png", "ranks.png", "rate_against_weight.png", "objective.png")


def console() -> Any:
    """A rich console; as wide as the terminal, or 100 columns where there is none."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 100, highlight=False, soft_wrap=False)


@dataclass(frozen=True)
class Diagnosis:
    """How the chains of a sample mixed, as far as the rates tell (weights, if the rates are fixed).

    Attributes
    ----------
    variable : str
        ``"rate"`` or ``"weight"``.
    names : list of str
        What was diagnosed.
    r_hat, ess_bulk, ess_tail : array (k,)
        Rank-normalised split R-hat, and effective sample sizes of the bulk and of the tails.
    """

    variable: str
    names: list[str]
    r_hat: np.ndarray
    ess_bulk: np.ndarray
    ess_tail: np.ndarray

    @property
    def short(self) -> list[str]:
        """Names whose R-hat is above 1.01 or whose effective sample size is below 400."""
        size = np.minimum(self.ess_bulk, self.ess_tail)
        good = (self.r_hat <= R_HAT_LIMIT) & (size >= ESS_LIMIT)
        return [name for name, fine in zip(self.names, good, strict=True) if not fine]

    def verdict(self, advice: str) -> str:
        """One or two sentences; ``advice`` says how to draw more."""
        size = np.minimum(self.ess_bulk, self.ess_tail)
        numbers = f"largest R-hat {np.max(self.r_hat):.3f}, smallest effective sample size {np.min(size):,.0f}"
        what = f"{len(self.names)} {self.variable}{'s' if len(self.names) > 1 else ''}"
        if not self.short:
            return f"The chains agree: {numbers} over {what} (wanted: at most {R_HAT_LIMIT}, at least {ESS_LIMIT})."
        named = ", ".join(self.short[:5]) + (f" and {len(self.short) - 5} more" if len(self.short) > 5 else "")
        return (
            f"Not enough draws to trust the intervals: {numbers}; {len(self.short)} of {what} miss R-hat <= "
            f"{R_HAT_LIMIT} or an effective sample size of {ESS_LIMIT} ({named}). {advice}"
        )


def diagnose(post: Any) -> Diagnosis:
    """R-hat and effective sample sizes of the rates of an ArviZ object.

    Examples
    --------
    >>> import xarray as xr
    >>> draws = np.random.default_rng(0).random((4, 500, 2))
    >>> post = xr.Dataset({"rate": (("chain", "draw", "feature"), draws)}, coords={"feature": ["a", "b"]})
    >>> diagnose({"posterior": post}).short
    []
    """
    group = post["posterior"]
    variable = "rate" if "rate" in group else "weight"
    data = group[variable].to_dataset(name=variable)
    (dim,) = [dim for dim in data[variable].dims if dim not in ("chain", "draw")]
    found = mixing(data)
    numbers = (np.asarray(found[kind][variable]) for kind in ("r_hat", "ess_bulk", "ess_tail"))
    return Diagnosis(variable, [str(name) for name in data[dim].values], *numbers)


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
    tail = (1 - PROBABILITY) / 2
    values = np.asarray(post["posterior"]["rate"].transpose("chain", "draw", plug_in.dim).values, dtype=float)
    bounds = np.quantile(values, [tail, 0.5, 1 - tail], axis=(0, 1))
    found = diagnose(post)
    return frame.assign(
        posterior_median=bounds[1], posterior_low=bounds[0], posterior_high=bounds[2], r_hat=found.r_hat,
        ess_bulk=found.ess_bulk, ess_tail=found.ess_tail,
    )  # fmt: skip


def sample_quietly(model: Any, X: Any, y: Any, **options: Any) -> Any:
    """Draw with ``bd.sample``, without its warnings about mixing and interruption: the report says the same."""
    import warnings

    from .inference.sampling import IncompleteWarning, MixingWarning, sample

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixingWarning)
        warnings.simplefilter("ignore", IncompleteWarning)
        return sample(model, X, y, **options)


def print_rates(screen: Any, fit: Fit, post: Any = None, *, most: int = 12) -> None:
    """Print the rates, smallest first; only the ends of a long list."""
    from rich import box
    from rich.table import Table

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
        cells = [str(row[plug_in.dim]), _interval(row["learnt_rate"], row["plug_in_low"], row["plug_in_high"])]
        if post is not None:
            cells.append(_interval(row["posterior_median"], row["posterior_low"], row["posterior_high"]))
            cells += [f"{row['r_hat']:.3f}", f"{row['ess_bulk']:,.0f}", f"{row['ess_tail']:,.0f}"]
        table.add_row(*cells)
        if len(frame) > most and position == most // 2 - 1:
            table.add_row(f"… {len(frame) - most} more …", *[""] * (len(cells) - 1))
    screen.print(table)


def _interval(middle: float, low: float, high: float) -> str:
    return f"{middle:.3f}  {low:.3f}–{high:.3f}"


def _range(values: np.ndarray) -> str:
    low, high = float(np.min(values)), float(np.max(values))
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def hidden_by_plug_in(fit: Fit, post: Any) -> str:
    """What the plug-in intervals leave out, and how much the data said, in numbers."""
    from .prior_intervals import prior_interval

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
    """Print how the chains mixed, what the plug-in intervals leave out, and whether ``draws`` were reached."""
    found = post["posterior"].sizes["draw"]
    if found < draws:
        screen.print(f"Interrupted: the {found} of {draws} draws of each chain that were finished are kept: partial.")
    screen.print(diagnose(post).verdict(advice), markup=False)
    if fit.rate_posterior is not None:
        screen.print(hidden_by_plug_in(fit, post), markup=False)


def write_fit(out: Output, fit: Fit, post: Any = None, extra: dict[str, Any] | None = None) -> None:
    """Write ``fit.nc``, ``rates.csv``, ``weights.csv`` and the plots of a fit."""
    import pandas as pd

    from . import plots

    fit.save(out.file("fit.nc"))
    rate_frame(fit, post if fit.rate_posterior is not None else None).to_csv(out.file("rates.csv"), index=False)
    weights = {"feature": fit.feature_names, **(extra or {}), "weight": fit.weight, "rate": fit.rates}
    pd.DataFrame(weights).to_csv(out.file("weights.csv"), index=False)
    if fit.rate_posterior is not None:
        _picture(out, "rates.png", plots.rates_forest(post, fit))
        _picture(out, "rate_against_weight.png", plots.rate_against_weight(fit))
    _picture(out, "objective.png", plots.objective_trace(fit))


def write_posterior(out: Output, post: Any) -> None:
    """Write ``posterior.nc`` and the rank plot."""
    from . import plots
    from .groups import dataset, save

    save(post, out.file("posterior.nc"))
    group = dataset(post, "posterior")
    if group.sizes["chain"] > 1 and group.sizes["draw"] >= 20:
        _picture(out, "ranks.png", plots.ranks(post, "rate" if "rate" in group else "weight")[0])


def _picture(out: Output, name: str, ax: Any) -> None:
    import matplotlib.pyplot as plt

    ax.figure.savefig(out.file(name), dpi=150)
    plt.close(ax.figure)
