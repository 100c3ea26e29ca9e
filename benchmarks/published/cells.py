"""Units of work of a table, kept on disk as they are done, so that a stopped run goes on where it was."""

from __future__ import annotations

import ast
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["Cell", "complete", "markdown", "mean_and_error", "stored"]


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
    """

    key: str
    run: Callable[[], Mapping[str, Any]]


_WORDS = {"TITLE", "SOURCE", "PUBLISHED", "report"}


def _fingerprint(module: ModuleType) -> str:
    """Of the module's code, but for what only words the report: results of other code are not those of this one."""
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    work = [
        ast.dump(node)
        for node in tree.body
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        and not {getattr(node, "name", None), *(ast.unparse(at) for at in getattr(node, "targets", []))} & _WORDS
    ]
    return hashlib.sha256("\n".join(work).encode()).hexdigest()[:16]


def stored(path: Path, module: ModuleType) -> dict[str, dict[str, Any]]:
    """Results on disk that this version of the table made, by key; a line cut short by a stop is left out."""
    found: dict[str, dict[str, Any]] = {}
    if not path.exists():
        return found
    mark = _fingerprint(module)
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue
        if entry.get("made_by") == mark:
            found[entry["key"]] = {**entry["result"], "seconds": entry["seconds"]}
    return found


def complete(module: ModuleType, path: Path, *, show: bool = True) -> dict[str, dict[str, Any]]:
    """Run the cells that have no stored result, store each as it is done, and return all results by key.

    Each result also holds ``seconds``, the wall time of its cell.
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
    with tqdm(total=len(cells), initial=sum(key in results for key in keys), disable=not show, unit="cell") as bar:
        for cell in cells:
            if cell.key in results:
                continue
            bar.set_postfix_str(cell.key)
            clock = time.perf_counter()
            result = dict(cell.run())
            seconds = time.perf_counter() - clock
            entry = {"key": cell.key, "result": result, "seconds": seconds, "made_by": mark}
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry, default=float) + "\n")
            results[cell.key] = {**json.loads(json.dumps(result, default=float)), "seconds": seconds}
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
