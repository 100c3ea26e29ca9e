"""The long tests, a file to a core, and what came of them: ``python -m benchmarks.slow_suite [FILE ...]``.

    python -m benchmarks.slow_suite                                 all that have not passed on today's code: hours
    python -m benchmarks.slow_suite tests/sampling/test_geweke.py   some files, whether or not they have passed

``benchmarks/results/slow_suite.json`` is written after each file of tests, with its commit, so that a stopped run goes
on where it was. It is stale while files are left, while a test fails, and where a file of tests has changed, or a room
of the package that its tests loaded: all rooms, where they ran other processes.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from benchmarks.figures import uncommitted
from benchmarks.published.cells import markdown
from benchmarks.record import FOLDER, facts, read, write
from benchmarks.stale import ROOT, reason

__all__ = ["NAME", "main", "outcome"]

NAME = "slow_suite"
COMMAND = "python -m benchmarks.slow_suite"
COLUMNS = ("file", "tests", "failed", "skipped", "minutes", "longest test, minutes", "rooms not loaded", "commit")
PACKAGE = ROOT / "bayesdrop"
# Where the process of the tests says which rooms they did not load; and the processor seconds of the processes that it
# started below which they count as none, such as calls of git.
NOTE, OTHERS = "BAYESDROP_NOT_LOADED", 2.0
TITLE = "Tests that `make test` leaves out, by file."


def files() -> list[str]:
    """Return the files that have slow tests."""
    call = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "-m", "slow", "tests"]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)
    found = sorted({line.split("::")[0] for line in done.stdout.splitlines() if "::" in line})
    if done.returncode or not found:
        raise SystemExit(f"pytest did not collect the slow tests:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return found


def all_rooms() -> set[str]:
    """Return the folders and modules of the package."""
    return {path.name for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}


def pytest_sessionfinish() -> None:
    """Write the rooms of the package that the tests did not load; pytest calls it at the end."""
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    files = [Path(getattr(module, "__file__", None) or "/") for module in list(sys.modules.values())]
    loaded = {file.relative_to(PACKAGE).parts[0] for file in files if file.is_relative_to(PACKAGE)}
    missing = all_rooms() - loaded if others.ru_utime + others.ru_stime < OTHERS else set()
    Path(os.environ[NOTE]).write_text(", ".join(sorted(missing)), encoding="utf-8")


def outcome(report: Path) -> tuple[list[str], list[str]]:
    """Return the counts and minutes of a report of pytest in JUnit's XML, as cells, and the tests that failed."""
    tests = list(ET.parse(report).iter("testcase"))
    failed = [test for test in tests if test.find("failure") is not None or test.find("error") is not None]
    skipped = sum(test.find("skipped") is not None for test in tests)
    minutes = [float(test.get("time", 0)) / 60 for test in tests]
    cells = [str(len(tests)), str(len(failed)), str(skipped), f"{sum(minutes):.1f}", f"{max(minutes, default=0):.1f}"]
    return cells, [f"{test.get('classname')}::{test.get('name')}" for test in failed]


def _run(file: str) -> tuple[str, list[str], list[str]]:
    """Run the slow tests of a file in a process of its own; it fails as a whole if it ends without a report."""
    with tempfile.TemporaryDirectory() as folder:
        report, note = Path(folder) / "report.xml", Path(folder) / "rooms"
        options = ["-q", "--tb=short", "-n", "0", "-m", "slow", "-p", "benchmarks.slow_suite", f"--junitxml={report}"]
        call = [sys.executable, "-m", "pytest", *options, file]
        done = subprocess.run(
            call, cwd=ROOT, capture_output=True, text=True, check=False,
            env=os.environ | {"OMP_NUM_THREADS": "1", NOTE: str(note)},
        )  # fmt: skip
        if not report.exists():
            return file, ["0", "1", "0", "", "", ""], [f"{file} ended with code {done.returncode}"]
        cells, failed = outcome(report)
        cells.append(note.read_text(encoding="utf-8"))
    if failed:
        print(done.stdout[-5000:], file=sys.stderr)
    return file, cells, failed


def _rooms(row: Sequence[str]) -> list[str]:
    """Return the paths of what the row of a file measures."""
    return [row[0], *sorted(f"bayesdrop/{room}" for room in all_rooms() - set(row[-2].split(", ")))]


def _passed(row: Sequence[str]) -> bool:
    """Return whether the file of a row passed, and neither it nor what its tests load has changed since."""
    made = {"command": COMMAND, "commit": row[-1], "rooms": _rooms(row)}
    return row[2] == "0" and reason(made) is None


def _store(
    began: dict[str, Any], rows: dict[str, list[str]], failures: dict[str, list[str]], every: Sequence[str]
) -> None:
    """Write the results file, with what is left; ``began`` are the facts of the start of the run."""
    made, commits = dict(began), sorted({row[-1] for row in rows.values()})
    made["commit"] = ", ".join(commits)
    made["rooms"] = {
        commit: sorted({room for row in rows.values() if row[-1] == commit for room in _rooms(row)})
        for commit in commits
    }
    left, fail = sorted(set(every) - set(rows)), sorted(test for tests in failures.values() for test in tests)
    made["left"] = [*left, *fail]
    tests, minutes = (sum(float(row[place] or 0) for row in rows.values()) for place in (1, 4))
    text = [
        f"{TITLE}\n\n{markdown(COLUMNS, [rows[file] for file in sorted(rows)])}",
        f"{tests:.0f} tests of {len(rows)} files, {minutes:.0f} minutes of one core.",
        *([f"Not run: {', '.join(left)}."] if left else []),
        *([f"Failed: {', '.join(fail)}."] if fail else []),
    ]
    write(NAME, made, "\n\n".join(text))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the files that are asked for, and store each as it ends."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slow_suite", description="The long tests.")
    parser.add_argument("files", nargs="*", metavar="FILE", help="files of tests; by default those not yet passed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="files at a time; as many as cores")
    given = parser.parse_args(arguments)
    if changed := uncommitted("bayesdrop", "tests"):
        parser.error(f"commit {changed[0]} first: the results file names the commit that passed.")
    every = files()
    unknown = sorted(set(given.files) - set(every))
    if unknown:
        parser.error(f"{unknown[0]} has no slow test; choose from {', '.join(every)}.")
    table = read(NAME)["tables"][0]["rows"] if (FOLDER / f"{NAME}.json").exists() else []
    took = {row[0]: float(row[4] or 0) for row in table}
    rows = {row[0]: row for row in table if row[0] in every and len(row) == len(COLUMNS) and _passed(row)}
    # The longest first: the last ones to end are then short. Files without a time are likely new, and could be long.
    wanted = given.files or [file for file in every if file not in rows]
    wanted = sorted(wanted, key=lambda file: -took.get(file, float("inf")))
    began, failures = facts(COMMAND), {}
    print(f"{len(wanted)} files of {len(every)} to run, {sum(took.get(file, 0) for file in wanted):.0f} min.")
    with ThreadPoolExecutor(given.jobs) as pool:
        for number, future in enumerate(as_completed([pool.submit(_run, file) for file in wanted]), 1):
            file, cells, failed = future.result()
            rows[file] = [file, *cells, began["commit"]]
            failures[file] = failed
            _store(began, rows, failures, every)
            words = f"{cells[1]} failed: {re.sub('^tests[.]', '', ', '.join(failed))}" if failed else "passed"
            print(f"[{number}/{len(wanted)}] {file}: {cells[0]} tests, {cells[3]} min, {words}", flush=True)
    if any(failures.values()):
        raise SystemExit("Some tests failed; they run again with the next call.")


if __name__ == "__main__":
    main()
