"""Whether a results file is of today's code: its rooms at its commit beside the same rooms at HEAD."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["code", "has_script", "reason"]

ROOT = Path(__file__).parents[1]


def reason(results: Mapping[str, Any], root: Path = ROOT) -> str | None:
    """Return why a results file must be made again, or None if it is of today's code.

    Parameters
    ----------
    results : mapping
        A results file. ``rooms`` are paths from the root of the repository, or a mapping of commits to such paths where
        parts of the file are of several commits. ``left`` are parts that were not made, or failed.
    root : Path, default=ROOT
        Repository.
    """
    if not has_script(results):
        return "no script"
    if not results["commit"]:
        return "no commit"
    if "rooms" not in results:
        return "no rooms"
    if left := results.get("left"):
        return f"{len(left)} parts are left, first {left[0]}"
    rooms = results["rooms"]
    for commit, paths in (rooms if isinstance(rooms, dict) else {results["commit"]: rooms}).items():
        if _git(root, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}") is None:
            return f"commit {commit} is not in the repository"
        for path in _touched(root, commit, paths):
            if _code(root, commit, path) != _code(root, "HEAD", path):
                return f"{path} changed since {commit}"
    return None


def has_script(results: Mapping[str, Any]) -> bool:
    """Return whether the script that made a results file is there."""
    return find_spec(results["command"].split()[2]) is not None


def _touched(root: Path, commit: str, paths: Sequence[str]) -> list[str]:
    """Return the Python files of some rooms whose text changed, those that were added or removed included."""
    names = _git(root, "diff", "--name-only", "--no-renames", commit, "HEAD", "--", *paths) if paths else ""
    return [name for name in (names or "").splitlines() if name.endswith(".py")]


def _code(root: Path, commit: str, path: str) -> str | None:
    """Return the code of a file at a commit; None if the commit does not have the file."""
    text = _git(root, "show", f"{commit}:{path}")
    return None if text is None else code(text)


def code(text: str) -> str:
    """Return the syntax tree of a program without its docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [one for one in node.body if not _is_text(one)]
    return ast.dump(tree)


def _is_text(statement: ast.stmt) -> bool:
    """Return whether a statement is only a text: a docstring, or the description of an attribute."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _git(root: Path, *arguments: str) -> str | None:
    """Return what git prints, or None where it fails."""
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None
