"""What encodes new rows by a formula: the terms, and the levels, means and knots of the rows it was learnt from.

It travels as text (JSON), with fits and posteriors, and holds no rows. formulaic's own specification is rebuilt from it
by encoding made-up rows that have the same columns and levels; the statistics of stateful transforms are then put back.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..._display import Shown
from ..._typing import Float, Shaped
from ..._validation import extra
from ..frames import to_pandas
from .checks import check_finite, is_label, mark_missing, offset_by
from .encoding import columns_of, encode, levels_listed, with_columns, without_intercept
from .random_terms import RandomTerm, random_columns
from .response import response_values
from .stored import is_plain, made_up, packed, plain_values, terms_listed, unpacked

__all__ = ["FormulaEncoder", "StoredFormula"]


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
    spec : formulaic.ModelSpec
        Levels, contrasts and statistics of stateful transforms.
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
    spec: Any = field(repr=False)
    columns: dict[str, dict[str, Any]] = field(repr=False)
    missing: str | None = None
    unseen: str = "error"
    is_sparse: bool = False
    random_terms: Sequence[RandomTerm] = ()
    _more: Sequence[tuple[int, str]] = field(default=(), repr=False)
    _levels: dict[str, tuple[str, list[Any]]] = field(repr=False)
    _context: dict[str, Any] = field(repr=False, default_factory=dict)
    _offset_spec: Any = field(default=None, repr=False)
    _response: Any = field(default=None, repr=False)
    _label: str | float | None = field(default=None, repr=False)

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
        table = with_columns(data, self.spec, self._context)
        frame, strangers = self._known_levels(table)
        allowed = "nan" if strangers else self.missing
        X = without_intercept(encode(self.spec, frame, self._context, allowed), self.spec)
        check_finite(X, self.groups, self.missing, new=True)
        if not self.is_sparse:
            X = mark_missing(X.toarray(), self.groups, self.spec, self._levels, frame, strangers)
        return self.with_effects(X, table)

    def with_effects(self, X: Any, frame: Any) -> Any:
        """Features (m, ·) of the rows of a data frame, with the columns of the random terms behind them."""
        if not self.random_terms:
            return X
        from scipy.sparse import csr_array, hstack

        more = random_columns(self.random_terms, frame, self._context, self._more)
        return csr_array(hstack([X, more])) if self.is_sparse else np.hstack([X, more.toarray()])

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
        found = FormulaEncoder(**{part.name: getattr(self, part.name) for part in fields(FormulaEncoder)})
        return replace(
            found,
            feature_names=[*self.feature_names, *names],
            groups=[*self.groups, *groups],
            _more=[*self._more, *more],
        )

    def _known_levels(self, frame: Any) -> tuple[Any, dict[str, np.ndarray]]:
        """The frame with the levels that were learnt, and by column the rows whose level is none of them."""
        import pandas as pd

        strangers: dict[str, np.ndarray] = {}
        for expression, (column, levels) in self._levels.items():
            values = frame[column]
            unseen = values.notna() & ~values.isin(levels)
            if unseen.any() and self.unseen == "error":
                shown = levels_listed(dict.fromkeys(values[unseen]), 5)
                raise ValueError(
                    f"data: {int(unseen.sum())} of {len(frame)} rows have levels of {column!r} that the formula has "
                    f"not seen: {shown}; known are {levels_listed(levels, 12)}. Leave those rows out, recode them, "
                    "name all levels in the first data, as in pandas.Categorical(values, categories=[...]), or take "
                    'unseen="baseline" with the formula.'
                )
            if unseen.any():
                strangers[column] = unseen.to_numpy()
            if isinstance(values.dtype, pd.CategoricalDtype):  # whatever other levels are declared here
                values = values.astype(object).infer_objects()
            if expression == column or unseen.any():  # formulaic would take a column of numbers for a number
                values = pd.Categorical(values.where(~unseen), categories=levels)
            frame = frame.assign(**{column: values})
        if strangers and self.missing is None:
            gone = [c for c, _ in self._levels.values() if frame[c].isna().sum() > strangers.get(c, np.zeros(1)).sum()]
            if gone:
                raise ValueError(f"data: missing values in {gone[0]!r}; fill them in, or leave those rows out.")
        return frame, strangers

    def offset_of(self, data: Any) -> Float[np.ndarray, " m"] | None:
        """Return the offset of other rows, (m,), from ``data`` as :meth:`transform` takes; None if there is none.

        Examples
        --------
        >>> from bayesdrop import from_formula
        >>> design = from_formula("~ age + offset(np.log(days))", {"age": [20.0, 40.0], "days": [1.0, 2.0]})
        >>> design.offset_of({"days": [1.0]}).tolist()
        [0.0]
        """
        if self._offset_spec is None:
            return None
        return offset_by(self._offset_spec, with_columns(data, self._offset_spec, self._context), self._context)

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
        needed = {name for term in self._response for f in term.factors for name in columns_of(f, self._context)}
        if needed - set(frame.columns):
            return None
        y = response_values(self._response, self.spec.formula, frame, self._context)
        return y if self._label is None else is_label(y, self._label)

    def to_json(self) -> str:
        """All of this as text, for :meth:`from_json`; raise ValueError where the formula takes more than text can say.

        Examples
        --------
        >>> from bayesdrop import from_formula
        >>> design = from_formula("~ center(age) + site", {"age": [20.0, 40.0], "site": ["north", "south"]})
        >>> again = FormulaEncoder.from_json(design.to_json())
        >>> again.transform({"age": [31.0], "site": ["south"]}).tolist()
        [[1.0, 0.0, 1.0]]
        """
        if self._context:
            raise ValueError(f"the formula {self.formula!r} takes functions or values of your own, by context")
        text = json.dumps(
            {
                "formula": self.formula,
                "terms": terms_listed(self.spec.formula),
                "response": None if self._response is None else terms_listed(self._response),
                "label": self._label,
                "full_rank": bool(self.spec.ensure_full_rank),
                "columns": self.columns,
                "state": packed(self.spec.transform_state),
                "offset": None if self._offset_spec is None else terms_listed(self._offset_spec.formula),
                "offset_state": None if self._offset_spec is None else packed(self._offset_spec.transform_state),
                "feature_names": self.feature_names,
                "groups": self.groups,
                "has_intercept": self.has_intercept,
                "missing": self.missing,
                "unseen": self.unseen,
                "is_sparse": self.is_sparse,
                "random": [
                    [term.expression, list(term.columns), list(term.levels), *_stored_slope(term)]
                    for term in self.random_terms
                ],
                "levels": {
                    expression: [column, plain_values(levels)] for expression, (column, levels) in self._levels.items()
                },
            }
        )
        FormulaEncoder.from_json(text, trust=True)
        return text

    @classmethod
    def from_json(cls, text: str, *, trust: bool = False) -> FormulaEncoder:
        """The encoder that :meth:`to_json` wrote.

        Parameters
        ----------
        text : str
            What was written.
        trust : bool
            Run whatever Python expressions it holds. By default those alone that compute with columns, numbers and the
            functions of formulaic and NumPy are run (:func:`is_plain`), so that a stranger's file runs no code.

        Raises
        ------
        ValueError
            If it is no such text, or its expressions are more than that.
        """
        from formulaic import Formula
        from formulaic.parser.types import Factor, Term

        try:
            known = json.loads(text)
            slopes = [terms for *_, terms, _ in known["random"] if terms]
            terms = [*known["terms"], *(known["offset"] or []), *(known["response"] or []), *sum(slopes, [])]
            odd = [expr for term in terms for expr, kind in term if kind == "python" and not is_plain(expr)]
            if odd and not trust:
                raise ValueError(f"it runs Python code beyond arithmetic, {odd[0]!r}")
            frame = made_up(known["columns"], known["levels"])

            def formula_of(listed: Sequence[Any]) -> Any:
                return Formula([Term([Factor(e, eval_method=kind) for e, kind in term]) for term in listed])

            def spec_of(listed: Sequence[Any], state: Any, full_rank: bool) -> Any:
                formula = formula_of(listed)
                # What is made up may be missing for no reason of the formula's, as beyond the knots of a spline.
                matrix = encode(formula, frame, {}, "nan", ensure_full_rank=full_rank, transform_state=state)
                return matrix.model_spec

            spec = spec_of(known["terms"], unpacked(known["state"]), bool(known["full_rank"]))
            offset = known["offset"] and spec_of(known["offset"], unpacked(known["offset_state"]), False)
            random = [
                RandomTerm(expression, columns, levels, terms and spec_of(terms, unpacked(state), False))
                for expression, columns, levels, terms, state in known["random"]
            ]
            names = [spec.column_names[j] for term, places in spec.term_indices.items() if term.degree for j in places]
            names += [name for term in random for name in term.feature_names]
            if names != known["feature_names"]:
                raise ValueError(f"its terms give the features {names[:5]}, expected {known['feature_names'][:5]}")
            return FormulaEncoder(
                formula=str(known["formula"]),
                feature_names=names,
                groups=[str(term) for term in known["groups"]],
                has_intercept=bool(known["has_intercept"]),
                spec=spec,
                columns=known["columns"],
                missing=known["missing"],
                unseen=known["unseen"],
                is_sparse=bool(known["is_sparse"]),
                random_terms=random,
                _levels={expression: (column, levels) for expression, (column, levels) in known["levels"].items()},
                _offset_spec=offset or None,
                _response=known["response"] and formula_of(known["response"]),
                _label=known["label"],
            )
        except (KeyError, TypeError, AttributeError, IndexError, RecursionError, ArithmeticError) as error:
            raise ValueError(f"this is not a formula as bayesdrop stores it: {error}") from None


def _stored_slope(term: RandomTerm) -> tuple[Any, Any]:
    """Factors and statistics of the variable of a random slope, None of an intercept."""
    return (None, None) if term.spec is None else (terms_listed(term.spec.formula), packed(term.spec.transform_state))


@dataclass(frozen=True)
class StoredFormula:
    """A formula as a file or a posterior has it, read when the first table comes.

    Attributes
    ----------
    formula : str
        The formula.
    text : str
        What :meth:`FormulaEncoder.to_json` wrote, or "" where it could not.
    trust : bool
        Whether its Python expressions are run whatever they are.
    """

    formula: str
    text: str = field(repr=False)
    trust: bool = False

    @cached_property
    def encoder(self) -> FormulaEncoder:
        """What it holds; raise ValueError if that cannot be read, or is not to be run."""
        extra("formulaic", f"rows of the formula {self.formula!r} need", "formula")
        advice = (
            "Encode the rows by design.transform(rows), with design = bd.from_formula(formula, data) of the rows that "
            "were fitted"
        )
        if not self.text:
            raise ValueError(
                f"X: {self.formula!r} takes functions of your own, which are not kept with results. {advice}."
            )
        try:
            return FormulaEncoder.from_json(self.text, trust=self.trust)
        except ValueError as error:
            raise ValueError(
                f"X: the formula {self.formula!r} that was stored is not read: {error}. {advice}, or load a fit by "
                "Fit.load(path, trust_formula=True) if you trust whoever wrote it."
            ) from None

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
