"""Encode new rows by a formula: its terms, with the levels, means and knots of the rows it was learnt from.

It travels as text (JSON), with fits and posteriors, holds no rows and no Python code, and is computed by
:mod:`.language.interpreter` in any process. Python code that a formula has besides runs in the session that made it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..._display import Shown
from ..._typing import Float, Shaped
from ..frames import listed, no_column, to_pandas
from .checks import check_finite, check_offset_values, is_label
from .earlier import read_earlier
from .language.interpreter import Rows, encode_terms, numbers_of
from .language.limits import finite, within
from .language.nodes import Column, Factor, Levels, Outside, Term, check_terms, columns_needed, walk
from .language.reading import plain, read_node
from .random_terms import RandomTerm, random_columns
from .response import read_response, response_values
from .session import Session, recalled, remember
from .stored import read_factor, read_facts, read_json, read_random_term

__all__ = ["FormulaEncoder", "StoredFormula"]

# Of the text that a formula is stored as.
_VERSION = 2


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FormulaEncoder(Shown):
    """How a formula makes features of the columns of a data frame.

    Attributes
    ----------
    formula : str
        The formula.
    feature_names : list of p str
        Names of the columns, as formulaic gives them: ``age``, ``C(site)[north]``.
    groups : list of p str
        The term of each column, for ``bd.PerGroup`` and ``bd.Hierarchical``.
    has_intercept : bool
        False if the formula says ``0 +`` or ``- 1``; for ``bd.Model(fit_intercept=design.has_intercept)``.
    full_rank : bool
        Whether factors have reference levels or contrasts rather than a column for every level.
    terms : tuple of Term
        Levels, contrasts, knots and means of each term, in the language of :mod:`.language.nodes`.
    columns : dict
        For each column that the formula uses its ``levels``, or ``low``, ``high``, ``mean`` and ``whole`` of numbers.
    missing : None or "nan"
        Whether missing values are NaN among the features, or refused.
    unseen : "error" or "baseline"
        What becomes of a level that was not there before: an error, or a row without any level of its factor.
    is_sparse : bool
        Whether features are compressed rows or an array.
    random_terms : sequence of RandomTerm
        Terms such as ``(1 | site)``, whose columns are the last.
    """

    formula: str
    feature_names: list[str]
    groups: list[str]
    has_intercept: bool
    full_rank: bool = field(repr=False, default=False)
    terms: tuple[Term, ...] = field(repr=False)
    columns: dict[str, dict[str, Any]] = field(repr=False)
    missing: str | None = None
    unseen: str = "error"
    is_sparse: bool = False
    random_terms: Sequence[RandomTerm] = ()
    _more: Sequence[tuple[int, str]] = field(default=(), repr=False)
    _offset: Factor | None = field(default=None, repr=False)
    _response: tuple[Factor, ...] | None = field(default=None, repr=False)
    _label: str | float | None = field(default=None, repr=False)
    # Python code runs in this process alone, and marks what this process writes.
    _session: Session | None = field(default=None, repr=False)
    _token: str = field(default="", repr=False)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"

    def __str__(self) -> str:
        return f"{self.formula}: {len(self.feature_names)} features"

    def transform(self, data: Any) -> Any:
        """Encode other rows with the same levels, contrasts and statistics.

        Parameters
        ----------
        data : data frame or dict of columns (m, ·)
            As :func:`from_formula` takes; the response need not be there.

        Returns
        -------
        scipy.sparse.csr_array or array (m, p)
            Of the kind of the features that were learnt from.

        Raises
        ------
        ValueError
            On missing columns, levels that the formula has not seen (unless ``unseen="baseline"``), infinite or, as
            ``missing`` has it, missing values, or no rows.

        Examples
        --------
        >>> from bayesdrop import from_formula
        >>> design = from_formula("~ center(age) + site", {"age": [20.0, 40.0], "site": ["north", "south"]})
        >>> design.transform({"age": [31.0], "site": ["south"]}).tolist()
        [[1.0, 0.0, 1.0]]
        """
        rows = self.rows_of(data, columns_needed(self.terms))
        X = encode_terms(self.terms, rows, sparse=self.is_sparse)
        check_finite(X, self.groups, self.missing, new=True)
        return self.with_effects(X, rows)

    def rows_of(self, data: Any, needed: Collection[str]) -> Rows:
        """Rows of a table for the interpreter; raise ValueError if it lacks a column."""
        frame = to_pandas(data)
        absent = sorted(set(needed) - set(frame.columns))
        if absent:
            raise ValueError(f"data: {no_column(absent[0], frame.columns)} The formula needs {listed(absent)}.")
        return Rows(frame, self.missing, self.unseen, None if self._session is None else self._session.run)

    def with_effects(self, X: Any, rows: Rows) -> Any:
        """Features (m, ·) of rows, with the columns of the random terms behind them."""
        if not self.random_terms:
            return X
        from scipy.sparse import csr_array, hstack

        more = random_columns(self.random_terms, rows, self._more)
        return csr_array(hstack([X, more])) if self.is_sparse else np.hstack([X, more.toarray()])

    @property
    def levels(self) -> dict[str, tuple[str, tuple[Any, ...]]]:
        """Column, or the text of the factor if it is a function, and levels of each factor, by its text."""
        found: dict[str, tuple[str, tuple[Any, ...]]] = {}
        for factor in (node for node in walk(self.terms) if isinstance(node, Factor)):
            if isinstance(factor.encoding, Levels):
                argument = factor.encoding.argument
                column = argument.name if isinstance(argument, Column) else factor.label
                found[factor.label] = column, factor.encoding.levels
        return found

    @property
    def outside(self) -> str:
        """Python code that the formula has, of which no file knows; empty if there is none."""
        parts = (self.terms, self._offset, tuple(term.slope for term in self.random_terms if term.slope is not None))
        return next((node.text for part in parts for node in walk(part) if isinstance(node, Outside)), "")

    @property
    def encoder(self) -> FormulaEncoder:
        """What encodes other rows, without those it was learnt from."""
        return FormulaEncoder(**{part.name: getattr(self, part.name) for part in fields(FormulaEncoder)})

    @property
    def n_effects(self) -> int:
        """Number of the last columns, which are those of random terms."""
        return sum(len(term.levels) for term in self.random_terms) + len(self._more)

    def new_levels(self, data: Any) -> list[tuple[int, str]]:
        """Levels of random terms that rows have and that the formula has not seen: numbers of terms, and levels."""
        if not self.random_terms:
            return []
        frame = to_pandas(data)
        both = ((number, level) for number, term in enumerate(self.random_terms) for level in term.level_of(frame))
        return [pair for pair in dict.fromkeys(both) if pair[1] not in self.random_terms[pair[0]].levels]

    def with_levels(self, more: Sequence[tuple[int, str]]) -> FormulaEncoder:
        """The same with columns for more levels of random terms, behind all others."""
        names = [f"{self.random_terms[number].name}[{level}]" for number, level in more]
        groups = [self.random_terms[number].name for number, _ in more]
        return replace(
            self.encoder,
            feature_names=[*self.feature_names, *names],
            groups=[*self.groups, *groups],
            _more=[*self._more, *more],
        )

    def offset_of(self, data: Any) -> Float[np.ndarray, " m"] | None:
        """Return the offset of other rows, (m,), from ``data`` as :meth:`transform` takes; None if there is none.

        Examples
        --------
        >>> from bayesdrop import from_formula
        >>> design = from_formula("~ age + offset(np.log(days))", {"age": [20.0, 40.0], "days": [1.0, 2.0]})
        >>> design.offset_of({"days": [1.0]}).tolist()
        [0.0]
        """
        if self._offset is None:
            return None
        rows = self.rows_of(data, columns_needed(self._offset))
        rows.missing = None
        return check_offset_values(numbers_of(self._offset, rows)[:, None], self._offset.label)

    def response_of(self, data: Any) -> Shaped[np.ndarray, "m ..."] | None:
        """Return the responses of other rows; None if the formula has none, or ``data`` lacks a column of it.

        Examples
        --------
        >>> from bayesdrop import from_formula
        >>> design = from_formula("ill['yes'] ~ age", {"age": [20.0, 40.0], "ill": ["no", "yes"]})
        >>> design.response_of({"ill": ["yes", "no", "yes"]}).tolist()
        [True, False, True]
        """
        if self._response is None:
            return None
        frame = to_pandas(data)
        if columns_needed(self._response) - set(frame.columns):
            return None
        if not any(isinstance(factor.encoding, Outside) for factor in self._response):
            y = read_response(self._response, Rows(frame))
        elif self._session is None:
            return None
        else:
            y = response_values(self._session.response, (), frame, dict(self._session.context))
        return y if self._label is None else is_label(y, self._label)

    def to_json(self) -> str:
        """All of this as text, for :meth:`from_json`, but Python code; raise ValueError if it is too large for a file.

        Examples
        --------
        >>> from bayesdrop import from_formula
        >>> design = from_formula("~ center(age) + site", {"age": [20.0, 40.0], "site": ["north", "south"]})
        >>> again = FormulaEncoder.from_json(design.to_json())
        >>> again.transform({"age": [31.0], "site": ["south"]}).tolist()
        [[1.0, 0.0, 1.0]]
        """
        text = json.dumps(
            {
                "version": _VERSION,
                "formula": self.formula,
                "terms": plain(self.terms),
                "offset": plain(self._offset),
                "response": plain(self._response),
                "label": self._label,
                "has_intercept": self.has_intercept,
                "full_rank": self.full_rank,
                "missing": self.missing,
                "unseen": self.unseen,
                "is_sparse": self.is_sparse,
                "columns": self.columns,
                "random": [
                    [term.expression, list(term.columns), list(term.levels), plain(term.slope)]
                    for term in self.random_terms
                ],
                "token": self._token,
            }
        )
        FormulaEncoder._of_text(text)
        if self.outside:
            remember(text, self.encoder)
        return text

    @classmethod
    def from_json(cls, text: str) -> FormulaEncoder:
        """The encoder that :meth:`to_json` wrote; nothing in the text is run.

        Sizes are those of :class:`.language.limits.Limits` at most.

        Raises
        ------
        ValueError
            If it is no such text.
        """
        return recalled(text) or FormulaEncoder._of_text(text)

    @staticmethod
    def _of_text(text: str) -> FormulaEncoder:
        try:
            known = read_json(text)
            if known.get("version") != _VERSION:
                with np.errstate(all="ignore"):
                    known = read_earlier(known)
            terms = tuple(read_node(term) for term in known["terms"])
            check_terms(terms)
            offset, response, label = known["offset"], known["response"], known["label"]
            within(max(len(known["random"]), len(response or ())), "factors")
            random = [read_random_term(part) for part in known["random"]]
            if not (label is None or isinstance(label, str)):
                label = finite(label)
            flags = [known[name] for name in ("has_intercept", "full_rank", "is_sparse")]
            if not all(isinstance(flag, bool) for flag in flags):
                raise ValueError("expected true or false")
            if known["missing"] not in (None, "nan") or known["unseen"] not in ("error", "baseline"):
                raise ValueError("expected what becomes of missing and unseen values")
            facts = read_facts(known["columns"])
            absent = sorted({node.name for node in walk(terms) if isinstance(node, Column)} - set(facts))
            if absent:
                raise ValueError(f"expected facts of the columns {listed(absent)}")
            return FormulaEncoder(
                formula=str(known["formula"]),
                feature_names=[name for term in terms for name in term.columns]
                + [name for term in random for name in term.feature_names],
                groups=[term.name for term in terms for _ in term.columns]
                + [term.name for term in random for _ in term.levels],
                has_intercept=flags[0],
                full_rank=flags[1],
                terms=terms,
                columns=facts,
                missing=known["missing"],
                unseen=known["unseen"],
                is_sparse=flags[2],
                random_terms=random,
                _offset=None if offset is None else read_factor(offset),
                _response=None if response is None else tuple(read_factor(part) for part in response),
                _label=label,
            )
        except (LookupError, TypeError, AttributeError, RecursionError, ArithmeticError) as error:
            raise ValueError(f"this is not a formula as bayesdrop stores it: {error}") from None


@dataclass(frozen=True)
class StoredFormula:
    """A formula as a file or a posterior has it, read when the first table comes.

    Attributes
    ----------
    formula : str
        The formula.
    text : str
        What :meth:`FormulaEncoder.to_json` wrote, or "" where it could not.
    """

    formula: str
    text: str = field(repr=False)

    @cached_property
    def _found(self) -> tuple[FormulaEncoder | None, str]:
        """The formula, if it can be read, and why no other session can encode a table by it."""
        if not self.text:
            return None, "it is larger than a file may hold"
        try:
            found = FormulaEncoder.from_json(self.text)
        except ValueError as error:
            return None, str(error)
        return found, found.outside and f"{found.outside!r} is Python code, which no file holds and none runs"

    @property
    def reason(self) -> str:
        """Why another session cannot encode a table by it; empty if it can."""
        return self._found[1]

    @property
    def encoder(self) -> FormulaEncoder:
        """The formula; raise ValueError if it cannot be read, or has Python code of another session."""
        found, reason = self._found
        if found is None or (reason and found._session is None):
            raise ValueError(
                f"X: the formula {self.formula!r} cannot encode a table here: {reason}. Encode the rows yourself, with "
                "columns of the names of the features, as by design.transform(rows) with design = "
                "bd.from_formula(formula, data) of the rows that were fitted."
            )
        return found

    def transform(self, data: Any) -> Any:
        """As :meth:`FormulaEncoder.transform`."""
        return self.encoder.transform(data)

    def offset_of(self, data: Any) -> Float[np.ndarray, " m"] | None:
        """As :meth:`FormulaEncoder.offset_of`."""
        return self.encoder.offset_of(data)

    def response_of(self, data: Any) -> Shaped[np.ndarray, "m ..."] | None:
        """As :meth:`FormulaEncoder.response_of`."""
        return self.encoder.response_of(data)

    def to_json(self) -> str:
        """The text, as it was stored."""
        return self.text
