"""Translate formulaic's fitted specification of a formula into the language of :mod:`.nodes`.

Expressions are parsed and never evaluated: code that the language cannot express becomes :class:`.nodes.Outside`, which
formulaic computes in the session that made the formula.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ...levels import plain_level
from .encoding import parsed
from .limits import FUNCTIONS, LIMITS
from .nodes import (
    Apply,
    BSpline,
    Coding,
    Column,
    Expression,
    Factor,
    Hashed,
    Levels,
    Match,
    Number,
    Outside,
    Product,
    Term,
)  # fmt: skip
from .splines import cubic_spline, number_of, numbers_in, polynomial

__all__ = ["LearntLevels", "Translator", "plain_levels"]

_OPERATORS: dict[type, str] = {
    ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide", ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder", ast.Pow: "power", ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor", ast.UAdd: "positive", ast.USub: "negative", ast.Invert: "invert", ast.Eq: "equal",
    ast.NotEq: "not_equal", ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal",
}  # fmt: skip
# NumPy's other names for functions of the language.
_SYNONYMS = {
    "abs": "absolute", "mod": "remainder", "true_divide": "divide", "pow": "power", "bitwise_not": "invert",
    "bitwise_invert": "invert", "acos": "arccos", "asin": "arcsin", "atan": "arctan", "atan2": "arctan2",
    "acosh": "arccosh", "asinh": "arcsinh", "atanh": "arctanh",
}  # fmt: skip
_NONE: Mapping[str, str] = {}
_NUMBERS = {"pi": math.pi, "e": math.e, "euler_gamma": float(np.euler_gamma)}
# Functions that formulaic lets a formula call without ``np.``.
_PLAIN = {"log", "log2", "log10", "exp", "exp2"}


class _UnknownError(ValueError):
    """The language cannot express a part of the formula."""


_FAILURES = (
    ValueError, TypeError, ArithmeticError, LookupError, AttributeError, SyntaxError, RecursionError, MemoryError,
)  # fmt: skip


class LearntLevels(NamedTuple):
    """Levels of a factor, their contrasts, and whether these are the user's own."""

    levels: tuple[Any, ...]
    coding: Coding
    is_custom: bool = False


@dataclass(frozen=True)
class Translator:
    """Translator of the expressions and factors of one formula.

    Attributes
    ----------
    columns : set of str
        Columns of the table.
    state : mapping
        State of formulaic's stateful transforms, by their text.
    context : mapping
        The user's ``context``, whose names are not translated.
    learn : callable
        Function that stores a factor as Python code of the session and returns its node.
    """

    columns: frozenset[str]
    state: Mapping[str, Any]
    context: Mapping[str, Any]
    learn: Callable[[Any], Outside]

    def terms_of(self, spec: Any) -> tuple[Term, ...]:
        """Terms, except the intercept, of a formulaic ``ModelSpec`` that has encoded rows."""
        terms = []
        for structure in spec.structure:
            if structure.term.degree:
                # formulaic keeps the order of the terms and of their factors.
                products = [
                    [(scoped.factor.factor, bool(scoped.reduced)) for scoped in product.factors]
                    for product in structure.scoped_terms
                ]
                terms.append(self.term(structure.term, list(structure.columns), products, spec))
        return tuple(terms)

    def term(self, term: Any, names: Sequence[str], products: Sequence[Any], spec: Any) -> Term:
        """One term of a specification."""
        translations = []
        for product in products:
            factors = [self.factor(one, reduced, _coding_of(spec, one, reduced)) for one, reduced in product]
            translations.append(Product(tuple(factors)))
        return Term(str(term), tuple(map(str, names)), tuple(translations))

    def factor(self, factor: Any, reduced: bool, levels: LearntLevels | None) -> Factor:
        """One factor, with its levels and their coding if it is categorical."""
        text = str(factor.expr)
        try:
            encoding = self._encoding(text, factor.eval_method.value == "lookup", reduced, levels)
        except _FAILURES:
            if levels is None or levels.is_custom:  # formulaic applies contrasts of the user's own
                encoding = self._outside(factor, reduced and levels is None)
            else:
                encoding = Levels(self._outside(factor, 0), levels.levels, levels.coding)
        return Factor(text, encoding)

    def expression(self, factor: Any) -> Expression | Outside:
        """A function of one value per row, such as an offset."""
        try:
            if factor.eval_method.value == "lookup" and factor.expr in self.columns:
                return Column(str(factor.expr))
            return _Reader(self, *self._read(str(factor.expr))).expression()
        except _FAILURES:
            return self._outside(factor, 0)

    def _outside(self, factor: Any, dropped: int) -> Outside:
        """A factor as Python code, without the ``dropped`` first columns that full rank removes."""
        node = self.learn(factor)
        return replace(node, count=node.count - dropped)

    def _read(self, text: str) -> tuple[ast.expr, dict[str, str]]:
        if len(text) > LIMITS.name:
            raise _UnknownError("it is too long")
        return parsed(text, self.columns)

    def _encoding(self, text: str, is_name: bool, reduced: bool, levels: LearntLevels | None) -> Any:
        if is_name:
            if text not in self.columns:
                raise _UnknownError(text)
            return Column(text) if levels is None else Levels(Column(text), levels.levels, levels.coding)
        reader = _Reader(self, *self._read(text))
        return reader.numbers(reduced) if levels is None else reader.levels(levels.levels, levels.coding)


@dataclass(frozen=True)
class _Reader:
    """Python's syntax tree of one expression, and the columns behind its substitute names."""

    translator: Translator
    tree: ast.expr
    names: Mapping[str, str]

    def expression(self, tree: ast.expr | None = None, depth: int = 0) -> Expression:
        """The tree as an expression of the language."""
        tree = self.tree if tree is None else tree
        if depth > LIMITS.depth // 2:
            raise _UnknownError("it is nested too deeply")
        match tree:
            case ast.Constant(value=bool() | int() | float() as value):
                return Number(value if isinstance(value, bool) else float(value))
            case ast.Name():
                return Column(self._column(tree.id))
            case ast.Attribute(value=ast.Name(id="np"), attr=name) if self._is_free("np") and name in _NUMBERS:
                return Number(_NUMBERS[name])
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return self._apply(_OPERATORS[type(op)], [left, right], depth)
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
                return self._apply(_OPERATORS[type(op)], [operand], depth)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPERATORS:
                return self._compare(_OPERATORS[type(op)], left, right, depth)
            case ast.Call():
                return self._call(tree, depth)
        raise _UnknownError(type(tree).__name__)

    def numbers(self, reduced: bool) -> Any:
        """The tree as columns of numbers."""
        tree = self._inner(self.tree)
        name = self._called(tree)
        if name not in ("bs", "cr", "cs", "cc", "poly", "hashed"):
            return self.expression(tree)
        assert isinstance(tree, ast.Call)
        if name == "hashed":
            arguments = self._arguments(tree, ["data", "levels"])
            count = int(_constant(arguments.get("levels"), 0))
            if not (isinstance(arguments["data"], ast.Name) and 0 < count <= LIMITS.levels):
                raise _UnknownError("a function of other values")
            return Hashed(self._column(arguments["data"].id), count, Coding(tuple(range(int(reduced), count)), ()))
        names = {"poly": ["x", "degree", "raw"], "bs": ["x", "df", "knots", "degree", "include_intercept",
                 "lower_bound", "upper_bound", "extrapolation"]}  # fmt: skip
        spline = ["x", "df", "knots", "lower_bound", "upper_bound", "constraints", "cyclic", "extrapolation"]
        arguments = self._arguments(tree, names.get(name, spline))
        x, state = self.expression(arguments.pop("x")), self._learnt(tree)
        if name == "poly":
            return polynomial(
                x, int(_constant(arguments.get("degree"), 1)), bool(_constant(arguments.get("raw"), False)), state
            )
        if name == "bs":
            has_first = bool(_constant(arguments.get("include_intercept"), False)) and not reduced
            beyond = str(_constant(arguments.get("extrapolation"), "raise"))
            return BSpline(x, numbers_in(state["knots"]), int(_constant(arguments.get("degree"), 3)), has_first, beyond)
        return cubic_spline(x, state, str(_constant(arguments.get("extrapolation"), "extend")))

    def levels(self, levels: tuple[Any, ...], coding: Coding) -> Any:
        """The tree as contrasts of levels."""
        tree = self._inner(self.tree)
        name = self._called(tree)
        if name != "C":
            return Levels(Column(self._column(tree.id if isinstance(tree, ast.Name) else "")), levels, coding)
        assert isinstance(tree, ast.Call)
        argument = self._inner(self._arguments(tree, ["data", "contrasts"], any_keywords=True)["data"])
        return Levels(self.expression(argument), levels, coding)

    def _apply(self, function: str, arguments: Sequence[ast.expr], depth: int) -> Apply:
        return Apply(function, tuple(self.expression(argument, depth + 1) for argument in arguments))

    def _compare(self, function: str, left: ast.expr, right: ast.expr, depth: int) -> Expression:
        texts = [side for side in (left, right) if isinstance(side, ast.Constant) and isinstance(side.value, str)]
        if not texts:
            return self._apply(function, [left, right], depth)
        column = right if texts[0] is left else left
        if not isinstance(column, ast.Name) or function not in ("equal", "not_equal"):
            raise _UnknownError("a comparison of texts")
        return Match(self._column(column.id), str(texts[0].value), function == "equal")

    def _call(self, tree: ast.Call, depth: int) -> Expression:
        name, arguments = self._called(tree), tree.args
        if name in ("center", "scale", "standardize"):
            return self._scaled(tree, depth)
        if name == "np.clip":
            return self._clipped(tree, depth)
        if tree.keywords or any(isinstance(argument, ast.Starred) for argument in arguments):
            raise _UnknownError("an option of a function")
        match name, arguments:
            case "I", [argument]:
                return self.expression(argument, depth + 1)
            case "Q", [ast.Constant(value=str() as column)] if column in self.translator.columns:
                return Column(column)
        function = name if name in _PLAIN else name.removeprefix("np.") if name.startswith("np.") else ""
        function = _SYNONYMS.get(function, function)
        if function not in FUNCTIONS:
            raise _UnknownError(name)
        return self._apply(function, arguments, depth)

    def _scaled(self, tree: ast.Call, depth: int) -> Expression:
        if not tree.args:
            raise _UnknownError("a call without an argument")
        state, expression = self._learnt(tree), self.expression(tree.args[0], depth + 2)
        for function, key in (("subtract", "center"), ("divide", "scale")):
            if state.get(key) is not None:
                expression = Apply(function, (expression, Number(number_of(state[key]))))
        return expression

    def _clipped(self, tree: ast.Call, depth: int) -> Expression:
        arguments = self._arguments(tree, ["a", "a_min", "a_max"], {"min": "a_min", "max": "a_max"})
        expression = self.expression(arguments["a"], depth + 2)
        for function, key in (("maximum", "a_min"), ("minimum", "a_max")):
            bound = arguments.get(key)
            if bound is not None and not (isinstance(bound, ast.Constant) and bound.value is None):
                expression = Apply(function, (expression, self.expression(bound, depth + 2)))
        return expression

    def _inner(self, tree: ast.expr) -> ast.expr:
        """The argument of ``I()``, which changes nothing."""
        for _ in range(LIMITS.depth):
            if self._called(tree) == "I" and isinstance(tree, ast.Call) and len(tree.args) == 1 and not tree.keywords:
                tree = tree.args[0]
        return tree

    def _called(self, tree: ast.expr) -> str:
        """Name of the called function, with ``np.`` for NumPy's; empty if the tree is not a call."""
        match tree:
            case ast.Call(func=ast.Name(id=name)) if self._is_free(name):
                return name
            case ast.Call(func=ast.Attribute(value=ast.Name(id="np"), attr=name)) if self._is_free("np"):
                return f"np.{name}"
        return ""

    def _is_free(self, name: str) -> bool:
        """Whether a name is formulaic's, and not that of a column or of the user's ``context``."""
        return name not in self.translator.columns and name not in self.translator.context

    def _column(self, name: str) -> str:
        column = self.names.get(name, name)
        if column not in self.translator.columns:
            raise _UnknownError(column)
        return column

    def _arguments(
        self,
        tree: ast.Call,
        names: Sequence[str],
        synonyms: Mapping[str, str] = _NONE,
        any_keywords: bool = False,
    ) -> dict[str, ast.expr]:
        """Arguments of a call by their names."""
        arguments = dict(zip(names, tree.args, strict=False))
        for keyword in tree.keywords:
            arguments[synonyms.get(str(keyword.arg), str(keyword.arg))] = keyword.value
        unknown = (set(arguments) - set(names)) if not any_keywords else set()
        if len(tree.args) > len(names) or unknown or names[0] not in arguments:
            raise _UnknownError("arguments of another form")
        return arguments

    def _learnt(self, tree: ast.expr) -> Mapping[str, Any]:
        # From its second use, formulaic adds ten random letters to a name in backticks.
        text = re.escape(ast.unparse(tree).replace("\n", " "))
        for alias in self.names:
            stem = re.escape(re.sub("_[a-z]{10}$", "", alias))
            text = f"{stem}(_[a-z]{{10}})?".join(re.split(rf"\b{re.escape(re.escape(alias))}\b", text))
        statistics = [value for key, value in self.translator.state.items() if re.fullmatch(text, str(key))]
        if len(statistics) != 1 or not isinstance(statistics[0], Mapping):
            raise _UnknownError("a function that has learnt nothing")
        return statistics[0]


def plain_levels(levels: Sequence[Any]) -> tuple[Any, ...]:
    """Levels as Python's own numbers, truth values and texts; intervals, dates and other values become texts."""
    return tuple(level if isinstance(level, str) else plain_level(level) for level in levels)


def _coding_of(spec: Any, factor: Any, reduced: bool) -> LearntLevels | None:
    """Levels of an encoded factor and their coding; None if it is numeric."""
    kind, state = spec.encoder_state.get(factor.expr, (None, {}))
    if getattr(kind, "value", None) != "categorical" or "categories" not in state:
        return None
    levels, contrasts = plain_levels(state["categories"]), state["contrasts"].contrasts
    is_custom = type(contrasts).__name__ == "CustomContrasts"
    if not levels or (len(levels) == 1 and reduced):
        return LearntLevels(levels, Coding((), ()), is_custom)
    matrix = contrasts.get_coding_matrix(list(state["categories"]), reduced_rank=reduced, sparse=True).tocsc()
    level, rows = matrix.indices, matrix.shape
    if np.all(matrix.data == 1) and np.all(np.diff(matrix.indptr) == 1) and len(set(level)) == rows[1]:
        return LearntLevels(levels, Coding(tuple(level.tolist()), ()), is_custom)
    if rows[0] * rows[1] > LIMITS.values:
        raise ValueError(f"formula: the contrasts of {factor.expr!r} are {rows[0]} × {rows[1]} numbers, too many.")
    return LearntLevels(levels, Coding((), tuple(map(tuple, matrix.toarray().tolist()))), is_custom)


def _constant(tree: ast.expr | None, default: Any) -> Any:
    match tree:
        case None:
            return default
        case ast.Constant(value=value):
            return default if value is None else value
    raise _UnknownError("an option that is not a number or text")
