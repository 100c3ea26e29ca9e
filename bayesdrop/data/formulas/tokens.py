"""Split a formula into tokens: names, texts and marks, so that quoted text is never read as a name.

Used by all code that reads a formula before formulaic.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

__all__ = ["Token", "closing", "inside_calls", "is_call", "operands", "parts", "text_of", "tokenised", "without_added"]

_TOKEN = re.compile(
    r"(?P<blank>\s+)|(?P<quoted>`[^`]*`?)|(?P<text>'(?:[^'\\]|\\.)*'?|\"(?:[^\"\\]|\\.)*\"?)"
    r"|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)"
    r"|(?P<mark>\*\*|%in%|%/%|%%|\|\||[<>=!]=|.)",
    re.DOTALL,
)
_PAIRS = {"(": ")", "[": "]", "{": "}"}


class Token(NamedTuple):
    """A piece of a formula.

    Attributes
    ----------
    kind : str
        ``"blank"``, ``"quoted"`` for a name in backticks, ``"text"``, ``"number"``, ``"name"`` or ``"mark"``.
    text : str
        Text of the token.
    """

    kind: str
    text: str

    def is_mark(self, *marks: str) -> bool:
        """Whether the token is one of these marks."""
        return self.kind == "mark" and self.text in marks


def tokenised(formula: str) -> list[Token]:
    """All tokens of a formula, blanks too.

    Examples
    --------
    >>> [token.kind for token in tokenised("log(`a^2`) == 'b'")]
    ['name', 'mark', 'quoted', 'mark', 'blank', 'mark', 'blank', 'text']
    """
    return [Token(str(one.lastgroup), one[0]) for one in _TOKEN.finditer(formula)]


def text_of(tokens: Sequence[Token]) -> str:
    """The text of tokens, without blanks around it."""
    return "".join(token.text for token in tokens).strip()


def closing(tokens: Sequence[Token], start: int) -> int:
    """Position of the bracket that closes the one at ``start``; the number of tokens if none does.

    Examples
    --------
    >>> closing(tokenised("(a[1] + ')')"), 0)
    9
    """
    awaited: list[str] = []
    for place in range(start, len(tokens)):
        token = tokens[place]
        if token.is_mark(*_PAIRS):
            awaited.append(_PAIRS[token.text])
        elif awaited and token.is_mark(awaited[-1]):
            awaited.pop()
            if not awaited:
                return place
    return len(tokens)


def is_call(tokens: Sequence[Token], place: int) -> bool:
    """Whether the bracket at ``place`` opens the arguments of a function, and does not group terms."""
    before = next((token for token in reversed(tokens[:place]) if token.kind != "blank"), None)
    if before is None or not tokens[place].is_mark("("):
        return False
    is_name = before.kind == "name" and not keyword.iskeyword(before.text)
    return is_name or before.kind == "quoted" or before.is_mark(")", "]")


def inside_calls(tokens: Sequence[Token]) -> list[bool]:
    """For each token, whether it belongs to a Python expression: the arguments of a call, braces or square brackets.

    Examples
    --------
    >>> inside_calls(tokenised("(a+I(b))"))
    [False, False, False, False, True, True, True, False]
    """
    flags, until = [], -1
    for place, token in enumerate(tokens):
        if place > until and (token.is_mark("{", "[") or is_call(tokens, place)):
            until = closing(tokens, place)
        flags.append(place <= until)
    return flags


def parts(tokens: Sequence[Token], *marks: str) -> Iterator[list[Token]]:
    """The pieces between these marks; marks inside brackets do not split.

    Examples
    --------
    >>> [text_of(part) for part in parts(tokenised("a, f(b, c)"), ",")]
    ['a', 'f(b, c)']
    """
    piece: list[Token] = []
    until = -1
    for place, token in enumerate(tokens):
        if place > until and token.is_mark(*_PAIRS):
            until = closing(tokens, place)
        if place > until and token.is_mark(*marks):
            yield piece
            piece = []
        else:
            piece.append(token)
    yield piece


def operands(tokens: Sequence[Token]) -> list[tuple[str, list[Token]]]:
    """Operands and the marks between them, as pairs of the mark (empty for an operand) and the tokens.

    Examples
    --------
    >>> [(mark, text_of(found)) for mark, found in operands(tokenised("a:I(b + c)"))]
    [('', 'a'), (':', ':'), ('', 'I(b + c)')]
    """
    pairs: list[tuple[str, list[Token]]] = []
    place = 0
    while place < len(tokens):
        token, end = tokens[place], place
        if token.is_mark("(", "[", "{"):
            end = min(closing(tokens, place), len(tokens) - 1)
            if pairs and not pairs[-1][0] and (token.text == "[" or is_call(tokens, place)):
                pairs[-1][1].extend(tokens[place : end + 1])
            else:
                pairs.append(("", list(tokens[place : end + 1])))
        elif token.kind != "blank":
            pairs.append((token.text if token.kind == "mark" and token.text != "." else "", [token]))
        place = end + 1
    return pairs


def without_added(formula: str, is_wanted: Callable[[Sequence[Token]], bool]) -> tuple[str, list[list[Token]]]:
    """The formula without the terms that ``is_wanted`` accepts, each added by itself on the right, and these terms.

    Raises
    ------
    ValueError
        If such a term is combined with other terms, subtracted, or on the left side.

    Examples
    --------
    >>> without_added("y ~ a + offset(b)", lambda tokens: tokens[0].text == "offset")[0]
    'y ~ a'
    """
    *left, side = parts(tokenised(formula), "~")
    items = operands(side)
    places = [k for k, (mark, tokens) in enumerate(items) if not mark and is_wanted(tokens)]
    for k in places:
        if items[max(k - 1, 0)][0] not in ("", "+") or items[min(k + 1, len(items) - 1)][0] not in ("", "+", "-"):
            raise _combined(items[k][1])
    others = [tokens for mark, tokens in operands([token for part in left for token in part])]
    for tokens in others + [tokens for k, (_, tokens) in enumerate(items) if k not in places]:
        if nested := _wanted_within(tokens, is_wanted):
            raise _combined(nested)
    if not places:
        return formula, []
    # Remove each term with the sign before it; if no term is left, write the intercept.
    removals = {*places, *(k - 1 for k in places if k)}
    text = " ".join(text_of(tokens) for k, (_, tokens) in enumerate(items) if k not in removals)
    text = text.removeprefix("+ ") or "1"
    before = "".join(f"{text_of(part)} ~ " if text_of(part) else "~ " for part in left)
    return f"{before}{text}", [items[k][1] for k in places]


def _wanted_within(tokens: Sequence[Token], is_wanted: Callable[[Sequence[Token]], bool]) -> Sequence[Token]:
    """A wanted term within the brackets of others, or on the left side; empty if there is none."""
    if is_wanted(tokens):
        return tokens
    if not tokens[0].is_mark("("):
        return ()
    return next((nested for _, one in operands(tokens[1:-1]) if (nested := _wanted_within(one, is_wanted))), ())


def _combined(tokens: Sequence[Token]) -> ValueError:
    return ValueError(f"formula: {text_of(tokens)} cannot be combined with other terms; add it by itself, by +.")
