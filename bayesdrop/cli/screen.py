"""Terminal output of the commands, safe for any text and any terminal."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from typing import Any

from .._progress import is_terminal, say

__all__ = ["complain", "console", "plain"]

# What reports hold beyond ASCII, where a terminal knows nothing else.
_ASCII = str.maketrans({"–": "-", "−": "-", "…": "...", "±": "+-", "≥": ">=", "≤": "<=", "×": "x"})


class _Output(io.TextIOBase):
    """Standard output without errors: what cannot be spelt is spelt otherwise, and what cannot be written is not.

    A fit that took an hour must not be lost because the pipe that its report goes to was closed.
    """

    @property
    def encoding(self) -> str:  # type: ignore[override]  # which rich asks for
        return getattr(sys.stdout, "encoding", None) or "ascii"

    def isatty(self) -> bool:
        return is_terminal(sys.stdout)

    def write(self, text: str) -> int:
        stream = sys.stdout
        if stream is None:  # it was closed when the process began
            return len(text)
        try:
            try:
                stream.write(text)
            except UnicodeEncodeError:
                encoding = self.encoding
                stream.write(text.translate(_ASCII).encode(encoding, "replace").decode(encoding))
            stream.flush()
        except (OSError, ValueError) as error:
            # What is left in its buffer would fail again when the process ends.
            with contextlib.suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)
            if not isinstance(error, OSError) or error.errno != errno.EPIPE:  # as of `| head`
                complain(f"bayesdrop: the rest of the report cannot be printed: {error}")
        return len(text)


def console() -> Any:
    """A rich console; as wide as the terminal, or 100 columns where there is none."""
    from rich.console import Console

    width = None if is_terminal(sys.stdout) else 100
    return Console(file=_Output(), width=width, highlight=False, soft_wrap=False, emoji=False)  # type: ignore[arg-type]


def complain(text: str) -> None:
    """Print a line on standard error, if that can be written to."""
    say(plain(text))


def plain(text: Any) -> str:
    r"""Text from data as a terminal may show it: what moves the cursor, rings or colours becomes a mark.

    Examples
    --------
    >>> print(plain("\x1b[31mred"))
    �[31mred
    """
    return "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in str(text))
