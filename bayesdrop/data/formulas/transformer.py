"""Encode tables by a formula in a scikit-learn pipeline, with levels and statistics of the fitted rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..frames import as_frame
from .formula import FormulaDesign, from_formula

__all__ = ["FormulaTransformer"]


class FormulaTransformer(TransformerMixin, BaseEstimator):
    """Encode a data frame by the terms of a formula.

    Levels of factors, and the statistics of ``center``, ``scale``, ``bs`` and similar functions, are those of the
    fitted rows, so in cross-validation the test folds do not influence them. A level absent from the fitted
    rows raises an error in ``transform``, unless ``unseen="population"`` or all levels are declared by
    ``pandas.Categorical(values, categories=[...])``.

    Parameters
    ----------
    formula : str
        Terms, such as ``"age + C(site)"``; a response before ``~`` is ignored, and the intercept is that of the model.
        It may contain Python expressions, which are executed: do not use formulas from untrusted sources.
    full_rank : bool, default=False
        As in :func:`bayesdrop.from_formula`.
    sparse : bool, optional
        As in :func:`bayesdrop.from_formula`.
    context : mapping from name to function or value, optional
        As in :func:`bayesdrop.from_formula`.
    missing : None or "nan", optional
        As in :func:`bayesdrop.from_formula`.
    unseen : "error" or "population", default="error"
        As in :func:`bayesdrop.from_formula`.

    Attributes
    ----------
    design_ : FormulaDesign
        The encoded rows.
    groups_ : list of p str
        The term of each column, for ``bd.PerGroup``.
    feature_names_in_ : array of str
        Columns of the data frame.
    n_features_in_ : int
        Number of these columns.

    See Also
    --------
    from_formula

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from sklearn.pipeline import make_pipeline
    >>> data = {"age": [31.0, 45, 52, 28], "site": ["n", "s", "e", "s"]}
    >>> model = make_pipeline(FormulaTransformer("scale(age) + site"), bd.DropoutLogisticRegression(0.1))
    >>> model.fit(data, ["no", "yes", "yes", "no"]).predict({"age": [60.0], "site": ["n"]}).tolist()
    ['yes']
    >>> model[0].get_feature_names_out().tolist()
    ['scale(age)', 'site[e]', 'site[n]', 'site[s]']
    """

    def __init__(
        self,
        formula: str,
        *,
        full_rank: bool = False,
        sparse: bool | None = None,
        context: Mapping[str, Any] | None = None,
        missing: str | None = None,
        unseen: str = "error",
    ) -> None:
        self.formula = formula
        self.full_rank = full_rank
        self.sparse = sparse
        self.context = context
        self.missing = missing
        self.unseen = unseen

    def fit(self, X: Any, y: Any = None) -> FormulaTransformer:
        """Learn levels and statistics of the rows of a data frame, (n, ·); ``y`` is ignored."""
        self._learn(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Learn and encode the same rows, (n, ·) to (n, p)."""
        return self._learn(X).X

    def transform(self, X: Any) -> Any:
        """Encode other rows, (m, ·) to (m, p), as :meth:`bayesdrop.FormulaDesign.transform`."""
        check_is_fitted(self, "design_")
        with _of_features():
            return self.design_.transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the features, (p,); ``input_features`` exists for scikit-learn and is ignored."""
        check_is_fitted(self, "design_")
        return np.array(self.design_.feature_names, dtype=object)

    def _learn(self, X: Any) -> FormulaDesign:
        if not isinstance(self.formula, str):
            raise TypeError(f"formula: expected text such as 'a + C(b)', got {type(self.formula).__name__}.")
        terms = self.formula.rpartition("~")[2]
        with _of_features():
            self.design_ = from_formula(
                terms, X, full_rank=self.full_rank, sparse=self.sparse, context=self.context, missing=self.missing,
                unseen=self.unseen,
            )  # fmt: skip
        if self.design_.offset is not None:
            raise ValueError(
                "formula: a step of a pipeline passes on features only, and offset(...) is not a feature, in "
                f"{self.formula!r}; take it out, or fit by bd.fit(model, formula, data)."
            )
        self.groups_ = self.design_.groups
        names = [str(name) for name in as_frame(X, "X").columns]
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)
        return self.design_


@contextmanager
def _of_features() -> Iterator[None]:
    """Replace ``data:`` by ``X:`` in the errors of ``from_formula``."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if not str(error).startswith("data:"):
            raise
        raise type(error)("X" + str(error).removeprefix("data")) from error
