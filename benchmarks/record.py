"""Run a benchmark and keep what it prints: ``python -m benchmarks.record NAME [ARGUMENT ...]``.

    python -m benchmarks.record linear                  benchmarks/results/linear.json
    python -m benchmarks.record scaling classes         benchmarks/results/scaling_classes.json

A results file has the command, the machine, the date, the commit, whether the machine was idle when the benchmark
began, the rooms that it measures, and the cells of every Markdown table of the output. ``python -m benchmarks.report``
puts them into the pages.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from benchmarks.figures import rooms_of, stem
from benchmarks.published.cells import THREADS

__all__ = ["FOLDER", "facts", "main", "parse", "read", "write"]

FOLDER = Path(__file__).with_name("results")


def parse(text: str) -> dict[str, Any]:
    """Split Markdown into tables and paragraphs.

    Parameters
    ----------
    text : str
        Output of a benchmark.

    Returns
    -------
    dict
        ``tables``, each with its columns, its rows of cells and the paragraph before it as its title, and ``text``, the
        other paragraphs.
    """
    tables: list[dict[str, Any]] = []
    paragraphs: list[str] = []
    for block in re.split(r"\n\s*\n", text):
        lines = [line.strip() for line in block.strip().splitlines()]
        rows = [_cells(line) for line in lines if line.startswith("|")]
        words = " ".join(line for line in lines if not line.startswith(("|", "<!--")))
        if words:
            paragraphs.append(words)
        if len(rows) > 1:
            title = paragraphs.pop() if paragraphs else ""
            tables.append({"title": title, "columns": rows[0], "rows": rows[2:]})
    return {"tables": tables, "text": paragraphs}


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def facts(command: str) -> dict[str, Any]:
    """Return how, where and when a result is made.

    The machine is idle if its cores are busy for less than a tenth of one second of the next five: what ended just
    before may still be giving back its memory.
    """
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = " ".join(f"{name} {version(name)}" for name in ("bayesdrop", "scikit-learn", "numpy", "scipy", "jax"))
    return {
        "command": command,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB",
        "packages": f"Python {platform.python_version()} {packages}",
        "date": datetime.now().date().isoformat(),
        "commit": commit.stdout.strip() or None,
        "idle": any(psutil.cpu_percent(interval=1) < 10 for _ in range(5)),
        "rooms": rooms_of(command.removeprefix("python -m ")),
    }


def write(name: str, made: dict[str, Any], output: str, folder: Path | None = None) -> Path:
    """Write the results file of a benchmark and return its path."""
    path = (folder or FOLDER) / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_dump({**made, **parse(output)}), encoding="utf-8")
    return path


def _dump(results: dict[str, Any]) -> str:
    """Return JSON with a line for each row of cells, so that a difference between two versions can be read."""
    text = json.dumps(results, indent=1, ensure_ascii=False)
    return re.sub(r'\[\n +("[^\[\]]*?")\n +\]', lambda part: "[" + re.sub(r"\n +", " ", part[1]) + "]", text) + "\n"


def read(name: str, folder: Path | None = None) -> dict[str, Any]:
    """Return a results file."""
    path = (folder or FOLDER) / f"{name}.json"
    if not path.exists():
        names = ", ".join(sorted(file.stem for file in path.parent.glob("*.json")))
        raise ValueError(f"{name}: expected a results file in {path.parent}; there are {names}.")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a benchmark in a process of its own, show its output, and keep it.

    A time is that of a process with all cores. Variables that bound threads, as for tests, are not handed on.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.record", description=__doc__.splitlines()[0])
    parser.add_argument("name", help="module of benchmarks/")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the benchmark takes")
    parsed = parser.parse_args(arguments)
    call = ["-m", f"benchmarks.{parsed.name}", *parsed.arguments]
    made = facts(" ".join(["python", *call]))
    output = ""
    unbounded = {name: value for name, value in os.environ.items() if name not in THREADS}
    with subprocess.Popen([sys.executable, *call], env=unbounded, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            output += line
    if process.returncode:
        raise SystemExit(process.returncode)
    path = write(stem(" ".join(call[1:])), made, output)
    print(f"Written to {path}; `python -m benchmarks.report` puts it into the pages.", file=sys.stderr)


if __name__ == "__main__":
    main()
