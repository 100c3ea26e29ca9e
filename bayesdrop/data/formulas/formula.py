"""From a formula and a data frame to features in groups, one group per term.

``outcome ~ age + C(site) + age:dose`` names a response and terms (Wilkinson & Rogers 1973); formulaic, the extra
``formula``, reads and encodes them. The columns of one term form one group, so that ``bd.PerGroup(design.groups)``
learns one dropout rate per term: the probability that the whole answer is dropped.

Two things differ from a formula for least squares, for the weights here are penalised:

- Every level of a factor has a 0/1 column of its own. Leaving out a reference level would shrink the other levels
  towards that one; with all of them the penalty treats the levels alike. ``full_rank=True`` asks for reference levels
  and contrasts as in R.
- The intercept is no column: the models have one of their own, neither penalised nor noised. ``0 +`` or ``- 1`` asks
  for a model without one (``bd.fit`` and ``bd.sample`` of a formula take it so; else pass
  ``fit_intercept=design.has_intercept``), and, with ``full_rank=True``, lets the first factor keep all its levels.

``ill['yes'] ~ …`` and ``code[2] ~ …`` make a response of truth values, true for that label, the positive class. A term
``offset(np.log(days))`` is a known part of every row's score and no feature.

A formula may hold Python expressions, which are run: take none from strangers.
"""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..._display import Shown
from ..._typing import Float, Shaped
from ..._validation import check_choice, check_flag, check_instance, extra
from ..frames import listed, no_column, refuse_missing, to_pandas
from .checks import (
    check_columns,
    check_finite,
    is_label,
    mark_missing,
    offset_by,
    offset_learnt,
    with_label,
    without_offsets,
)
from .encoding import encode, levels_listed, levels_of, with_columns, with_quotes, without_intercept, words

__all__ = ["FormulaDesign", "from_formula"]


@dataclass(frozen=True, eq=False, repr=False)
class FormulaDesign(Shown):
    """Features, response and groups; made by :func:`from_formula`.

    Attributes
    ----------
    X : scipy.sparse.csr_array or array (n, p)
        Features, float64, without a column for the intercept.
    y : array (n,), (n, 2) or None
        Response: numbers stay numbers; text, categories and truth values are labels. Of a left side
        ``successes + failures`` both columns. None without a left side.
    feature_names : list of p str
        Names of the columns, as formulaic gives them: ``age``, ``C(site)[north]``.
    groups : list of p str
        The term of each column, for ``bd.PerGroup`` and ``bd.Hierarchical``.
    formula : str
        The formula.
    has_intercept : bool
        False if the formula says ``0 +`` or ``- 1``; for ``bd.Model(fit_intercept=design.has_intercept)``.
    spec : formulaic.ModelSpec
        Levels, contrasts and statistics of stateful transforms.
    missing : None or "nan"
        Whether missing values are NaN in ``X``, or refused.
    offset : array (n,) or None
        Sum of the ``offset(...)`` of the formula, for ``bd.fit(..., offset=design.offset)``.
    """

    X: Any
    y: Shaped[np.ndarray, "n ..."] | None
    feature_names: list[str]
    groups: list[str]
    formula: str
    has_intercept: bool
    spec: Any = field(repr=False)
    _levels: dict[str, tuple[str, list[Any]]] = field(repr=False)
    _context: dict[str, Any] = field(repr=False)
    missing: str | None = None
    offset: Float[np.ndarray, " n"] | None = None
    _offset_spec: Any = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"<FormulaDesign: {self}>"

    def __str__(self) -> str:
        n, p = self.X.shape
        terms = ", ".join(f"{term} ({count})" for term, count in Counter(self.groups).items())
        kind = f"sparse, {100 * self.X.nnz / (n * p):.2g} % non-zero" if hasattr(self.X, "nnz") else "dense"
        return f"{self.formula}: {n} rows, {p} features, {kind}; terms: {terms}"

    def transform(self, data: Any) -> Any:
        """Encode other rows with the same levels, contrasts and statistics.

        Parameters
        ----------
        data : data frame or dict of columns (m, ·)
            As :func:`from_formula` takes; the response need not be there.

        Returns
        -------
        scipy.sparse.csr_array or array (m, p)
            Of the kind of ``X``.

        Raises
        ------
        ValueError
            On missing columns, levels that were not there before, infinite or, as ``missing`` has it, missing values,
            or no rows.

        Examples
        --------
        >>> design = from_formula("~ center(age) + site", {"age": [20.0, 40.0], "site": ["north", "south"]})
        >>> design.transform({"age": [31.0], "site": ["south"]}).toarray().tolist()
        [[1.0, 0.0, 1.0]]
        """
        import pandas as pd

        frame = with_columns(data, self.spec, self._context)
        for expression, (column, levels) in self._levels.items():
            values = frame[column]
            unseen = values[values.notna() & ~values.isin(levels)]
            if len(unseen):
                shown = levels_listed(dict.fromkeys(unseen), 5)
                raise ValueError(
                    f"data: {len(unseen)} of {len(frame)} rows have levels of {column!r} that were not there before: "
                    f"{shown}; known are {levels_listed(levels, 12)}. Leave those rows out, recode them, or name all "
                    f"levels in the first data, as in pandas.Categorical(values, categories=[...])."
                )
            if isinstance(values.dtype, pd.CategoricalDtype):  # whatever other levels are declared here
                values = values.astype(object).infer_objects()
                frame = frame.assign(**{column: values})
            if expression == column:  # formulaic would take a column of numbers for a number
                frame = frame.assign(**{column: pd.Categorical(values, categories=levels)})
        X = without_intercept(encode(self.spec, frame, self._context, self.missing), self.spec)
        check_finite(X, self.groups, self.missing, new=True)
        return X if hasattr(self.X, "nnz") else mark_missing(X.toarray(), self.groups, self.spec, self._levels, frame)

    def offset_of(self, data: Any) -> Float[np.ndarray, " m"] | None:
        """Return the offset of other rows, (m,), from ``data`` as :meth:`transform` takes; None if there is none.

        Examples
        --------
        >>> design = from_formula("~ age + offset(np.log(days))", {"age": [20.0, 40.0], "days": [1.0, 2.0]})
        >>> design.offset_of({"days": [1.0]}).tolist()
        [0.0]
        """
        if self._offset_spec is None:
            return None
        return offset_by(self._offset_spec, with_columns(data, self._offset_spec, self._context), self._context)

    def frame(self, X: Any = None) -> Any:
        """Return features as a pandas data frame, which hands its names to the estimators.

        Parameters
        ----------
        X : (m, p), optional
            What :meth:`transform` returned; by default the ``X`` of this design.

        Returns
        -------
        pandas.DataFrame (m, p)
            Sparse columns where ``X`` is sparse; the estimators take them without making them dense.

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
) -> FormulaDesign:
    """Encode a data frame by a formula, with one group of features per term.

    Parameters
    ----------
    formula : str
        ``"y ~ a + C(b) + a:c"``, or ``"a + C(b)"`` without a response. Columns of text and categories are factors,
        ``C()`` makes a factor of numbers, ``.`` stands for all other columns; `` `two words` `` quotes a name. The
        functions of formulaic are there, such as ``log``, ``center``, ``scale``, ``bs``, ``poly`` and ``np``. What is
        no name of a column is a Python expression, which is run: take no formula from strangers.
    data : pandas or polars data frame, or dict of columns (n, ·)
        Rows; for missing values see ``missing``. Declared levels of a categorical column keep their
        columns even where no row has them, with weight 0 and the rate at its prior.
    full_rank : bool
        False: a 0/1 column for every level of each factor, which a penalty treats alike. True: as in R, a reference
        level or the contrasts that the formula names, so that the columns are linearly independent.
    sparse : bool, optional
        Kind of ``X``; by default sparse if there is a factor and ``missing`` is None.
    context : mapping from name to function or value, optional
        What the formula may use beside columns and the functions of formulaic. Variables of the calling code are not
        looked up, so that a misspelt column is an error.
    missing : None or "nan"
        None: missing values in a column that is used are an error. ``"nan"``: they are NaN in all columns of their
        terms, for models with ``missing="nan"``, but in the response; of a factor in sparse rows no level is 1.

    Returns
    -------
    FormulaDesign

    Raises
    ------
    ValueError
        On a formula that cannot be read or has no terms, unknown columns, missing or infinite values, or no rows;
        the message says which and what to do.
    TypeError
        If formula or data are of another type.
    ImportError
        If formulaic is not installed.

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
    check_flag(full_rank, "full_rank")
    check_flag(sparse, "sparse", none=True)
    check_choice(missing, "missing", (None, "nan"))
    check_instance(context, "context", Mapping, "a mapping from name to function or value", none=True)
    frame, context = to_pandas(data), dict(context or {})
    stated, label = with_label(with_quotes(formula, frame.columns))
    parsed, known = without_offsets(stated)
    left, right = _parse(parsed, frame, known)
    has_intercept = any(term.degree == 0 for term in right)
    y = None if left is None else _response(left, right, frame, context)
    if y is not None and label is not None:
        y = is_label(y, label)
    matrix = encode(right, frame, context, missing, ensure_full_rank=full_rank)
    spec = matrix.model_spec
    X = without_intercept(matrix, spec)
    columns = [(str(term), j) for term, indices in spec.term_indices.items() if term.degree for j in indices]
    groups, names = [term for term, _ in columns], [spec.column_names[j] for _, j in columns]
    check_columns(names, spec, frame, full_rank)
    check_finite(X, groups, missing)
    is_sparse = bool(spec.factor_contrasts) and missing is None if sparse is None else sparse
    levels = levels_of(spec, frame)
    rows = X if is_sparse else mark_missing(X.toarray(), groups, spec, levels, frame)
    offset, learnt = (None, None) if known is None else offset_learnt(known, frame, context)
    return FormulaDesign(
        rows, y, names, groups, formula, has_intercept, spec, levels, context, missing, offset, learnt
    )  # fmt: skip


def _parse(formula: Any, frame: Any, offset: str | None = None) -> tuple[Any, Any]:
    """Left side or None, and right side, as lists of terms; ``.`` stands for no column of the offset."""
    extra("formulaic", "from_formula needs", "formula")
    from formulaic import Formula, SimpleFormula
    from formulaic.errors import FormulaicError

    if not isinstance(formula, str):
        raise TypeError(f"formula: expected text such as 'y ~ a + C(b)', got {type(formula).__name__}.")
    # formulaic itself overlooks a response inside a call with keywords, which would then be among its own predictors.
    taken = words(formula.partition("~")[0]) if "~" in formula else set()
    taken |= words(offset or "")
    others = [name for name in frame.columns if name not in taken]
    try:
        parsed = Formula(formula, _context={"__formulaic_variables_available__": others})
    except (FormulaicError, SyntaxError) as error:
        # formulaic sets the place off by terminal colours.
        reason = re.sub("\x1b\\[[0-9;]*m|[\u29da\u29db]", "", " ".join(str(error).split()))
        if reserved := [name for name in re.findall("`([^`]+)`", formula) if keyword.iskeyword(name)]:
            reason += f" Rename {listed(reserved)}, a word of Python's, which no function takes for a column."
        raise ValueError(
            f"formula: {formula!r} cannot be read. {reason} (Expected such as 'y ~ a + C(b) + a:c'; put names with "
            "spaces in backticks and Python expressions in braces.)"
        ) from None
    left, right = getattr(parsed, "lhs", None), getattr(parsed, "rhs", parsed)
    if not (isinstance(right, SimpleFormula) and (left is None or isinstance(left, SimpleFormula))):
        raise ValueError(f"formula: expected one right side, got several parts in {formula!r}; write them without '|'.")
    literal = [term for term in right if term.degree and any(f.eval_method.value == "literal" for f in term.factors)]
    if literal:  # formulaic 1.2 drops the number where factors keep all their levels
        raise ValueError(f"formula: a number scales the term {str(literal[0])!r}; write I(2 * a) for 2:a.")
    if not any(term.degree for term in right):
        raise ValueError(f"formula: no terms in {formula!r}; name at least one column, or '.' for all.")
    return left, right


def _response(left: Any, right: Any, frame: Any, context: dict[str, Any]) -> Shaped[np.ndarray, "n ..."]:
    from pandas.api import types

    if len(left) == 2:
        pair = [_response(type(left)([term]), right, frame, context) for term in left]
        if any(column.dtype.kind not in "iuf" for column in pair):
            raise ValueError(
                f"formula: expected one response on the left side, or two columns of counts, successes + failures, got "
                f"{' + '.join(str(term) for term in left)!r}."
            )
        return np.column_stack(pair)
    factors = [factor for term in left for factor in term.factors]
    name = " + ".join(str(term) for term in left)
    if len(factors) != 1 or factors[0].eval_method.value == "literal":
        raise ValueError(f"formula: expected one response on the left side, got {name!r}.")
    if any(factors[0] in term.factors for term in right):
        raise ValueError(f"formula: the response {name!r} is among the terms; leave it out of the right side.")
    if factors[0].eval_method.value == "lookup":
        if name not in frame:
            raise ValueError(f"formula: {no_column(name, frame.columns)}")
        column = frame[name]
        if column.isna().any():
            refuse_missing([name], frame)
    else:
        encode(
            left, frame, context, ensure_full_rank=False
        )  # which refuses one number for all rows, as pandas does not
        matrix = encode(left, frame, context, output="pandas", ensure_full_rank=False)
        if matrix.shape[1] != 1:
            raise ValueError(
                f"formula: the response {name!r} gives {matrix.shape[1]} columns, expected one; write the column of "
                "labels itself, or one class as {column == 'label'}."
            )
        column = matrix.iloc[:, 0]
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
        y = column.to_numpy()
        if not np.all(np.isfinite(y)):
            raise ValueError(f"data: the response {name!r} has infinite values; replace them or leave those rows out.")
        return y
    kind = types.infer_dtype(column, skipna=True)
    if kind not in {"string", "boolean", "categorical"}:
        raise ValueError(f"data: the response {name!r} holds {kind} values; expected numbers, text or categories.")
    y = np.asarray(column)
    return y.astype(str) if all(isinstance(label, str) for label in y) else np.array(list(y))
