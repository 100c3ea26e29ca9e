"""Import ArviZ without its announcements, in a thread of its own where that saves time."""

from __future__ import annotations

import contextlib
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from ._progress import uninterrupted

__all__ = ["arviz", "arviz_in_thread"]

_importer: threading.Thread | None = None


def arviz() -> Any:
    """Import ArviZ without the announcement of its successor that version 0.23 makes once a day."""
    if _importer is not None and _importer is not threading.current_thread():
        _importer.join()
    with uninterrupted(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz as az

    return az


@contextlib.contextmanager
def arviz_in_thread() -> Iterator[Callable[[], None] | None]:
    """Give a function that begins to import ArviZ in a thread, over when the context is left; None if it is imported.

    The import takes two seconds, which a first short run can spend on it while compiled code runs and Python has
    nothing to do. It ends within the context because filters of warnings belong to the whole process: a thread that
    resets them after the caller has done so would undo what the caller did.
    """

    def begin() -> None:
        global _importer
        _importer = threading.Thread(target=_import_quietly, name="import of arviz")
        _importer.start()

    try:
        yield None if "arviz" in sys.modules else begin
    finally:
        if _importer is not None:
            _importer.join()


def _import_quietly() -> None:
    with contextlib.suppress(Exception):  # who needs it imports it again, and gets the error where it can be read
        arviz()
