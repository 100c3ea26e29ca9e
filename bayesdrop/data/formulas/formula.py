"""Encode a data frame by a formula, as features with one group per term: ``bd.from_formula``.

``outcome ~ age + C(site) + age:dose`` names a response and terms (Wilkinson & Rogers 1973); formulaic, the extra
``formula``, reads and encodes them. The columns of one term form one group, so that ``bd.PerGroup(design.groups)``
learns one dropout rate per term.

Two things differ from a formula for least squares, because the weights are penalised:

- Every level of a factor has a 0/1 column. Without a column for a reference level, the penalty would shrink the other
  levels towards it; with all columns it treats the levels equally. ``full_rank=True`` gives reference levels and
  contrasts as in R.
- The intercept is not a column, because models have an intercept, neither penalised nor noised. ``0 +`` or ``- 1``
  means a model without one (automatic in ``bd.fit`` and ``bd.sample`` of a formula; else pass
  ``fit_intercept=design.has_intercept``), and, with ``full_rank=True``, keeps all levels of the first factor.

``ill['yes'] ~ …`` and ``code[2] ~ …`` make a response of truth values: true for that label, the positive class;
``bd.fit`` and ``bd.sample`` name the classes by the label. A term ``offset(np.log(days))`` is a known part of the score
of each row, not a feature.

A formula may contain Python expressions, which are executed: do not use formulas from untrusted sources.
"""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ..._typing import Float, Int, Shaped
from ..._validation import check_choice, check_flag, check_instance, extra, listed
from ..frames import SHOWN, Limits, mostly_zeros, to_pandas
from ..levels import UNSEEN
from .checks import (
    check_columns,
    check_finite,
    check_offset_values,
    classes_of,
    is_label,
    refuse_texts,
    with_doubles,
    with_label,
    with_plain_levels,
    without_offsets,
)
from .dialects import in_python
from .encoder import FormulaEncoder
from .language.encoding import FORMULAIC, columns_of, encode, without_intercept, words
from .language.interpreter import encode_terms, numbers_of
from .language.nodes import columns_needed
from .learning import Learner
from .random_terms import RandomTerm, columns_in, described, learn_terms, without_random_terms
from .response import response_values
from .stored import column_facts

__all__ = ["FormulaDesign", "from_formula"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FormulaDesign(FormulaEncoder):
    """Features, response and groups, the result of :func:`from_formula`.

    It is a :class:`~bayesdrop.data.formulas.encoder.FormulaEncoder` with the rows of the fit.

    Attributes
    ----------
    X : scipy.sparse.csr_array or array (n, p)
        Features, float64, without a column for the intercept.
    y : array (n,), (n, 2) or None
        Response: numbers, or labels for text, categories and truth values; both columns for a left side
        ``successes + failures``; None without a left side.
    offset : array (n,) or None
        Sum of the ``offset(...)`` terms of the formula, for ``bd.fit(..., offset=design.offset)``.
    rows : array of int (n,)
        Positions of the used rows in the data; with ``dropna=True`` those of the complete rows.
    n_rows : int
        Number of rows of the data.

    See Also
    --------
    from_formula, FormulaTransformer

    Examples
    --------
    >>> import bayesdrop as bd
    >>> design = bd.from_formula("y ~ age", {"y": [1.0, 2.0], "age": [30, 40]})
    >>> design.transform({"age": [50]}).tolist()
    [[50.0]]
    """

    X: Any = field(repr=False)
    y: Shaped[np.ndarray, "n ..."] | None
    offset: Float[np.ndarray, " n"] | None = None
    rows: Int[np.ndarray, " n"]
    n_rows: int

    def __str__(self) -> str:
        n, p = self.X.shape
        terms = ", ".join(f"{term} ({count})" for term, count in Counter(self.groups).items())
        kind = f"sparse, {100 * self.X.nnz / (n * p):.2g} % non-zero" if hasattr(self.X, "nnz") else "dense"
        return f"{self.formula}: {n} rows, {p} features, {kind}; terms: {terms}"

    def frame(self, X: Any = None) -> Any:
        """Return features as a pandas data frame, from which estimators take the names.

        Parameters
        ----------
        X : (m, p), optional
            Result of :meth:`transform`; by default the ``X`` of this design.

        Returns
        -------
        pandas.DataFrame (m, p)
            Sparse columns if ``X`` is sparse; the estimators keep them sparse.

        Raises
        ------
        ValueError
            If ``X`` has another number of columns.

        Examples
        --------
        >>> import bayesdrop as bd
        >>> design = from_formula("sold ~ color", {"color": ["red", "blue", "red"], "sold": ["no", "yes", "no"]})
        >>> bd.DropoutSVC(0.1).fit(design.frame(), design.y).feature_names_in_.tolist()
        ['color[blue]', 'color[red]']
        """
        import pandas as pd

        X = self.X if X is None else X
        if np.ndim(X) != 2 or X.shape[1] != len(self.feature_names):
            raise ValueError(
                f"X: expected a matrix with the {len(self.feature_names)} columns of this design, got shape "
                f"{np.shape(X)}; encode new rows by transform(data)."
            )
        if hasattr(X, "nnz"):
            accessor: Any = pd.DataFrame.sparse
            return accessor.from_spmatrix(X, columns=self.feature_names)
        return pd.DataFrame(X, columns=self.feature_names)


def from_formula(
    formula: str,
    data: Any,
    *,
    full_rank: bool = False,
    sparse: bool | None = None,
    context: Mapping[str, Any] | None = None,
    missing: str | None = None,
    unseen: str = "error",
    dropna: bool = False,
) -> FormulaDesign:
    """Encode a data frame by a formula, with one group of features per term.

    Parameters
    ----------
    formula : str
        ``"y ~ a + C(b) + a:c"``, or ``"a + C(b)"`` without a response. Columns of text and categories are factors,
        ``C()`` makes a factor of numbers, ``.`` is all other columns, and `` `two words` `` quotes a name. The
        functions of formulaic are available, such as ``log``, ``center``, ``scale``, ``bs``, ``poly`` and ``np``.
        Anything else is a Python expression, which is executed: do not use formulas from untrusted sources.
    data : pandas or polars data frame, or dict of columns (n, ·)
        Rows; for missing values see ``missing``. Declared levels of a categorical column keep their
        columns even if no row has them, with weight 0 and the prior rate.
    full_rank : bool, default=False
        False: a 0/1 column for every level of each factor, so that the penalty treats all levels equally. True: a
        reference level, or the contrasts that the formula names, as in R, so that the columns are linearly independent.
    sparse : bool, optional
        Whether ``X`` is sparse; by default if fewer than 30 % of the entries are non-zero and ``missing`` is None.
    context : mapping from name to function or value, optional
        Functions and values that the formula may use in addition to columns and the functions of formulaic. Variables
        of the calling code are not looked up, so that a misspelt column is an error.
    missing : None or "nan", optional
        None: missing values in a used column raise an error. ``"nan"``: they are NaN in all columns of their terms, for
        models with ``missing="nan"``; a missing level of a factor in a sparse ``X`` is 0 in all columns of the factor.
        A comparison such as ``age > 50`` of a missing value is missing, as in R, and so is any other expression, except
        inside ``isnan``, ``isna``, ``isnull``, ``notna``, ``notnull``, ``isfinite``, ``fillna``, ``nan_to_num``,
        ``ffill``, ``bfill``, ``interpolate`` and ``combine_first``: about a column named there the expression decides.
        In the response they raise an error. Means, scales and knots are those of the observed values.
    unseen : "error" or "population", default="error"
        How :meth:`FormulaDesign.transform` treats a level that is not in these rows: as an error, or as a row without a
        level of that factor. Values of different types may be the same level: 2, 2.0 and ``"2"``, True and 1, a date
        and its ISO text, a text and the same with blanks around it.
    dropna : bool, default=False
        Omit the rows with a missing value in a column that the formula uses; ``rows`` lists the others.

    Returns
    -------
    FormulaDesign
        Features, response and groups, with a method that encodes new rows.

    Raises
    ------
    ValueError
        If the formula cannot be parsed or has no terms, or the table has unknown columns, missing or infinite values,
        or no rows; the message says which, and what to do.
    TypeError
        If formula or data have another type.
    ImportError
        If formulaic is not installed.

    See Also
    --------
    fit, FormulaTransformer, PerGroup

    Notes
    -----
    Results and their files store a formula as data, none of which is executed: columns by name, levels with their
    contrasts, knots and coefficients, and trees of arithmetic, comparisons and NumPy's functions of one value per row.
    They store ``center``, ``scale``, ``standardize``, ``poly``, ``bs``, ``cr``, ``cs``, ``cc``, ``C``, ``hashed``,
    ``I``, ``Q``, ``np.where`` and ``np.clip``, and need no formulaic to encode rows. Other Python code, such as
    ``age.abs()``, and functions of ``context`` encode rows in this session only; saving a result warns
    (:class:`bayesdrop.FormulaWarning`), and readers of the file encode rows themselves. Such code computes anew from
    each table: ``age - age.mean()`` warns, for ``center(age)`` keeps the mean of the fit.

    A stored formula has at most 16 million characters and a million values of JSON, a million levels and features,
    20 factors in a term, 300 knots, degree 50, functions nested 50 deep, and 50,000 numbers computed for each row.
    A formula stored by another version of bayesdrop raises an error: fit again.

    References
    ----------
    Wilkinson & Rogers (1973), Symbolic description of factorial models for analysis of variance, JRSS C 22.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> data = {"age": [31.0, 45, 52, 28], "site": ["n", "s", "e", "s"], "ill": ["no", "yes", "yes", "no"]}
    >>> design = from_formula("ill ~ age + site", data)
    >>> design.feature_names, design.groups
    (['age', 'site[e]', 'site[n]', 'site[s]'], ['age', 'site', 'site', 'site'])
    >>> model = bd.Model(rates=bd.PerGroup(design.groups))
    >>> bd.fit(model, design.X, design.y, feature_names=design.feature_names).rate_posterior.names
    ['age', 'site']
    """
    design = encode_formula(
        formula,
        data,
        full_rank=full_rank,
        sparse=sparse,
        context=context,
        missing=missing,
        unseen=unseen,
        dropna=dropna,
    )
    if design.random_terms:
        raise ValueError(
            f"formula: {described(design.random_terms)} needs a model in which its effects have no noise and their own "
            "scale, which bd.sample and bd.fit set up if they are given the formula, as in bd.sample(model, formula, "
            "data); here leave it out."
        )
    return design


def encode_formula(
    formula: str,
    data: Any,
    *,
    full_rank: bool = False,
    sparse: bool | None = None,
    context: Mapping[str, Any] | None = None,
    missing: str | None = None,
    unseen: str = "error",
    dropna: bool = False,
    limits: Limits = SHOWN,
) -> FormulaDesign:
    """Encode a data frame as :func:`from_formula` does, with random terms too, whose columns come last."""
    check_flag(full_rank, "full_rank")
    check_flag(sparse, "sparse", none=True)
    check_flag(dropna, "dropna")
    check_choice(missing, "missing", (None, "nan"))
    check_choice(unseen, "unseen", UNSEEN)
    check_instance(context, "context", Mapping, "a mapping from name to function or value", none=True)
    frame, context = to_pandas(data), dict(context or {})
    if not isinstance(formula, str):
        raise TypeError(f"formula: expected text such as 'y ~ a + C(b)', got {type(formula).__name__}.")
    unlabelled, label = with_label(in_python(formula, frame.columns, context))
    without, random = without_random_terms(unlabelled)
    if unseen == "draw" and not random:
        raise ValueError(
            'unseen: "draw" draws the effects of random terms, (1 | site), and the formula has none; take "population" '
            'or "error".'
        )
    parsed, shift = without_offsets(without)
    grouping = columns_in([("1", columns, "") for _, columns, _ in random])
    left, right = _parse(parsed, frame, shift, grouping)
    refuse_texts(frame, left, right)
    response, factors = ([factor for term in side or [] for factor in term.factors] for side in (left, right))
    n_rows, rows = len(frame), np.arange(len(frame))
    if dropna:
        rows = _complete(frame, factors + response, shift, columns_in(random))
        frame = frame.iloc[rows].reset_index(drop=True)
    frame = with_plain_levels(frame, right, grouping)
    y = None if left is None else response_values(left, right, frame, context)
    classes, y = (None, y) if y is None or label is None else (classes_of(y, label), is_label(y, label))
    plain, frame = frame, with_doubles(frame, factors, [shift or "", *(text for text, *_ in random)], response)
    statistics = _statistics(right, frame, context)
    matrix = encode(right, frame, context, missing, ensure_full_rank=full_rank, transform_state=statistics)
    spec = matrix.model_spec
    X = without_intercept(matrix, spec)
    columns = [(str(term), j) for term, indices in spec.term_indices.items() if term.degree for j in indices]
    groups, names = [term for term, _ in columns], [spec.column_names[j] for _, j in columns]
    check_columns(names, spec, frame, full_rank)
    check_finite(X, groups, missing)
    learner = Learner(frame, context, missing, unseen)
    translated = learner.terms(spec, X)
    random_terms: list[RandomTerm] = learn_terms(random, plain, learner.column)
    is_sparse = missing is None and mostly_zeros(X) if sparse is None else sparse
    is_sparse |= len(frame) * sum(len(term.levels) for term in random_terms) > limits.effects
    offset = None if shift is None else learner.column(shift, partial(check_offset_values, expression=shift))
    encoded = FormulaDesign(
        X=encode_terms(translated, learner.rows, sparse=is_sparse),
        y=y,
        offset=None if offset is None else np.array(numbers_of(offset, learner.rows), dtype=np.float64),
        rows=rows,
        n_rows=n_rows,
        formula=formula,
        has_intercept=any(term.degree == 0 for term in right),
        full_rank=full_rank,
        terms=translated,
        columns={},
        missing=missing,
        unseen=unseen,
        is_sparse=is_sparse,
        dropna=dropna,
        random_terms=random_terms,
        _offset=offset,
        _response=learner.response(left),
        _label=label,
        _classes=classes,
        _session=learner.session,
        _token=learner.token,
    )
    parts = (*translated, *filter(None, (offset, *(term.slope for term in random_terms))))
    learner.warn_of_other_rows(parts)
    facts = column_facts(plain, columns_needed(parts), dict(encoded.levels.values()))
    return replace(encoded, X=encoded.with_effects(encoded.X, learner.rows), columns=facts)


def _complete(frame: Any, factors: Any, offset: str | None, more: set[str]) -> Int[np.ndarray, " n"]:
    """Positions of the rows without a missing value in a column that the formula uses."""
    used = {name for factor in factors for name in columns_of(factor, frame.columns)} | words(offset or "") | more
    rows = np.flatnonzero(frame[[name for name in frame.columns if name in used]].notna().all(axis=1).to_numpy())
    if not len(rows):
        raise ValueError("data: every row has a missing value in a column of the formula; dropna=True leaves no row.")
    return rows


def _statistics(right: Any, frame: Any, context: dict[str, Any]) -> dict[str, Any]:
    """Means, scales and knots of the observed values of columns with missing values, by expression."""
    from formulaic.parser.types import Term

    statistics: dict[str, Any] = {}
    for factor in dict.fromkeys(factor for term in right for factor in term.factors):
        used = sorted(columns_of(factor, frame.columns))
        if factor.eval_method.value != "python" or not used or not frame[used].isna().any(axis=None):
            continue
        complete = frame.dropna(subset=used)
        if len(complete):
            alone = type(right)([Term([factor])])
            statistics |= encode(alone, complete, context, ensure_full_rank=False).model_spec.transform_state
    return statistics


def _parse(formula: Any, frame: Any, offset: str | None, groups: set[str]) -> tuple[Any, Any]:
    """Left side or None, and right side, as lists of terms; ``.`` excludes the columns of the offset and of groups."""
    extra("formulaic", "from_formula needs", "formula")
    from formulaic import Formula, SimpleFormula
    from formulaic.errors import FormulaicError

    # formulaic does not see a response inside a call with keywords, so ``.`` would include it as a predictor.
    excluded = words(formula.partition("~")[0]) if "~" in formula else set()
    excluded |= words(offset or "") | groups
    others = [name for name in frame.columns if name not in excluded]
    try:
        with FORMULAIC:
            parsed = Formula(formula, _context={"__formulaic_variables_available__": others})
    except (FormulaicError, SyntaxError) as error:
        # formulaic marks the position by terminal colours.
        reason = re.sub("\x1b\\[[0-9;]*m|[\u29da\u29db]", "", " ".join(str(error).split()))
        if reserved := [name for name in re.findall("`([^`]+)`", formula) if keyword.iskeyword(name)]:
            reason += f" Rename {listed(reserved)}, a word of Python's, which no function takes for a column."
        raise ValueError(
            f"formula: {formula!r} cannot be read. {reason} (Expected such as 'y ~ a + C(b) + a:c'; put names with "
            "spaces in backticks and Python expressions in braces.)"
        ) from None
    if not formula.rpartition("~")[2].strip() or not (groups or list(getattr(parsed, "rhs", parsed))):
        raise ValueError(f"formula: no terms in {formula!r}; name at least one column, '.' for all, or 1 for none.")
    left, right = getattr(parsed, "lhs", None), getattr(parsed, "rhs", parsed)
    if not (isinstance(right, SimpleFormula) and (left is None or isinstance(left, SimpleFormula))):
        raise ValueError(f"formula: expected one right side, got several parts in {formula!r}; write them without '|'.")
    literal = [term for term in right if term.degree and any(f.eval_method.value == "literal" for f in term.factors)]
    if literal:  # formulaic 1.2 drops the number where factors keep all their levels
        scaled = str(literal[0])
        raise ValueError(f"formula: a number scales the term {scaled!r}; write I({scaled.replace(':', ' * ')}).")
    return left, right
