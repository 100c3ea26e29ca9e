"""How a refusal is worded: ``argument: expected …, got …; what to do.``"""

from __future__ import annotations

from typing import Any

__all__ = ["refusal", "shown", "with_article"]

_LONGEST = 160


def shown(value: Any) -> str:
    """What a message shows of a value: its ``repr`` on one line, cut short, whatever the value does when asked.

    Examples
    --------
    >>> shown("text"), shown(10**5000)
    ("'text'", 'an int that is too long to be shown')
    """
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an object of the user's own may raise anything
        return f"{with_article(type(value).__name__)} that is too long to be shown"
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def with_article(word: str) -> str:
    """Word with a or an before it."""
    return f"{'an' if word[:1].lower() in 'aeiou' else 'a'} {word}"


def refusal(name: str, expected: str, value: Any, advice: str) -> str:
    """Message of an error."""
    return f"{name}: expected {expected}, got {shown(value)}{f'; {advice}' if advice else ''}."
