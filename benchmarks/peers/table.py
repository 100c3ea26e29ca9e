"""Cells, one for each set, method and split."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from benchmarks.peers import methods, scores, sets
from benchmarks.peers.methods import METHODS, applies
from benchmarks.peers.sets import SETS, split
from benchmarks.published.cells import Cell

__all__ = ["PARTS", "cells", "key"]

PARTS = (methods, scores, sets)


def key(data: str, method: str, number: int) -> str:
    """Name of a cell."""
    return f"{data} | {method} | {number}"


def _cell(data: str, method: str, number: int) -> Mapping[str, Any]:
    given = split(data, number)
    began = time.process_time()
    model = METHODS[method].make()
    model.fit(given.X, given.y)
    label = model.predict(given.X_test)
    chance = model.predict_proba(given.X_test)[:, 1] if hasattr(model, "predict_proba") else None
    cpu = time.process_time() - began
    return {**scores.scores(given.y_test, label, chance), "cpu": cpu, "shape": list(given.X.shape)}


def cells() -> Iterator[Cell]:
    """All there are, those that take long too."""
    for data, chosen in SETS.items():
        for number in range(chosen.splits):
            for method in METHODS:
                if applies(method, data):
                    yield Cell(key(data, method, number), partial(_cell, data, method, number))
