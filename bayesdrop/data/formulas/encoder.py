"""Encode new rows by a formula, with the levels, means and knots of the rows of the fit.

The encoder is stored as JSON text with fits and posteriors, without rows, and :mod:`.language.interpreter` computes it
in any process. If a formula contains Python code, the code runs only in the session that made it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..._display import Shown
from ..._typing import Bool, Float, Shaped
from ..._validation import listed
from ..frames import no_column, to_pandas
from .checks import check_finite, check_offset_values, is_label, with_levels_of
from .language.interpreter import Rows, encode_terms, numbers_of
from .language.nodes import Column, Factor, Levels, Outside, Term, columns_needed, walk
from .language.reading import plain
from .learning import Session, recalled, remember
from .random_terms import RandomTerm, level_name, random_columns
from .response import read_response, response_values
from .stored import SETTINGS, VERSION, read_formula_text

__all__ = ["FormulaEncoder", "StoredFormula"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FormulaEncoder(Shown):
    """Encode the columns of a data frame as features by a formula.

    Attributes
    ----------
    formula : str
        The formula.
    has_intercept : bool
        False if the formula says ``0 +`` or ``- 1``; for ``bd.Model(fit_intercept=design.has_intercept)``.
    full_rank : bool
        Whether factors have reference levels or contrasts rather than a column for every level.
    terms : tuple of Term
        Levels, contrasts, knots and means of each term, in the language of :mod:`.language.nodes`.
    columns : dict
        For each column of the formula ``levels`` and ``mode``, or ``low``, ``high``, ``mean`` and ``whole`` of numbers.
    missing : None or "nan"
        "nan": missing values are NaN among the features. None: they raise an error.
    unseen : "error", "population" or "draw"
        Treatment of a level absent from the fit: an error, a row without a level of its factor, or, in a random term,
        an effect drawn from the scale of the term.
    is_sparse : bool
        Whether features are a sparse matrix rather than an array.
    dropna : bool
        Whether rows with a missing value are left out of the fit and of new tables.
    random_terms : sequence of RandomTerm
        Terms such as ``(1 | site)``, whose columns come last.
    """

    formula: str
    has_intercept: bool
    full_rank: bool = field(repr=False, default=False)
    terms: tuple[Term, ...] = field(repr=False)
    columns: dict[str, dict[str, Any]] = field(repr=False)
    missing: str | None = None
    unseen: str = "error"
    is_sparse: bool = False
    dropna: bool = False
    random_terms: Sequence[RandomTerm] = ()
    # New levels of random terms: number of the term, and level.
    _more: Sequence[tuple[int, tuple[Any, ...]]] = field(default=(), repr=False)
    _offset: Factor | None = field(default=None, repr=False)
    _response: tuple[Factor, ...] | None = field(default=None, repr=False)
    _label: str | float | None = field(default=None, repr=False)
    _classes: tuple[Any, Any] | None = field(default=None, repr=False)
    # Python code runs in this process only; the token identifies the texts that this process wrote.
    _session: Session | None = field(default=None, repr=False)
    _token: str = field(default="", repr=False)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"

    def __str__(self) -> str:
        return f"{self.formula}: {len(self.feature_names)} features"

    @cached_property
    def feature_names(self) -> list[str]:
        """Names of the p columns, as formulaic gives them: ``age``, ``C(site)[north]``."""
        return [name for name, _ in self._columns()]

    @cached_property
    def groups(self) -> list[str]:
        """The term of each of the p columns, for ``bd.PerGroup`` and ``bd.Hierarchical``."""
        return [term for _, term in self._columns()]

    def _columns(self) -> list[tuple[str, str]]:
        """Name and term of each column."""
        pairs = [(name, term.name) for term in self.terms for name in term.columns]
        pairs += [(name, term.name) for term in self.random_terms for name in term.feature_names]
        more = ((self.random_terms[number].name, level) for number, level in self._more)
        return pairs + [(f"{name}[{level_name(level)}]", name) for name, level in more]

    def transform(self, data: Any) -> Any:
        """Encode other rows with the same levels, contrasts and statistics.

        Parameters
        ----------
        data : data frame or dict of columns (m, ·)
            As in :func:`from_formula`; the response may be absent.

        Returns
        -------
        scipy.sparse.csr_array or array (m, p)
            Features, sparse or dense like those of the fit.

        Raises
        ------
        ValueError
            On missing columns, infinite values, or no rows; on unseen levels and missing values, unless ``unseen`` and
            ``missing`` allow them.

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
        frame = with_levels_of(frame, dict(self.levels.values()))
        return Rows(frame, self.missing, self.unseen, None if self._session is None else self._session.run)

    def takes_only(self, names: Sequence[str]) -> bool:
        """Whether the terms need exactly these columns."""
        return columns_needed(self.terms) == set(names)

    def complete_rows(self, data: Any, *, with_response: bool) -> Bool[np.ndarray, " m"] | None:
        """Whether each row of a table has all values that the formula needs; None if all do, or ``dropna`` is False.

        Raises
        ------
        ValueError
            If no row is complete.
        """
        if not self.dropna:
            return None
        frame = to_pandas(data)
        slopes = (term.slope for term in self.random_terms if term.slope is not None)
        needed = columns_needed((*self.terms, *filter(None, (self._offset, *slopes))))
        needed |= {column for term in self.random_terms for column in term.columns}
        needed |= columns_needed(self._response) if with_response and self._response is not None else set()
        complete = np.asarray(frame[[name for name in frame.columns if name in needed]].notna().all(axis=1))
        if not complete.any():
            raise ValueError("data: every row has a missing value in a column of the formula; give rows that have all.")
        return None if complete.all() else complete

    def with_effects(self, X: Any, rows: Rows) -> Any:
        """Append the columns of the random terms to the features (m, ·) of rows."""
        if not self.random_terms:
            return X
        from scipy.sparse import csr_array, hstack

        more = random_columns(self.random_terms, rows, self._more)
        return csr_array(hstack([X, more])) if self.is_sparse else np.hstack([X, more.toarray()])

    @property
    def levels(self) -> dict[str, tuple[str, tuple[Any, ...]]]:
        """By the text of each factor, its column (the text again for an expression) and its levels."""
        levels: dict[str, tuple[str, tuple[Any, ...]]] = {}
        for factor in (node for node in walk(self.terms) if isinstance(node, Factor)):
            if isinstance(factor.encoding, Levels):
                argument = factor.encoding.argument
                column = argument.name if isinstance(argument, Column) else factor.label
                levels[factor.label] = column, factor.encoding.levels
        return levels

    @property
    def outside(self) -> str:
        """First Python code in the formula, which no file stores; empty if there is none."""
        parts = (self.terms, self._offset, tuple(term.slope for term in self.random_terms if term.slope is not None))
        return next((node.text for part in parts for node in walk(part) if isinstance(node, Outside)), "")

    @property
    def encoder(self) -> FormulaEncoder:
        """Encoder of other rows, without the rows of the fit."""
        return FormulaEncoder(**{part.name: getattr(self, part.name) for part in fields(FormulaEncoder)})

    @property
    def n_effects(self) -> int:
        """Number of columns of random terms, the last ones."""
        return sum(len(term.levels) for term in self.random_terms) + len(self._more)

    def new_levels(self, data: Any) -> list[tuple[int, tuple[Any, ...]]]:
        """Unseen levels of random terms in the rows, as pairs of the term's number and the level."""
        if not self.random_terms:
            return []
        frame = to_pandas(data)
        both = ((number, level) for number, term in enumerate(self.random_terms) for level in term.levels_in(frame))
        return [pair for pair in dict.fromkeys(both) if pair[1] not in self.random_terms[pair[0]].levels]

    def with_levels(self, more: Sequence[tuple[int, tuple[Any, ...]]]) -> FormulaEncoder:
        """Return the encoder with columns for more levels of random terms, after all others."""
        return replace(self.encoder, _more=[*self._more, *more])

    def offset_of(self, data: Any) -> Float[np.ndarray, " m"] | None:
        """Return the offset (m,) of other rows, ``data`` as in :meth:`transform`; None if the formula has no offset.

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
        ['yes', 'no', 'yes']
        """
        if self._response is None:
            return None
        frame = to_pandas(data)
        if columns_needed(self._response) - set(frame.columns):
            return None
        frame = with_levels_of(frame, dict(self.levels.values()))
        if not any(isinstance(factor.encoding, Outside) for factor in self._response):
            y = read_response(self._response, Rows(frame))
        elif self._session is None:
            return None
        else:
            y = response_values(self._session.response, (), frame, dict(self._session.context))
        return y if self._label is None else np.array(self._classes)[is_label(y, self._label).astype(int)]

    @property
    def classes(self) -> Shaped[np.ndarray, " 2"] | None:
        """The other label and ``label``, for a response ``response[label]``; None for other responses."""
        return None if self._classes is None else np.array(self._classes)

    def to_json(self) -> str:
        """Encoder as text for :meth:`from_json`, without Python code; raise ValueError if it is too large for a file.

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
                "version": VERSION,
                "formula": self.formula,
                "terms": plain(self.terms),
                "offset": plain(self._offset),
                "response": plain(self._response),
                "label": self._label,
                "classes": None if self._classes is None else list(self._classes),
                **{name: getattr(self, name) for name in (*SETTINGS, "columns")},
                "random": [
                    [term.expression, list(term.columns), list(map(list, term.levels)), plain(term.slope), term.block]
                    for term in self.random_terms
                ],
                "token": self._token,
            }
        )
        FormulaEncoder(**read_formula_text(text))
        if self.outside:
            remember(text, self.encoder)
        return text

    @classmethod
    def from_json(cls, text: str) -> FormulaEncoder:
        """The encoder that :meth:`to_json` wrote; nothing in the text is run.

        :class:`.language.limits.Limits` has the maximum sizes.

        Raises
        ------
        ValueError
            If the text is not from :meth:`to_json`.
        """
        return recalled(text) or FormulaEncoder(**read_formula_text(text))


@dataclass(frozen=True)
class StoredFormula:
    """Formula of a file or a posterior, read when the first table is encoded.

    Attributes
    ----------
    formula : str
        The formula.
    text : str
        Text from :meth:`FormulaEncoder.to_json`, or "" if the formula was too large.
    """

    formula: str
    text: str = field(repr=False)

    @cached_property
    def _found(self) -> tuple[FormulaEncoder | None, str]:
        """The encoder, or None if the text cannot be read, and why another session cannot use it, or ""."""
        if not self.text:
            return None, "it is larger than a file may hold"
        try:
            encoder = FormulaEncoder.from_json(self.text)
        except ValueError as error:
            return None, str(error)
        return encoder, encoder.outside and f"{encoder.outside!r} is Python code, which no file holds and none runs"

    @property
    def reason(self) -> str:
        """Why another session cannot encode a table with the formula; empty if it can."""
        return self._found[1]

    @property
    def encoder(self) -> FormulaEncoder:
        """The encoder; raise ValueError if it cannot be read, or has Python code of another session."""
        encoder, reason = self._found
        if encoder is None or (reason and encoder._session is None):
            raise ValueError(
                f"X: the formula {self.formula!r} cannot encode a table here: {reason}. Encode the rows yourself, with "
                "columns of the names of the features, as by design.transform(rows) with design = "
                "bd.from_formula(formula, data) of the rows that were fitted."
            )
        return encoder

    def takes_only(self, names: Sequence[str]) -> bool:
        """Whether the terms need exactly these columns; False if the formula cannot be read."""
        with suppress(ValueError):
            return self.encoder.takes_only(names)
        return False

    def to_json(self) -> str:
        """Stored text."""
        return self.text
