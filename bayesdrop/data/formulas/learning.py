"""Translate what formulaic learns from a table, and compare the translation with formulaic's numbers on its rows.

Python code that :mod:`.language.nodes` cannot express is run by formulaic, in the session that wrote the formula.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ..._typing import Bool
from ...warnings import FormulaWarning, warn
from .checks import with_doubles
from .language.encoding import columns_of, encode
from .language.interpreter import Rows, encode_terms, numbers_of
from .language.nodes import Factor, Hashed, Outside, Term, columns_needed, walk
from .language.translation import Translator
from .response import response_values

__all__ = ["Learner", "Session", "recalled", "remember"]

# Relative difference from formulaic above which a translation is not used.
_TOLERANCE = 1e-9
# Latest encoders of this process with Python code, by the checksum of the text that results store.
_ENCODERS: dict[str, Any] = {}
_LARGEST = 256


@dataclass(frozen=True)
class Session:
    """State of formulaic for factors that no file can hold; it is never read from a file.

    Attributes
    ----------
    context : mapping
        The user's functions and values.
    specs : dict
        The formulaic ``ModelSpec`` of each factor, by its text.
    response : Any
        Left side of the formula, as formulaic parsed it, if the language cannot express it.
    """

    context: Mapping[str, Any] = field(default_factory=dict)
    specs: dict[str, Any] = field(default_factory=dict)
    response: Any = None

    def learn(self, factor: Any, frame: Any, state: Mapping[str, Any]) -> Outside:
        """Learn a factor on the rows of a frame, with the statistics in ``state``."""
        from formulaic import Formula
        from formulaic.parser.types import Term

        alone = Formula([Term([factor])])
        matrix = encode(alone, with_doubles(frame, [factor]), dict(self.context), "nan", ensure_full_rank=False,
                        transform_state=dict(state))  # fmt: skip
        self.specs[str(factor.expr)] = matrix.model_spec
        return _outside(factor, frame, int(matrix.shape[1]))

    def run(self, node: Outside, frame: Any, unseen: str) -> Any:
        """Columns (n, k) of a factor on other rows, csr; all 0 for an unseen level if ``unseen`` is "population"."""
        spec = self.specs[node.text]
        before = set(spec.transform_state)
        factors = [factor for term in spec.formula for factor in term.factors]
        matrix = encode(spec, with_doubles(frame, factors), dict(self.context), "nan", unseen=unseen)
        if set(matrix.model_spec.transform_state) - before:
            raise ValueError(f"data: {node.text!r} cannot be told apart from another function; rename its columns.")
        return matrix.__wrapped__.tocsr()


def _outside(factor: Any, frame: Any, count: int) -> Outside:
    return Outside(str(factor.expr), count, tuple(sorted(columns_of(factor, frame.columns))))


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


class Learner:
    """Translate the parts of one formula.

    Parameters
    ----------
    frame : pandas.DataFrame (n, ·)
        Rows of the fit.
    context : mapping
        The user's functions and values.
    missing, unseen : str or None
        As in :func:`bayesdrop.from_formula`.
    """

    def __init__(self, frame: Any, context: Mapping[str, Any], missing: str | None, unseen: str) -> None:
        self._session = Session(context)
        self.rows = Rows(frame, missing, unseen, self._session.run)

    @property
    def session(self) -> Session | None:
        """Session that runs Python code of the formula; None without such code."""
        return self._session if self._session.specs or self._session.response is not None else None

    @property
    def token(self) -> str:
        """Random text that identifies a formula with Python code; empty without such code."""
        return secrets.token_hex(16) if self._session.specs else ""

    def terms(self, spec: Any, X: Any) -> tuple[Term, ...]:
        """Translate the terms of formulaic's ``spec``, whose features on these rows are ``X``, csr."""
        by_language, by_python = (self._translator(columns, spec) for columns in self._choices())
        terms = by_language.terms_of(spec)
        for factor in (factor for term in terms for product in term.products for factor in product.factors):
            if isinstance(factor.encoding, Hashed):  # formulaic would hash "nan"
                self.rows.codes(factor.encoding)
        whole = self.rows.frame[sorted(columns_needed(terms))].notna().all(axis=1).to_numpy()
        try:
            wrong = _differing(X[whole], encode_terms(terms, self.rows, sparse=True)[whole])
        except ValueError:
            wrong = np.ones(X.shape[1], dtype=bool)
        if wrong.any():
            others = by_python.terms_of(spec)
            if not wrong.all():  # factor by factor, formulaic computes with doubles columns that are levels elsewhere
                encoded = (encode_terms(parts, self.rows, sparse=True)[whole] for parts in (others, terms))
                wrong &= _differing(*encoded)
            by_term = np.split(wrong, np.cumsum([len(term.columns) for term in terms])[:-1])
            pairs = zip(terms, others, by_term, strict=True)
            terms = tuple(second if differs.any() else first for first, second, differs in pairs)
        return terms

    def column(self, expression: str, check: Callable[[Any], Any]) -> Factor:
        """Translate an offset or the variable of a slope; ``check`` raises unless it is one column of numbers."""
        from formulaic import Formula

        formula = Formula(f"0 + {{{expression}}}")
        factor = next(factor for term in formula for factor in term.factors)
        frame = with_doubles(self.rows.frame, [factor])
        matrix = encode(formula, frame, dict(self._session.context), output="pandas")
        values = check(matrix)
        for columns in self._choices():
            node = self._translator(columns, matrix.model_spec).expression(factor)
            result = Factor(expression, node)
            if not columns or self._gives(result, values):
                break
        return result

    def response(self, left: Any) -> tuple[Factor, ...] | None:
        """Translate the left side of a formula; None without one."""
        if left is None:
            return None
        factors = []
        for factor in (factor for term in left for factor in term.factors):
            state, values = {}, None
            if factor.eval_method.value != "lookup":
                alone = type(left)([term for term in left if factor in term.factors])
                frame = with_doubles(self.rows.frame, [factor])
                matrix = encode(alone, frame, dict(self._session.context), output="pandas", ensure_full_rank=False)
                state, values = matrix.model_spec.transform_state, matrix.to_numpy()[:, 0]
            columns = frozenset(self.rows.frame.columns)
            outside = partial(_outside, frame=self.rows.frame, count=1)
            node: Any = Translator(columns, state, self._session.context, outside).expression(factor)
            result = Factor(str(factor.expr), node)
            if values is not None and not isinstance(node, Outside) and not self._gives(result, values):
                result = replace(result, encoding=Outside(result.label, 1, tuple(sorted(columns_needed(node)))))
            factors.append(result)
            if isinstance(result.encoding, Outside):
                encode_alone = partial(_response_column, alone, context=dict(self._session.context))
                self._compare(result.label, encode_alone(self.rows.frame), encode_alone)
        if any(isinstance(factor.encoding, Outside) for factor in factors):
            self._session = replace(self._session, response=left)
        return tuple(factors)

    def warn_of_other_rows(self, parts: Any) -> None:
        """Warn of Python code that gives other values on every second row than on all rows."""
        nodes = {node.text: node for node in walk(parts) if isinstance(node, Outside) and node.columns}
        for node in nodes.values():
            encode_half = partial(self._session.run, node, unseen=self.rows.unseen)
            self._compare(node.text, self.rows.run(node), encode_half)

    def _compare(self, text: str, values: Any, encode_half: Callable[[Any], Any]) -> None:
        """Warn if Python code gives ``values``, csr, on all rows and others on every second row."""
        try:
            part = encode_half(self.rows.frame[::2].reset_index(drop=True))
        except ValueError:  # it will not be silent for new rows either
            return
        whole = values[::2]
        if part.shape != whole.shape or _differing(whole, part).any():
            warn(
                f"formula: the value of {text!r} in a row depends on the other rows of its table, so that new "
                "rows are not encoded as those of the fit; write center() or scale(), which keep the statistics of "
                "the fit, or compute a column beforehand.",
                FormulaWarning,
            )

    def _gives(self, factor: Factor, values: Any) -> bool:
        """Whether a translated factor can be computed on these rows and has formulaic's values."""
        try:
            one, two = (np.asarray(part, dtype=np.float64) for part in (values, numbers_of(factor, self.rows)))
        except ValueError:
            return False
        largest = float(np.max(np.abs(one), initial=0.0))
        return bool(np.allclose(one, two, rtol=0, atol=_TOLERANCE * largest, equal_nan=True))

    def _choices(self) -> tuple[frozenset[str], frozenset[str]]:
        """All columns; and no columns, so that every expression is Python code."""
        return frozenset(self.rows.frame.columns), frozenset()

    def _translator(self, columns: frozenset[str], spec: Any) -> Translator:
        state = spec.transform_state
        learn = partial(self._session.learn, frame=self.rows.frame, state=state)
        return Translator(columns, state, self._session.context, learn)


def _response_column(left: Any, frame: Any, context: dict[str, Any]) -> Any:
    """Values (n, 1) of a response, csr."""
    from scipy.sparse import csr_array

    return csr_array(response_values(left, (), frame, context)[:, None])


def _differing(one: Any, two: Any) -> Bool[np.ndarray, " p"]:
    """Whether each column of two csr matrices differs; NaN equals NaN."""
    one, two = one.astype(np.float64), two.astype(np.float64)
    scale, wrong = np.zeros(one.shape[1]), np.zeros(one.shape[1], dtype=bool)
    np.fmax.at(scale, one.indices, np.abs(one.data))
    for matrix in (one, two):
        matrix.data[np.isnan(matrix.data)] = np.finfo(np.float64).max
    gap = (one - two).tocsr()
    wrong[gap.indices[np.abs(gap.data) > _TOLERANCE * scale[gap.indices]]] = True
    return wrong
