"""Make the figures of the pages anew: ``python -m benchmarks.figures [NAME ...]`` (``make figures``).

    python -m benchmarks.figures                      all that take at most a quarter of an hour, three hours in total
    python -m benchmarks.figures growth projection    some
    python -m benchmarks.figures all                  all that two cores can do: a day
    python -m benchmarks.figures --list               names, expected minutes, and which are stale

One benchmark runs at a time, on a machine that should be idle. A figure of today's code is not made again, so that a
stopped run goes on where it was; the long ones keep their parts too. What is in the table as ``apart`` needs another
machine and is run there by ``python -m benchmarks.record``.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.stale import ROOT, reason

__all__ = ["FIGURES", "Figure", "main", "rooms_of", "stem", "uncommitted", "why"]

FOLDER = Path(__file__).with_name("results")
LONG = 15
"""Minutes beyond which a figure is made only where it is named."""

FITS = (
    "_validation", "data", "designs", "estimators", "fitting", "linalg", "losses", "noise", "priors", "rates",
    "selection", "description.py", "model.py", "moments.py",
)  # fmt: skip
"""What fits depend on in the package."""
DRAWS = (*FITS, "distributions", "gibbs", "hmc", "posterior", "sampling")
"""What draws depend on."""


@dataclass(frozen=True)
class Figure:
    """How a results file is made.

    Attributes
    ----------
    command : str
        What follows ``python -m``.
    minutes : int
        Expected on two idle cores.
    rooms : tuple of str
        Folders and files of the package that are measured.
    apart : bool
        Whether it needs another machine; such files have its name and their date, and are not remade.
    """

    command: str
    minutes: int
    rooms: tuple[str, ...]
    apart: bool = False


_ALL = (
    Figure("benchmarks.linear", 30, FITS),
    Figure("benchmarks.fits --default", 3, FITS),
    Figure("benchmarks.fits --skip-mnist", 4, FITS),
    Figure("benchmarks.fits --small", 1, FITS),
    Figure("benchmarks.deletion 10", 5, FITS),
    Figure("benchmarks.scaling", 3, FITS),
    Figure("benchmarks.scaling classes", 12, FITS),
    Figure("benchmarks.latent", 60, (*FITS, "latent")),
    Figure("benchmarks.sampling float64", 50, DRAWS),
    Figure("benchmarks.sampling float32", 40, DRAWS),
    Figure("benchmarks.sampling shapes none", 5, DRAWS),
    Figure("benchmarks.sampling words", 27, DRAWS),
    Figure("benchmarks.sampling words imdb 700", 24, DRAWS),
    Figure("benchmarks.sampling words books nuts", 6, DRAWS),
    Figure("benchmarks.independent", 12, DRAWS),
    Figure("benchmarks.small_truth", 15, DRAWS),
    Figure("benchmarks.projection", 10, DRAWS),
    Figure("benchmarks.inclusion calibration", 3, DRAWS),
    Figure("benchmarks.dask_scale", 4, FITS),
    Figure("benchmarks.out_of_core", 6, FITS),
    Figure("benchmarks.out_of_core sampling", 42, DRAWS),
    Figure("benchmarks.reproduce ratings", 5, FITS),
    Figure("benchmarks.reproduce factors", 11, (*FITS, "factorization")),
    Figure("benchmarks.reproduce thirds", 15, FITS),
    Figure("benchmarks.missing 8", 20, FITS),
    Figure("benchmarks.peers.scalings", 30, FITS),
    Figure("benchmarks.reproduce topics", 25, FITS),
    Figure("benchmarks.reproduce amazon", 10, FITS),
    Figure("benchmarks.reproduce splice", 10, FITS),
    Figure("benchmarks.growth", 5, DRAWS),
    Figure("benchmarks.reproduce imdb", 40, FITS),
    Figure("benchmarks.peers", 60, FITS),
    Figure("benchmarks.reproduce mnist", 240, (*FITS, "latent", "baselines")),
    Figure("benchmarks.slow_suite", 360, ("",)),
    Figure("benchmarks.gpu", 10, DRAWS, apart=True),
)


def stem(command: str) -> str:
    """Return the name of the results file of a command: ``scaling_classes`` of ``benchmarks.scaling classes``."""
    module, *arguments = command.split()
    words = [module.removeprefix("benchmarks."), *(word.strip("-") for word in arguments)]
    return re.sub(r"\W+", "_", "_".join(words))


FIGURES = {stem(figure.command): figure for figure in _ALL}


def rooms_of(command: str) -> list[str]:
    """Return what a command measures, as paths of the repository: rooms of the package, and its own script."""
    figure = FIGURES.get(stem(command))
    module, *arguments = command.split()
    names = [module.replace(".", "/")]
    if module == "benchmarks.reproduce":
        names = [f"benchmarks/published/{name}" for name in arguments]
    scripts = [path for name in names for path in (f"{name}.py", name) if (ROOT / path).exists()]
    return [*(f"bayesdrop/{room}" for room in figure.rooms), *scripts] if figure else scripts


def why(name: str) -> str | None:
    """Return why a figure must be made again; None if it is of today's code, or of another machine."""
    path = FOLDER / f"{name}.json"
    if not path.exists():
        return "absent"
    results = json.loads(path.read_text(encoding="utf-8"))
    return None if name in FIGURES and FIGURES[name].apart else reason(results)


def _call(figure: Figure) -> list[str]:
    """Return the command line; those that keep their parts write the results file themselves."""
    module, *arguments = figure.command.split()
    if module == "benchmarks.slow_suite":
        return [sys.executable, "-m", module]
    if module in ("benchmarks.reproduce", "benchmarks.peers"):
        return [sys.executable, "-m", module, *arguments, "--write"]
    return [sys.executable, "-m", "benchmarks.record", module.removeprefix("benchmarks."), *arguments]


def main(arguments: Sequence[str] | None = None) -> None:
    """Make what is stale of the figures that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.figures", description="The figures of the pages anew.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"all, or some of {', '.join(FIGURES)}")
    parser.add_argument("--list", action="store_true", help="show names, expected minutes and what is stale")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.names) - {*FIGURES, "all"})
    if unknown:
        parser.error(f"no figure {', '.join(unknown)}; choose from all, {', '.join(FIGURES)}.")
    names = [name for name in given.names if name != "all"]
    if not names:
        longest = float("inf") if given.names or given.list else LONG
        names = [name for name, figure in FIGURES.items() if figure.minutes <= longest and not figure.apart]
    stale = {name: text for name in names if (text := why(name))}
    if given.list:
        for name in names:
            print(f"{name:40} {FIGURES[name].minutes:4} min  {stale.get(name, 'of today')}")
        return
    changed = uncommitted("bayesdrop", "benchmarks/*.py")
    if changed and stale:
        parser.error(f"commit {changed[0]} first: a results file names the commit that made it.")
    left = sum(FIGURES[name].minutes for name in stale)
    print(f"{len(stale)} of {len(names)} figures to make, about {left} minutes.", file=sys.stderr)
    failed = []
    for number, name in enumerate(stale, 1):
        figure = FIGURES[name]
        ready = time.strftime("%H:%M", time.localtime(time.time() + 60 * figure.minutes))
        print(
            f"[{number}/{len(stale)}] {name}: {stale[name]}; {figure.minutes} min, ready about {ready}; "
            f"{left} min for all that are left.",
            file=sys.stderr,
            flush=True,
        )
        began = time.monotonic()
        if subprocess.run(_call(figure), cwd=ROOT, check=False).returncode or why(name):
            failed.append(name)
        left -= figure.minutes
        print(f"[{number}/{len(stale)}] {name} took {(time.monotonic() - began) / 60:.0f} min.", file=sys.stderr)
    if failed:
        raise SystemExit(f"Not made: {', '.join(failed)}; run `python -m benchmarks.figures {' '.join(failed)}`.")


def uncommitted(*paths: str) -> list[str]:
    """Return files among some paths that differ from the last commit."""
    call = ["git", "-C", str(ROOT), "diff", "--name-only", "HEAD", "--", *paths]
    return subprocess.run(call, capture_output=True, text=True, check=True).stdout.splitlines()


if __name__ == "__main__":
    main()
