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

``ill['yes'] ~ …`` makes a response of truth values, true for that label, which is the positive class then.

A formula may hold Python expressions, which are run: take none from strangers.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._display import Shown
from .._typing import Shaped
from .._validation import check_choice, check_flag, check_instance, extra
from .formula_checks import check_columns, check_finite, is_label, mark_missing, with_label
from .frames import listed, no_column, refuse_kinds, refuse_missing, to_pandas

__all__ = ["FormulaDesign", "from_formula"]


@dataclass(frozen=True, eq=False, repr=False)
class FormulaDesign(Shown):
    """Features, response and groups; made by :func:`from_formula`.

    Attributes
    ----------
    X : scipy.sparse.csr_array or array (n, p)
        Features, float64, without a column for the intercept.
    y : array (n,) or None
        Response: numbers stay numbers; text, categories and truth values are labels. None without a left side.
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
    """

    X: Any
    y: Shaped[np.ndarray, " n"] | None
    feature_names: list[str]
    groups: list[str]
    formula: str
    has_intercept: bool
    spec: Any = field(repr=False)
    _levels: dict[str, tuple[str, list[Any]]] = field(repr=False)
    _context: dict[str, Any] = field(repr=False)
    missing: str | None = None

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

        frame = to_pandas(data)
        absent = sorted({str(name) for name in self.spec.required_variables} - set(frame.columns))
        if absent:
            raise ValueError(f"data: {no_column(absent[0], frame.columns)} The formula needs {listed(absent)}.")
        for expression, (column, levels) in self._levels.items():
            values = frame[column]
            unseen = values[values.notna() & ~values.isin(levels)]
            if len(unseen):
                shown = listed(list(dict.fromkeys(unseen)), 5)
                raise ValueError(
                    f"data: {len(unseen)} of {len(frame)} rows have levels of {column!r} that were not there before: "
                    f"{shown}; known are {listed(levels, 12)}. Leave those rows out, recode them, or name all levels "
                    f"in the first data, as in pandas.Categorical(values, categories=[...])."
                )
            if expression == column:  # formulaic would take a column of numbers for a number
                frame = frame.assign(**{column: pd.Categorical(values, categories=levels)})
        X = _without_intercept(_encode(self.spec, frame, self._context, self.missing), self.spec)
        check_finite(X, self.groups, self.missing, new=True)
        return X if hasattr(self.X, "nnz") else mark_missing(X.toarray(), self.groups, self.spec, self._levels, frame)

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
        functions of formulaic are there, such as ``log``, ``center``, ``scale``, ``bs``, ``poly`` and ``np``.
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
    parsed, label = with_label(formula)
    left, right = _parse(parsed, frame)
    has_intercept = any(term.degree == 0 for term in right)
    y = None if left is None else _response(left, right, frame, context)
    if y is not None and label is not None:
        y = is_label(y, label)
    matrix = _encode(right, frame, context, missing, ensure_full_rank=full_rank)
    spec = matrix.model_spec
    X = _without_intercept(matrix, spec)
    columns = [(str(term), j) for term, indices in spec.term_indices.items() if term.degree for j in indices]
    groups, names = [term for term, _ in columns], [spec.column_names[j] for _, j in columns]
    check_columns(names, spec, frame, full_rank)
    check_finite(X, groups, missing)
    is_sparse = bool(spec.factor_contrasts) and missing is None if sparse is None else sparse
    levels = _levels(spec, frame)
    rows = X if is_sparse else mark_missing(X.toarray(), groups, spec, levels, frame)
    return FormulaDesign(rows, y, names, groups, formula, has_intercept, spec, levels, context, missing)


def _parse(formula: Any, frame: Any) -> tuple[Any, Any]:
    """Left side or None, and right side, as lists of terms."""
    extra("formulaic", "from_formula needs", "formula")
    from formulaic import Formula, SimpleFormula
    from formulaic.errors import FormulaicError

    if not isinstance(formula, str):
        raise TypeError(f"formula: expected text such as 'y ~ a + C(b)', got {type(formula).__name__}.")
    # formulaic itself overlooks a response inside a call with keywords, which would then be among its own predictors.
    response = _words(formula.partition("~")[0]) if "~" in formula else set()
    others = [name for name in frame.columns if name not in response]
    try:
        parsed = Formula(formula, _context={"__formulaic_variables_available__": others})
    except FormulaicError as error:
        # formulaic sets the place off by terminal colours.
        reason = re.sub("\x1b\\[[0-9;]*m|[\u29da\u29db]", "", " ".join(str(error).split()))
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


def _words(text: str) -> set[str]:
    """What may be names of columns in a formula: no texts, no functions that are called, no keywords."""
    text = re.sub("'[^']*'|\"[^\"]*\"", " ", text)
    return {quoted or word for quoted, word in re.findall(r"`([^`]+)`|\b([^\W\d]\w*)\b(?!\s*\(|\s*=(?!=))", text)}


def _response(left: Any, right: Any, frame: Any, context: dict[str, Any]) -> Shaped[np.ndarray, " n"]:
    from pandas.api import types

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
        matrix = _encode(left, frame, context, output="pandas", ensure_full_rank=False)
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


def _encode(
    source: Any,
    frame: Any,
    context: dict[str, Any],
    missing: str | None = None,
    output: str = "sparse",
    **options: Any,
) -> Any:
    """Model matrix of a formula or of what a formula has learnt, in this module's words if it fails."""
    from formulaic.errors import DataMismatchWarning, FactorEvaluationError, FormulaicError

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error", DataMismatchWarning)
        if missing is not None:
            warnings.filterwarnings("ignore", r".*: \{(np\.float64\()?(nan|None|<NA>)\)?\}\.", DataMismatchWarning)
        try:
            na_action = "raise" if missing is None else "ignore"
            return source.get_model_matrix(frame, context=context, output=output, na_action=na_action, **options)
        except FactorEvaluationError as error:
            if isinstance(error.__cause__, NameError):
                name = re.findall(r"[`']([^`']+)[`']", str(error.__cause__))[0]
                raise ValueError(
                    f"formula: {no_column(name, frame.columns)} Functions and values of your own go into "
                    f"context={{{name!r}: ...}}."
                ) from None
            raise ValueError(f"formula: {error}") from error
        except DataMismatchWarning as error:
            raise ValueError(f"data: levels that the formula does not know. {error}") from None
        except (FormulaicError, TypeError) as error:
            raise ValueError(f"data: the formula cannot be worked out on these columns. {error}") from error
        except ValueError as error:
            formula = getattr(source, "formula", source)
            used = {word for term in formula for factor in term.factors for word in _words(f"`{factor.expr}`")}
            used |= {word for term in formula for factor in term.factors for word in _words(factor.expr)}
            refuse_missing([name for name in frame.columns if name in used], frame, ', or take missing="nan"')
            refuse_kinds([name for name in frame.columns if name in used], frame)
            null = re.match("Error encountered while checking for nulls in `(.*?)`: ", str(error))
            if null is None:
                raise ValueError(f"data: the formula cannot be worked out on these columns. {error}") from error
            raise ValueError(
                f"data: {null.group(1)!r} is not a number in some rows, though its columns are complete; leave those "
                "rows out, or take another function."
            ) from None


def _without_intercept(matrix: Any, spec: Any) -> Any:
    from scipy import sparse

    kept = [j for term, indices in spec.term_indices.items() if term.degree for j in indices]
    return sparse.csr_array(matrix.__wrapped__[:, kept], dtype=np.float64)


def _levels(spec: Any, frame: Any) -> dict[str, tuple[str, list[Any]]]:
    """Column and levels of each factor that is a column as it stands, by its expression."""
    found: dict[str, tuple[str, list[Any]]] = {}
    for factor, state in spec.factor_contrasts.items():
        inner = re.fullmatch(r"C\(\s*`?([^`,()]+?)`?\s*(,.*)?\)", factor.expr)
        column = factor.expr if factor.expr in frame else inner.group(1) if inner else None
        if column is not None and column in frame:
            found[factor.expr] = (column, list(state.levels))
    return found
