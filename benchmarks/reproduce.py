"""The published tables beside ours, from real data: ``python -m benchmarks.reproduce [TABLE ...]``.

    python -m benchmarks.reproduce                  every table
    python -m benchmarks.reproduce imdb mnist       some
    python -m benchmarks.reproduce --list           their names
    python -m benchmarks.reproduce --write          and keep them in benchmarks/results/
    python -m benchmarks.reproduce --stored mnist   what there is of a run that is not over
    python -m benchmarks.reproduce --jobs 1         one cell at a time, where memory is short

Cells run side by side, one to a core; those of tables that show times, one by one. Results are kept as they come in
``bayesdrop-output/reproduce/TABLE.jsonl``: a stopped run goes on where it was, and a table whose code has changed is
made anew. A table whose data are absent is skipped, with where to get them.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from benchmarks.published.cells import complete, elapsed, stored
from benchmarks.record import facts, write

__all__ = ["TABLES", "main", "table"]

TABLES = ("amazon", "ratings", "topics", "thirds", "imdb", "mnist", "splice", "factors")
STORE = Path("bayesdrop-output/reproduce")


def table(name: str, store: Path = STORE, *, run: bool = True, jobs: int = 1) -> str:
    """A table as Markdown, with its command, date, versions and duration; what is missing is run first, or left out."""
    module = import_module(f"benchmarks.published.{name}")
    path = store / f"{name}.jsonl"
    results = complete(module, path, jobs=jobs) if run else stored(path, module)
    count = sum(1 for _ in module.cells())
    part = "" if len(results) == count else f" **Not over: {len(results)} of {count} cells.**"
    work, wall = sum(result["seconds"] for result in results.values()), elapsed(results.values())
    minutes = f"{wall / 60:.0f} min" + (f" for {work / 60:.0f} min of work" if work > 1.1 * wall else "")
    packages = ", ".join(f"{package} {version(package)}" for package in ("bayesdrop", "scikit-learn", "numpy", "scipy"))
    made = (
        f"`python -m benchmarks.reproduce {name}`, {time.strftime('%Y-%m-%d')}, Python "
        f"{sys.version_info.major}.{sys.version_info.minor}, {packages}; {minutes}.{part}"
    )
    # Reports know what their cells return and how long they took, some by going through all of it.
    known = {key: {name: value for name, value in one.items() if name != "began"} for key, one in results.items()}
    return f"### {module.TITLE}\n\n{module.SOURCE} {made}\n\n{module.report(known)}\n"


def main() -> None:
    """Run the tables asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reproduce", description="The published tables anew.")
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"{', '.join(TABLES)}; all by default")
    parser.add_argument("--write", action="store_true", help="keep the tables in benchmarks/results")
    parser.add_argument("--stored", action="store_true", help="run nothing, show what earlier runs have stored")
    parser.add_argument("--list", action="store_true", help="show the names of the tables")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="cells at a time; as many as cores")
    given = parser.parse_args()
    if given.jobs < 1:
        parser.error(f"--jobs: expected at least 1, got {given.jobs}.")
    unknown = sorted(set(given.tables) - set(TABLES))
    if unknown:
        parser.error(f"no table {', '.join(unknown)}; choose from {', '.join(TABLES)}.")
    for name in given.tables or TABLES:
        if given.list:
            print(f"{name:10} {import_module(f'benchmarks.published.{name}').TITLE}")
            continue
        print(f"{name} …", file=sys.stderr, flush=True)
        made = facts(f"python -m benchmarks.reproduce {name}")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                part = table(name, run=not given.stored, jobs=given.jobs)
        except FileNotFoundError as error:
            print(f"{name} is skipped: {error}", file=sys.stderr)
            continue
        print(part, flush=True)
        if given.write:
            write(f"reproduce_{name}", made, part)


if __name__ == "__main__":
    main()
