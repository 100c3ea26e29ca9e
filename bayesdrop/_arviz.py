"""Import ArviZ without its announcements."""

from __future__ import annotations

import warnings
from typing import Any

from ._progress import uninterrupted

__all__ = ["arviz"]


def arviz() -> Any:
    """Import ArviZ without the announcement of its successor that version 0.23 makes once a day."""
    with uninterrupted(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz as az

    return az
