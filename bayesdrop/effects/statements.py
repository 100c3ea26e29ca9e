"""Read statements such as ``site[s] - site[n] > 0`` as expressions of the language of formulas.

A statement is split into tokens and becomes a tree of :class:`bayesdrop.data.formulas.language.nodes.Apply` of bounded
size, with a closed list of functions; NumPy computes the tree, and Python evaluates no text. Used by
:func:`bayesdrop.hypothesis`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from ..data.formulas.language.limits import LIMITS
from ..data.formulas.language.nodes import Apply, Column, Expression, Number
from ..data.formulas.tokens import Token, closing, text_of, tokenised

__all__ = ["Statement", "read_statement"]

_FUNCTIONS = {"abs": "absolute", "exp": "exp", "log": "log", "min": "minimum", "max": "maximum"}
_COMPARISONS = (">=", "<=", "==", ">", "<", "=")
_DEPTH = LIMITS.depth // 2  # brackets within brackets; each may add a few levels to the tree
_ADVICE = "Expected +, -, *, /, **, abs, exp, log, min and max of names and numbers, and at most one of > >= < <= =."


class Statement(NamedTuple):
    """One statement.

    Attributes
    ----------
    text : str
        The statement as written.
    difference : expression
        Left side minus right side of the statement; the whole expression without a comparison.
    comparison : str
        ``">"``, ``">="``, ``"<"``, ``"<="``, ``"="``, or empty.
    names : list of str
        Names of quantities in the statement.
    """

    text: str
    difference: Expression
    comparison: str
    names: list[str]


def read_statement(text: str, names: Collection[str], unclear: Mapping[str, str] | None = None) -> Statement:
    """Read a statement.

    Parameters
    ----------
    text : str
        The statement. A name may be followed by brackets and colons, ``age:site[n]``; a name with blanks or signs
        is in backticks.
    names : collection of str
        Names that may occur.
    unclear : mapping from name to text, optional
        Ambiguous names, and what to write instead.

    Raises
    ------
    ValueError
        If the text is not a statement, is too long or nested too deeply, or has an unknown name.

    Examples
    --------
    >>> read_statement("a > 2", ["a"]).difference.function
    'subtract'
    >>> read_statement("weigth > 2", ["weight"])
    Traceback (most recent call last):
    ValueError: statements: nothing is called 'weigth' in 'weigth > 2'. Close names: weight.
    """
    if len(text) > LIMITS.name:
        raise ValueError(f"statements: expected at most {LIMITS.name:,} characters, got {len(text):,}; split it.")
    tokens = tokenised(text)
    reader = _Reader(text, tokens, names, unclear or {})
    left = reader.sum(0)
    comparison = reader.takes(*_COMPARISONS)
    difference = Apply("subtract", (left, reader.sum(0))) if comparison else left
    if (token := reader.peek()) is not None:
        raise reader.refusal(f"{token.text!r} is not expected there")
    if not reader.names:
        raise reader.refusal("it names no quantity")
    return Statement(text.strip(), difference, "=" if comparison == "==" else comparison, list(reader.names))


def _folded(function: str, parts: list[Expression]) -> Expression:
    """Combine many expressions by a function of two, pairwise, so that the tree stays shallow."""
    while len(parts) > 1:
        pairs: list[Expression] = [Apply(function, tuple(parts[k : k + 2])) for k in range(0, len(parts) - 1, 2)]
        parts = [*pairs, *parts[2 * len(pairs) :]]
    return parts[0]


class _Reader:
    """Recursive-descent parser of the tokens of one statement."""

    def __init__(self, text: str, tokens: Sequence[Token], known: Collection[str], unclear: Mapping[str, str]) -> None:
        self.text, self.tokens, self.known, self.unclear = text, tokens, known, unclear
        self.place = 0
        self.names: dict[str, None] = {}

    def refusal(self, reason: str) -> ValueError:
        """Error about the whole statement."""
        return ValueError(f"statements: {self.text!r} cannot be read: {reason}. {_ADVICE}")

    def peek(self) -> Token | None:
        """Next token that is not blank; None at the end."""
        while self.place < len(self.tokens) and self.tokens[self.place].kind == "blank":
            self.place += 1
        return self.tokens[self.place] if self.place < len(self.tokens) else None

    def takes(self, *marks: str) -> str:
        """Consume the next token if it is one of these marks, and return its text; else return ""."""
        token = self.peek()
        if token is None or not token.is_mark(*marks):
            return ""
        self.place += 1
        return token.text

    def sum(self, depth: int) -> Expression:
        """Terms with signs between them."""
        if depth > _DEPTH:
            raise self.refusal(f"it is nested deeper than {_DEPTH} levels")
        terms = [self.product(depth)]
        while sign := self.takes("+", "-"):
            term = self.product(depth)
            terms.append(Apply("negative", (term,)) if sign == "-" else term)
        return _folded("add", terms)

    def product(self, depth: int) -> Expression:
        """Factors with * or / between them, as the product of numerators over that of denominators."""
        above: list[Expression] = [self.signed(depth)]
        below: list[Expression] = []
        while sign := self.takes("*", "/"):
            (above if sign == "*" else below).append(self.signed(depth))
        numerator = _folded("multiply", above)
        return Apply("divide", (numerator, _folded("multiply", below))) if below else numerator

    def signed(self, depth: int) -> Expression:
        """A power, with an optional sign before it."""
        if depth > _DEPTH:
            raise self.refusal(f"it is nested deeper than {_DEPTH} levels")
        if sign := self.takes("+", "-"):
            inner = self.signed(depth + 1)
            return Apply("negative", (inner,)) if sign == "-" else inner
        base = self.operand(depth)
        return Apply("power", (base, self.signed(depth + 1))) if self.takes("**") else base

    def operand(self, depth: int) -> Expression:
        """A number, a name, a call or a sum in brackets."""
        token = self.peek()
        if token is None:
            raise self.refusal("it ends where a name or a number is expected")
        if token.kind == "number":
            self.place += 1
            return Number(float(token.text))
        if token.is_mark("("):
            self.place += 1
            return self.arguments(depth)[0]
        if token.kind == "quoted":
            return self.name(self.place + 1, token.text.strip("`"))
        if token.kind != "name":
            raise self.refusal(f"{token.text!r} is not expected there" + "; write ** for a power" * (token.text == "^"))
        ends = self.ends(self.place)
        texts = [text_of(self.tokens[self.place : end]) for end in ends]
        for end, text in zip(reversed(ends), reversed(texts), strict=True):
            if text in self.known or text in self.unclear:
                return self.name(end, text)
        if token.text in _FUNCTIONS and len(ends) > 1 and self.tokens[self.place + 1].is_mark("("):
            self.place += 2
            return self.call(token.text, depth)
        return self.name(ends[-1], texts[-1])

    def ends(self, start: int) -> list[int]:
        """Possible ends of a name that starts at ``start``: after the name, a bracket, or a colon and a name."""
        ends, place = [start + 1], start + 1
        while place < len(self.tokens):
            token = self.tokens[place]
            if token.is_mark("[", "("):
                place = closing(self.tokens, place) + 1
            elif token.is_mark(":") and place + 1 < len(self.tokens) and self.tokens[place + 1].kind == "name":
                place += 2
            else:
                break
            ends.append(min(place, len(self.tokens)))
        return ends

    def name(self, end: int, text: str) -> Expression:
        """A quantity by its name."""
        self.place = end
        if text in self.unclear:
            raise ValueError(f"statements: {text!r} stands for two things; {self.unclear[text]}.")
        if text not in self.known:
            close = (
                get_close_matches(text, self.known, 5, cutoff=0.5) or [name for name in self.known if text in name][:5]
            )
            others = list(self.known)[:5]
            suggestion = f"Close names: {', '.join(close)}" if close else f"There are {', '.join(others)}"
            more = " …" if not close and len(self.known) > len(others) else ""
            raise ValueError(f"statements: nothing is called {text!r} in {self.text!r}. {suggestion}{more}.")
        self.names[text] = None
        return Column(text)

    def call(self, name: str, depth: int) -> Expression:
        """A function of the arguments in its brackets."""
        arguments, function = self.arguments(depth, several=name in ("min", "max")), _FUNCTIONS[name]
        if name not in ("min", "max"):
            return Apply(function, (arguments[0],))
        if len(arguments) < 2:
            raise self.refusal(f"{name} takes two expressions or more")
        return _folded(function, arguments)

    def arguments(self, depth: int, several: bool = False) -> list[Expression]:
        """One sum, or several with commas, up to the closing bracket."""
        expressions = [self.sum(depth + 1)]
        while several and self.takes(","):
            expressions.append(self.sum(depth + 1))
        if not self.takes(")"):
            token = self.peek()
            raise self.refusal("a bracket is not closed" if token is None else f"{token.text!r} is not expected there")
        return expressions
