"""Ours beside what users would pick instead, on tables and words: ``python -m benchmarks.peers [SET ...]``.

    python -m benchmarks.peers                        every set (aims at an hour of CPU time)
    python -m benchmarks.peers sonar pima             some
    python -m benchmarks.peers --methods posterior    some methods, beside those that the picture needs
    python -m benchmarks.peers --quick                a smoke test on one small set, under a minute
    python -m benchmarks.peers --long                 also posteriors, and slow fits to words: hours
    python -m benchmarks.peers --stored               what there is of a run that is not over
    python -m benchmarks.peers --write                tables into benchmarks/results, the picture into docs
    python -m benchmarks.peers --list                 names of sets and methods

Posteriors (one to three CPU minutes a split), and on words and many classes the elastic net and ``DropoutSVCCV``, wait
for ``--long``.

Results are kept as they come in ``bayesdrop-output/peers/SET.jsonl``, each with the commit and the load of the machine:
a stopped run goes on where it was. They are made anew where the code of this benchmark or of the rooms of the package
that the method fits with has changed, or scikit-learn's version.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

from benchmarks.peers import picture, table
from benchmarks.peers.methods import METHODS, REFERENCE, SHORT, applies
from benchmarks.peers.report import Results, against, families, of_set, summary, wins
from benchmarks.peers.sets import SETS, SPLITS
from benchmarks.published.cells import complete, elapsed, stored
from benchmarks.record import FOLDER, facts, write

__all__ = ["main", "origin", "report"]

STORE = Path("bayesdrop-output/peers")
PICTURE = FOLDER.parents[1] / "docs" / "peers.png"
# A machine is idle beside one core of this benchmark if the others' load is below half a core.
_IDLE = 1.5

_HOW = f"""Differences are to *{REFERENCE}*, `LogisticRegressionCV(scoring="neg_log_loss")`, in pairs over {SPLITS}
splits; bold beyond two standard errors, `s √(1/J + ρ/(1 − ρ))` with the standard deviation `s` of the `J` differences,
where `ρ` is the correlation of two splits: 1/{SPLITS}, the share of the test rows, for folds of one table (Nadeau and
Bengio 2003), and 0 for simulated tables, which are drawn anew. What a method chooses it chooses on the training rows.
In italics what is ours. The calibration error is that of tenths of the probability of each class, over the rows of all
splits. CPU: fit and predictions, the median split."""


def part_of(keep: Callable[[str], bool]) -> ModuleType:
    """The module of the cells with some of them."""
    part = ModuleType(table.__name__)
    part.__dict__.update(vars(table))
    part.__dict__["cells"] = lambda: (cell for cell in table.cells() if keep(cell.key))
    return part


def report(results: Results) -> str:
    """All tables as Markdown, the summary first."""
    work, wall = sum(one["seconds"] for one in results.values()), elapsed(results.values())
    packages = ", ".join(f"{package} {version(package)}" for package in ("bayesdrop", "scikit-learn", "numpy"))
    made = f"`python -m benchmarks.peers`, {time.strftime('%Y-%m-%d')}, {packages}; "
    made += f"{wall / 60:.0f} min for {work / 60:.0f} min of work."
    tables = [part for part in (of_set(results, data) for data in SETS) if part]
    parts = {
        "Ahead of the reference, level and behind, by two standard errors": summary(results),
        "Ours against each peer: z is the paired difference over its standard error, above 0 if ours is ahead": against(
            results
        ),
        "Ours against the reference, by kinds of data": families(results),
        "Where peers win, by how much": wins(results),
    }
    summaries = [f"{title}\n\n{part}" for title, part in parts.items()]
    return "\n\n".join(["## Beside what else there is", f"{made}\n{_HOW}", *summaries, *tables, ""])


def origin(results: Results) -> dict[str, object]:
    """How, where and when results were made: their commits, and idle if nearly all load was this benchmark's own."""
    rooms: dict[str, set[str]] = {}
    for name, one in sorted(results.items(), key=lambda item: item[1]["began"]):
        measured = rooms.setdefault(str(one["commit"]), set())
        measured |= {f"bayesdrop/{room}" for room in METHODS[name.split(" | ")[1]].rooms}
    idle = all(one["load"] < _IDLE for one in results.values())
    paths = {commit: sorted(measured) for commit, measured in rooms.items()}
    return {**facts("python -m benchmarks.peers"), "commit": ", ".join(rooms), "rooms": paths, "idle": idle}


def main(arguments: Sequence[str] | None = None, store: Path = STORE) -> None:
    """Run what is asked for and print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description="Ours beside its peers.")
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"{', '.join(SETS)}; all by default")
    parser.add_argument("--methods", nargs="+", metavar="TEXT", help="methods with one of these in their names")
    parser.add_argument("--quick", action="store_true", help="one small set, two splits, few draws")
    parser.add_argument("--long", action="store_true", help="also what takes very long")
    parser.add_argument("--stored", action="store_true", help="run nothing, show what earlier runs have stored")
    parser.add_argument("--write", action="store_true", help="tables into benchmarks/results, the picture into docs")
    parser.add_argument("--list", action="store_true", help="show the names of sets and methods")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="cells at a time; as many as cores")
    given = parser.parse_args(arguments)
    if given.jobs < 1:
        parser.error(f"--jobs: expected at least 1, got {given.jobs}.")
    unknown = sorted(set(given.sets) - set(SETS))
    if unknown:
        parser.error(f"no set {', '.join(unknown)}; choose from {', '.join(SETS)}.")
    if given.list:
        print("\n".join([*(f"{name:14} {one.label}" for name, one in SETS.items()), "", *METHODS]))
        return
    texts = given.methods or [""]
    if not any(text in method for text in texts for method in METHODS):
        parser.error(f"--methods: none has {' or '.join(texts)} in its name; choose from {', '.join(METHODS)}.")

    def wanted(name: str) -> bool:
        data, method, number = name.split(" | ")
        if given.quick:
            late = method in ("posterior", "dropout SVC CV", "dropout logistic CV")
            return not late and int(number) < (1 if method == SHORT else 2)
        asked = any(text in method for text in texts) or method == REFERENCE
        return asked and method != SHORT and applies(method, data, long=given.long)

    results: dict[str, dict[str, object]] = {}
    for data in given.sets or (["wine"] if given.quick else SETS):
        print(f"{data} …", file=sys.stderr, flush=True)
        path = store / f"{data}.jsonl"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                here = part_of(lambda name, data=data: name.startswith(f"{data} |") and wanted(name))
                if not given.stored:
                    complete(here, path, jobs=given.jobs)
        except FileNotFoundError as error:
            print(f"{data} is skipped: {error}", file=sys.stderr)
        # Those of other runs too, as a table is of all that is known.
        results |= {name: one for name, one in stored(path, table).items() if SHORT not in name or given.quick}
        print(f"\n{of_set(results, data)}", flush=True)
    if given.write:
        picture.draw(results, PICTURE)
        write("peers", origin(results), report(results))
    elif len(given.sets) != 1:
        print(f"\n{summary(results)}")


if __name__ == "__main__":
    main()
