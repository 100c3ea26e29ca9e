"""Run Python code of a formula that :mod:`.language.nodes` lacks, by formulaic, in the session that wrote it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .language.encoding import encode
from .language.nodes import Outside

__all__ = ["Session", "recalled", "remember"]

# Latest encoders with Python code of this process, by the checksum of the text that results store.
_ENCODERS: dict[str, Any] = {}
_LARGEST = 256


@dataclass(frozen=True)
class Session:
    """State of formulaic for factors that no file can hold; it is never read from a file.

    Attributes
    ----------
    context : mapping
        Functions and values of the user.
    specs : dict
        The formulaic ``ModelSpec`` of each factor, by its text.
    response : Any
        Left side of the formula, as formulaic parsed it, if the language lacks it.
    """

    context: Mapping[str, Any] = field(default_factory=dict)
    specs: dict[str, Any] = field(default_factory=dict)
    response: Any = None

    def learn(self, factor: Any, frame: Any, state: Mapping[str, Any]) -> int:
        """Learn a factor on the rows of a frame, with the statistics in ``state``; return its number of columns."""
        from formulaic import Formula
        from formulaic.parser.types import Term

        alone = Formula([Term([factor])])
        matrix = encode(alone, frame, dict(self.context), "nan", ensure_full_rank=False, transform_state=dict(state))
        self.specs[str(factor.expr)] = matrix.model_spec
        return int(matrix.shape[1])

    def run(self, node: Outside, frame: Any) -> Any:
        """Columns (n, k) of a factor on other rows, compressed."""
        spec = self.specs[node.text]
        before = set(spec.transform_state)
        matrix = encode(spec, frame, dict(self.context), "nan")
        if set(matrix.model_spec.transform_state) - before:
            raise ValueError(f"data: {node.text!r} cannot be told apart from another function; rename its columns.")
        return matrix.__wrapped__.tocsr()


def remember(text: str, encoder: Any) -> None:
    """Store an encoder for the results of this process, which hold its text."""
    while len(_ENCODERS) >= _LARGEST:
        del _ENCODERS[next(iter(_ENCODERS))]
    _ENCODERS[_checksum(text)] = encoder


def recalled(text: str) -> Any:
    """Encoder of this process that wrote a text; None for another process or a text without Python code."""
    return _ENCODERS.get(_checksum(text))


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
