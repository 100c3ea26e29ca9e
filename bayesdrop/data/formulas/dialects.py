"""Translate words and marks of R, brms and bambi in a formula to those of formulaic and Python, or raise with advice.

``^`` is a power in an expression, and R's words for factors, functions and two counts are replaced by Python's. A term
that formulaic would drop silently is an error: ``age^2`` outside a function is the term ``age`` again.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

import numpy as np

from .tokens import Token, closing, inside_calls, is_call, operands, parts, text_of, tokenised

__all__ = ["in_python"]

_MARKS = {"^": "**", "%%": "%", "%/%": "//"}
_CONSTANTS = {"TRUE": "True", "FALSE": "False"}
_FUNCTIONS = {
    "factor": "C",
    "as.factor": "C",
    "as.character": "C",
    "sqrt": "np.sqrt",
    "log1p": "np.log1p",
    "expm1": "np.expm1",
    "sin": "np.sin",
    "cos": "np.cos",
    "tanh": "np.tanh",
    "sign": "np.sign",
    "floor": "np.floor",
    "ceiling": "np.ceil",
    "ifelse": "np.where",
    "pmin": "np.minimum",
    "pmax": "np.maximum",
}
# Advice for functions without a counterpart, with the first argument as {0}.
_REFUSED = {
    "ns": "write cr({0}, df=4), a natural cubic spline",
    "s": "write bs({0}, df=5), a spline with that many columns",
    "as.numeric": "turn the column into numbers by pd.to_numeric before",
    "as.integer": "turn the column into numbers by pd.to_numeric before",
    "cut": "make a column of intervals by pd.cut before",
    "ordered": "write C({0}), whose levels are treated equally",
    "exp10": "write I(10.0^{0})",
    "relevel": "write {0}; every level has a column, and full_rank=True leaves out the first of a pandas.Categorical",
}
# Functions of NumPy by formulaic's names. Their next argument is what NumPy writes the result into.
_OF_NUMPY = ("log", "log2", "log10", "exp", "exp2")
_COUNTS = ("cbind", "p", "prop", "proportion")
_COMPARISONS = ("==", "!=", "<", ">", "<=", ">=")


def in_python(formula: str, columns: Iterable[str], scope: Container[str] = ()) -> str:
    """Translate a formula to the words of formulaic and Python.

    Parameters
    ----------
    formula : str
        The user's formula.
    columns : iterable of str
        Columns of the data; names with points, as in R, need no backticks.
    scope : container of str
        The user's functions and values, whose names do not change.

    Returns
    -------
    str
        The formula; names in backticks and texts do not change.

    Raises
    ------
    ValueError
        If a word has no counterpart, or a term would be dropped; the message says what to write.

    Examples
    --------
    >>> in_python("y ~ I(age^2) + factor(site.id) + `a^2`", ["y", "age", "site.id", "a^2"])
    'y ~ I(age**2) + C(`site.id`) + `a^2`'
    >>> in_python("cbind(ill, n - ill) ~ dose", ["ill", "n", "dose"])
    'ill + {n - ill} ~ dose'
    >>> in_python("y ~ age^2", ["y", "age"])
    Traceback (most recent call last):
    ValueError: formula: 'age^2' is the term 'age' again, because powers of terms are interactions; ...
    """
    column_set = set(columns)
    tokens = tokenised(formula)
    if any(token.is_mark("(", "[", "{") and closing(tokens, k) == len(tokens) for k, token in enumerate(tokens)):
        raise ValueError(f"formula: {formula!r} cannot be read. A bracket is not closed; close it.")
    _refuse_loose_comparisons(tokens)
    tokens = [_replaced(tokens, place, inside, column_set, scope) for place, inside in enumerate(inside_calls(tokens))]
    sides = list(parts(tokens, "~"))
    if len(sides) == 2:
        sides[0] = _left_side(sides[0], scope)
    for side in sides:
        _refuse_repeats(side)
    return "~".join("".join(token.text for token in side) for side in sides)


def _replaced(tokens: Sequence[Token], place: int, inside: bool, columns: set[str], scope: Container[str]) -> Token:
    token = tokens[place]
    if inside and token.is_mark(*_MARKS):
        return Token("mark", _MARKS[token.text])
    if token.kind != "name" or token.text in scope:
        return token
    after = next((k for k in range(place + 1, len(tokens)) if tokens[k].kind != "blank"), place)
    if is_call(tokens, after):
        if token.text in _REFUSED:
            first = text_of(next(parts(tokens[after + 1 : closing(tokens, after)], ",")))
            raise ValueError(f"formula: {token.text}(...) is not known here; {_REFUSED[token.text].format(first)}.")
        name = _FUNCTIONS.get(token.text, token.text)
        _refuse_more_arguments(token.text, name, parts(tokens[after + 1 : closing(tokens, after)], ","))
        return Token("name", name)
    if token.text in columns:
        return Token("quoted", f"`{token.text}`") if "." in token.text else token
    return Token("name", _CONSTANTS.get(token.text, token.text)) if inside else token


def _refuse_more_arguments(word: str, name: str, arguments: Iterable[Sequence[Token]]) -> None:
    """Raise ValueError if a function of NumPy would write into an argument."""
    function = getattr(np, name.removeprefix("np."), None) if name in _OF_NUMPY or name.startswith("np.") else None
    given = [text for argument in arguments if (text := text_of(argument).strip())]
    if isinstance(function, np.ufunc) and len(given) > function.nin:
        advice = f"nest the calls, as in {word}(a, {word}(b, c))" if function.nin == 2 else "leave the others out"
        if name in ("log", "np.log"):
            advice = f"write I({word}({given[0]}) / {word}({given[1]})) for that base"
        raise ValueError(f"formula: {word}(...) takes {function.nin} of the {len(given)} arguments; {advice}.")


def _terms_in(operand: Sequence[Token]) -> Sequence[Token]:
    """Terms within brackets; empty for any other operand."""
    return operand[1:-1] if operand[0].is_mark("(") else ()


def _is_one_term(operand: Sequence[Token]) -> bool:
    """Whether an operand is one term, not several in brackets or the dot."""
    if operand[0].is_mark("."):
        return False
    inner = operands(_terms_in(operand))
    marks = {mark for mark, _ in inner if mark}
    return marks <= {":", "^", "**"} and all(_is_one_term(one) for mark, one in inner if not mark)


def _refuse_repeats(side: Sequence[Token]) -> None:
    """Raise ValueError if a term is combined with itself, which formulaic reduces to the term."""
    items = operands(side)
    chain: dict[str, None] = {}
    for k, (mark, tokens) in enumerate(items):
        if mark == "%in%":
            left, right = (text_of(items[j][1]) if 0 <= j < len(items) else "" for j in (k - 1, k + 1))
            raise ValueError(f"formula: %in% has two meanings; write {left}:{right}, or write {right}/{left}.")
        if mark in ("^", "**") and 0 < k < len(items) - 1 and _is_one_term(items[k - 1][1]):
            base, power = text_of(items[k - 1][1]), text_of(items[k + 1][1])
            plain = text_of(_terms_in(items[k - 1][1])) or base
            if items[k - 1][1][0].kind == "number":
                raise ValueError(f"formula: '{base}{mark}{power}' is not a term; write I({base}**{power}).")
            raise ValueError(
                f"formula: '{base}{mark}{power}' is the term {plain!r} again, because powers of terms are "
                f"interactions; write {plain}. The power of a number is I({plain.replace(':', ' * ')}**{power})."
            )
        if mark not in ("", ":", "*", "^", "**"):
            chain = {}
        if mark:
            continue
        name = text_of(tokens)
        if name in chain and tokens[0].kind != "number":
            raise ValueError(
                f"formula: {name!r} twice in one term is the term {name!r} again; write {name}. The product of numbers "
                f"is I({name} * {name})."
            )
        chain[name] = None
        for part in parts(_terms_in(tokens), "|"):
            _refuse_repeats(part)


def _left_side(side: Sequence[Token], scope: Container[str]) -> list[Token]:
    """Left side, with two counts as ``successes + failures``; raise ValueError if formulaic would drop a part of it."""
    items = operands(side)
    marks = [mark for mark, _ in items if mark]
    text, counts = text_of(side), list[list[Token]]()
    if "|" in marks:
        response, *more = parts(side, "|")
        word = more[0] if len(more) == 1 else []
        named = [token for token in word if token.kind != "blank"]
        if len(named) < 4 or named[0].text != "trials" or len(operands(word)) != 1:
            raise ValueError(
                f"formula: the left side {text!r} says more than successes | trials(n); weights of rows go into "
                "sample_weight."
            )
        counts = [response, named[2:-1]]
        failures = f"{text_of(counts[1])} - {_grouped(counts[0])}"
    elif len(items) == 1 and len(inner := items[0][1]) > 1 and inner[0].text in _COUNTS and inner[0].text not in scope:
        function = inner[0].text
        counts = list(parts(inner[inner.index(Token("mark", "(")) + 1 : -1], ","))
        if len(counts) != 2:
            raise ValueError(
                f"formula: {text!r} is not two columns of counts; expected cbind(successes, failures), as in "
                "cbind(ill, n - ill), or p(successes, trials)."
            )
        failures = text_of(counts[1]) if function == "cbind" else f"{text_of(counts[1])} - {_grouped(counts[0])}"
    operators = {"-", "*", "/", "^", "**"} & set(marks)
    if operators:
        expression = "".join("**" if token.text == "^" else token.text for token in side).strip()
        raise ValueError(
            f"formula: the left side {text!r} is read as terms, which drops a part of it; write I({expression}) ~ for "
            "a response that is computed."
        )
    if counts:
        side = tokenised(f"{_braced(text_of(counts[0]))} + {_braced(failures)} ")
        items = operands(side)
    names = [text_of(tokens) for mark, tokens in items if not mark]
    if repeated := [name for k, name in enumerate(names) if name in names[:k]]:
        raise ValueError(
            f"formula: the left side {text!r} has {repeated[0]!r} twice; name successes and failures, as in ill + well."
        )
    return list(side)


def _grouped(tokens: Sequence[Token]) -> str:
    text = text_of(tokens)
    return text if len(operands(tokens)) == 1 else f"({text})"


def _braced(text: str) -> str:
    """Put an expression in braces, if formulaic would read it as terms."""
    return text if len(tokenised(text)) == 1 else f"{{{text}}}"


def _refuse_loose_comparisons(tokens: Sequence[Token]) -> None:
    """Raise ValueError on ``a > 0 & b == 1``, which Python reads as ``a > (0 & b) == 1``."""
    for place, inside in enumerate(inside_calls(tokens)):
        if not (inside and tokens[place].is_mark("(", "{")):
            continue
        for part in parts(tokens[place + 1 : closing(tokens, place)], ","):
            marks = {mark for mark, _ in operands(part) if mark}
            if marks & {"&", "|"} and marks & set(_COMPARISONS):
                raise ValueError(
                    f"formula: {text_of(part)!r} compares after & and |; put brackets around the comparisons, as in "
                    "(a > 0) & (b == 1)."
                )
