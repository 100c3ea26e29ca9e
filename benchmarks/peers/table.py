"""Cells, one for each set, method and split."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import bayesdrop
from benchmarks import data, texts
from benchmarks.peers import methods, recipes, scores, sets
from benchmarks.peers.methods import METHODS, applies
from benchmarks.peers.sets import SETS, SPLITS, split
from benchmarks.published.cells import Cell
from benchmarks.record import facts
from benchmarks.stale import code

__all__ = ["PARTS", "cells", "key", "source"]

PARTS = (data, methods, recipes, scores, sets, texts)
_PACKAGE = Path(str(bayesdrop.__file__)).parent


def key(name: str, method: str, number: int) -> str:
    """Name of a cell."""
    return f"{name} | {method} | {number}"


@cache
def _digest(rooms: tuple[str, ...]) -> str:
    """Of the code in some rooms of the package, without docstrings and comments."""
    files = sorted(
        {
            file
            for room in rooms
            for file in ([_PACKAGE / room] if room.endswith(".py") else (_PACKAGE / room).rglob("*.py"))
        }
    )
    mark = hashlib.sha256()
    for file in files:
        mark.update(f"{file.relative_to(_PACKAGE)} {code(file.read_text(encoding='utf-8'))}".encode())
    return mark.hexdigest()[:16]


@cache
def source(method: str) -> str:
    """What the results of a method depend on beside this benchmark: code of the package, and scikit-learn's version."""
    rooms = METHODS[method].rooms
    return " ".join([f"scikit-learn {version('scikit-learn')}", *([_digest(rooms)] if rooms else [])])


@cache
def _commit() -> str | None:
    commit: str | None = facts("python -m benchmarks.peers")["commit"]
    return commit


def _cell(name: str, method: str, number: int) -> Mapping[str, Any]:
    given, load = split(name, number), os.getloadavg()[0]
    began = time.process_time()
    model = METHODS[method].make()
    model.fit(given.X, given.y)
    label = model.predict(given.X_test)
    chance = model.predict_proba(given.X_test) if hasattr(model, "predict_proba") else None
    cpu = time.process_time() - began
    shape = [*given.X.shape, int(given.y.max()) + 1]
    return {
        **scores.scores(given.y_test, label, chance),
        **{"cpu": cpu, "shape": shape, "commit": _commit(), "load": load},
    }


def cells() -> Iterator[Cell]:
    """All there are, those that take long too."""
    for name in SETS:
        for number in range(SPLITS):
            for method in METHODS:
                if applies(method, name):
                    yield Cell(key(name, method, number), partial(_cell, name, method, number), source(method))
