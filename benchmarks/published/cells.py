"""Units of work of a table, kept on disk as they are done, so that a stopped run goes on where it was."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["THREADS", "Cell", "complete", "elapsed", "markdown", "mean_and_error", "stored"]

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Cell:
    """One unit of work.

    Attributes
    ----------
    key : str
        Its name, unique in the table.
    run : callable
        Takes nothing, returns a dictionary of numbers, text and lists of them. It has its own seed, so that the order
        of the cells does not matter.
    source : str
        What the result depends on beside the code of the table; results of another source are made anew.
    """

    key: str
    run: Callable[[], Mapping[str, Any]]
    source: str = ""


_WORDS = {"TITLE", "SOURCE", "PUBLISHED", "ALONE", "report"}


def _fingerprint(module: ModuleType) -> str:
    """Of the module's code and that of its ``PARTS``, but for what only words the report: results of other code are
    not those of this one.
    """
    files = [str(part.__file__) for part in (module, *getattr(module, "PARTS", ()))]
    trees = [ast.parse(Path(file).read_text(encoding="utf-8")) for file in files]
    work = [
        ast.dump(node)
        for tree in trees
        for node in tree.body
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        and not {getattr(node, "name", None), *(ast.unparse(at) for at in getattr(node, "targets", []))} & _WORDS
    ]
    return hashlib.sha256("\n".join(work).encode()).hexdigest()[:16]


def stored(path: Path, module: ModuleType) -> dict[str, dict[str, Any]]:
    """Results on disk of this table's code and its cells' sources, by key; a line cut short by a stop is left out."""
    found: dict[str, dict[str, Any]] = {}
    if not path.exists():
        return found
    mark, sources = _fingerprint(module), {cell.key: cell.source for cell in module.cells()}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue
        if entry.get("made_by") == mark and entry.get("source", "") == sources.get(entry["key"]):
            found[entry["key"]] = _result(entry)
    return found


def _result(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {**entry["result"], **{name: entry[name] for name in ("seconds", "began") if name in entry}}


def elapsed(results: Iterable[Mapping[str, Any]]) -> float:
    """Seconds in which at least one of the cells was at work; those that do not say when they began count in full."""
    total, end = 0.0, -np.inf
    for result in sorted(results, key=lambda result: float(result.get("began", -np.inf))):
        if "began" not in result:
            total += result["seconds"]
            continue
        stop = result["began"] + result["seconds"]
        total += max(0.0, stop - max(end, result["began"]))
        end = max(end, stop)
    return total


def _run(cell: Cell) -> dict[str, Any]:
    """What is stored of a cell."""
    began, clock = time.time(), time.perf_counter()
    result = dict(cell.run())
    took = time.perf_counter() - clock
    return {"key": cell.key, "result": result, "source": cell.source, "seconds": took, "began": began}


def _run_named(module: str, key: str) -> dict[str, Any]:
    """The same in another process, to which cells cannot be sent: they hold functions without a name."""
    import warnings

    warnings.simplefilter("ignore")
    return _run(next(cell for cell in import_module(module).cells() if cell.key == key))


@contextmanager
def _single_threaded() -> Iterator[None]:
    """Processes that start within have one thread each for products of matrices."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def _end_with_parent() -> None:
    """A process of the pool whose parent is killed would wait for another cell for ever."""
    parent = parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    Thread(target=wait, daemon=True).start()


def _entries(module: ModuleType, cells: Sequence[Cell], jobs: int) -> Iterator[dict[str, Any]]:
    """Run cells, ``jobs`` at a time, and yield what is stored of each as it is done."""
    if jobs == 1 or len(cells) == 1 or getattr(module, "ALONE", False):
        yield from map(_run, cells)
        return
    processes = min(jobs, len(cells))
    with _single_threaded(), ProcessPoolExecutor(processes, get_context("spawn"), _end_with_parent) as pool:
        futures = [pool.submit(_run_named, module.__name__, cell.key) for cell in cells]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def complete(module: ModuleType, path: Path, *, jobs: int = 1, show: bool = True) -> dict[str, dict[str, Any]]:
    """Run the cells that have no stored result, store each as it is done, and return all results by key.

    Each result also holds ``seconds``, the wall time of its cell, and ``began``. With ``jobs`` above 1 so many cells
    run at a time, each in a process of its own; but one by one where the module has ``ALONE = True``, because its
    table shows times.
    """
    from tqdm import tqdm

    results, mark = stored(path, module), _fingerprint(module)
    cells = list(module.cells())
    keys = [cell.key for cell in cells]
    if len(set(keys)) < len(keys):
        raise ValueError(f"{module.__name__}: two cells have the same key; make keys unique.")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.read_text(encoding="utf-8").endswith("\n"):
        with path.open("a", encoding="utf-8") as file:
            file.write("\n")
    missing = [cell for cell in cells if cell.key not in results]
    with tqdm(total=len(cells), initial=len(cells) - len(missing), disable=not show, unit="cell") as bar:
        if missing:
            bar.set_postfix_str(missing[0].key)
        for entry in _entries(module, missing, jobs):
            line = json.dumps({**entry, "made_by": mark}, default=float)
            with path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
            results[entry["key"]] = _result(json.loads(line))
            bar.set_postfix_str(f"{entry['key']} done")
            bar.update()
    return {key: results[key] for key in keys}


def markdown(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(value) for value in line) + " |" for line in lines)


def mean_and_error(values: Sequence[float], digits: int = 2) -> str:
    """``mean ± standard error`` over repetitions; the value alone if there is one."""
    numbers = np.asarray(values, dtype=float)
    if len(numbers) < 2:
        return f"{numbers.mean():.{digits}f}"
    return f"{numbers.mean():.{digits}f} ± {numbers.std(ddof=1) / np.sqrt(len(numbers)):.{digits}f}"
