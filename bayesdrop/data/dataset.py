"""Validate data for fits and samplers: a design, targets (signs, class indices or numbers), row weights and names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from .._typing import Float, Int, PerRow, Shaped
from .._validation import check_matrix, check_names, check_numbers
from ..designs import Design, as_design, as_local_design, checking, column_names
from ..designs.rows import check_sample_weight
from ..losses import Loss
from .column_facts import ColumnFacts, RowEncoder
from .frames import SHOWN
from .responses import check_responses, class_factors, read_pairs, refuse_response, single_trials, weigh_classes

__all__ = ["Dataset", "as_dataset", "check_classes", "check_offset", "default_names", "read_rows"]

_LARGEST_OFFSET = 1e100
_ROW_FIELDS = ("target", "weight", "offset", "sample_weight", "counts")


@dataclass(frozen=True)
class Dataset:
    """Data of two classes, of more classes, or of a regression.

    Attributes
    ----------
    design : Design (n, p)
        Features, finite, with missing ones as 0. The other fields are stored with its rows: in memory, on the cluster,
        or with the rows of this process.
    target : array (n,)
        Labels as −1 and +1, or 0 to K − 1 for many classes, or numbers; for pairs of counts the share of successes.
    weight : array (n,)
        Row weights, >= 0; for pairs of counts times the trials.
    feature_names : list of str
        Names of the columns, ``x0, x1, …`` if the input has none.
    classes : array (K,) or None
        The user's labels, the negative class first if there are two; None in a regression.
    offset : array (n,) or None
        Known part of every row's score.
    facts : ColumnFacts
        Facts of the columns, by which new rows are read.
    class_weight : array (K,) or None
        Weights of the classes, included in ``weight``; None if there are none.
    sample_weight : array (n,) or None
        ``weight`` without class weights and trials; None if there are neither.
    counts : array (n, 2) or None
        Successes and failures of each row, if ``y`` has both.
    """

    design: Design
    target: PerRow
    weight: PerRow
    feature_names: list[str]
    classes: Shaped[np.ndarray, " K"] | None
    offset: Float[np.ndarray, " n"] | None = None
    facts: ColumnFacts = field(default_factory=ColumnFacts)
    class_weight: Float[np.ndarray, " K"] | None = None
    sample_weight: PerRow | None = None
    counts: Float[np.ndarray, "n 2"] | None = None

    @property
    def X(self) -> Any:
        """Features in memory, array (n, p) or compressed rows."""
        return self.design.matrix()

    @property
    def weight_of_classes(self) -> dict[Any, float] | None:
        """Weight of each label; None if there are none."""
        if self.class_weight is None or self.classes is None:
            return None
        return dict(zip(self.classes.tolist(), self.class_weight.tolist(), strict=True))

    def with_weight(self) -> Dataset:
        """Drop the rows of weight zero, unless their design cannot drop rows."""
        names = [name for name in _ROW_FIELDS if name != "weight" and getattr(self, name) is not None]
        design, weight, *vectors = self.design.drop_zero_weight(self.weight, *(getattr(self, name) for name in names))
        return replace(self, design=design, weight=weight, **dict(zip(names, vectors, strict=True)))

    def with_pairs(self) -> Dataset:
        """Return rows as a posterior stores them: pairs of counts (n, 2) as the target, weights without the trials."""
        if self.counts is None or self.sample_weight is None:
            return self
        return replace(self, target=self.counts, weight=self.sample_weight)

    def with_single_trials(self) -> Dataset:
        """Split pairs of counts into trials with their own masks: two weighted rows per row.

        Raises
        ------
        ValueError
            If the rows are not in memory.
        """
        if self.counts is None or self.sample_weight is None:
            return self
        if self.design.is_streamed:
            raise ValueError(
                "y: successes and failures of rows that are not in memory are not sampled with masks, which each trial "
                'has to itself; take target="marginalised" and fixed rates, or an array or a scipy sparse matrix.'
            )
        design, target, weight, offset = single_trials(self.design, self.counts, self.sample_weight, self.offset)
        return replace(
            self, design=design, target=target, weight=weight, offset=offset, sample_weight=None, counts=None
        )

    def with_offset(self, offset: Any, multiclass: bool = False) -> Dataset:
        """Add an offset to the scores, numbers (n,) or one number for all rows; None for no offset.

        Raises
        ------
        ValueError
            If the offset is something else, each row has a score per class, or the rows are on a cluster.
        """
        if offset is None:
            return self
        if multiclass:
            raise ValueError(
                "offset: expected a model of one score a row, got one with a score for each class; leave the offset "
                "out, or fit one class against the rest: bd.Logistic() and y == one_class."
            )
        is_local = isinstance(self.design.zeros(1), np.ndarray) and len(self.weight) == self.design.shape[0]
        if not is_local:
            raise ValueError(
                "offset: expected rows that this process holds, or bd.Blocks, got rows on a cluster; pass an array "
                "or a scipy sparse matrix."
            )
        return replace(self, offset=check_offset(offset, self.design.shape[0]))

    def checked(self, loss: Loss, *, fit_intercept: bool) -> Dataset:
        """Drop rows of weight zero; raise ValueError unless the loss accepts the responses of the others."""
        data = self.with_weight()
        whole = data.counts is None
        check_responses(loss, data.design, data.target, fit_intercept=fit_intercept, whole=whole)
        return data

    def of_formula(self, formula: RowEncoder) -> Dataset:
        """Record the formula that made the features, so that results accept tables of its columns.

        The classes are those that the formula names, if any.
        """
        named = formula.encoder.classes
        classes = self.classes if named is None else named
        return replace(self, facts=replace(self.facts, formula=formula), classes=classes)

    def some(self, rows: Int[np.ndarray, " m"]) -> Dataset:
        """Return some rows, by their numbers, in memory and in the order of the data."""
        from scipy.sparse import issparse, vstack

        keep = np.zeros(self.design.shape[0], dtype=bool)
        keep[rows] = True
        names = [name for name in _ROW_FIELDS if getattr(self, name) is not None]
        parts = self.design.each_block(_kept, keep, *(getattr(self, name) for name in names))
        matrices = [matrix for matrix, *_ in parts if matrix.shape[0]]
        whole = vstack(matrices, format="csr") if any(map(issparse, matrices)) else np.concatenate(matrices)
        vectors = (np.concatenate([part[k] for part in parts]) for k in range(1, len(parts[0])))
        fields_of_rows: dict[str, Any] = dict(zip(names, vectors, strict=True))
        return replace(self, design=as_design(whole), **fields_of_rows)

    def occurrences(self, index: Int[np.ndarray, " p"], size: int) -> Float[np.ndarray, " size"]:
        """Weighted number of non-zero entries behind each of ``size`` rates, (size,); ``index`` (p,) maps features."""
        return np.bincount(index, weights=self.design.occurrences(self.weight), minlength=size)[:size]


def _kept(matrix: Any, keep: PerRow, *rows: PerRow) -> tuple[Any, ...]:
    return matrix[keep], *(part[keep] for part in rows)


def check_offset(offset: Any, n: int) -> Float[np.ndarray, " n"]:
    """Offsets of ``n`` rows, from as many numbers or one.

    Raises
    ------
    ValueError
        If the offset is something else, not finite, or so large that its square is not.

    Examples
    --------
    >>> check_offset(0.5, 2).tolist()
    [0.5, 0.5]
    >>> check_offset([-np.inf, 0.0], 2)
    Traceback (most recent call last):
    ValueError: offset: expected finite numbers, got 1 of 2 NaN or infinite; an exposure of 0 has the logarithm -inf,
    and its row, whose count is 0, carries no information: leave it out.
    """
    values = check_numbers(offset, "offset", f"{n} numbers (one per row), or one for all rows")
    values = np.full(n, float(values)) if values.ndim == 0 else values
    if values.shape != (n,):
        raise ValueError(f"offset: expected {n} numbers (one per row), or one for all rows, got shape {values.shape}.")
    wrong = int(np.sum(~np.isfinite(values)))
    if wrong:
        raise ValueError(
            f"offset: expected finite numbers, got {wrong} of {n} NaN or infinite; an exposure of 0 has the logarithm "
            "-inf, and its row, whose count is 0, carries no information: leave it out."
        )
    size = float(np.max(np.abs(values), initial=0.0))
    if size > _LARGEST_OFFSET:
        raise ValueError(
            f"offset: expected numbers in [{-_LARGEST_OFFSET:g}, {_LARGEST_OFFSET:g}], whose squares double precision "
            f"holds, got one of size {size:g}; give what is added to a score, such as the logarithm of an exposure."
        )
    return values


def default_names(count: int) -> list[str]:
    """Default names of columns.

    Examples
    --------
    >>> default_names(2)
    ['x0', 'x1']
    """
    return [f"x{d}" for d in range(count)]


def as_dataset(
    X: Any,
    y: Any,
    sample_weight: Any = None,
    feature_names: Sequence[str] | None = None,
    binary: bool = True,
    wrap: Callable[..., Design] = as_local_design,
    multiclass: bool = False,
    missing: str | None = None,
    class_weight: Any = None,
) -> Dataset:
    """Check a two-class problem and code its labels as signs, or a regression if not ``binary``.

    With ``multiclass`` the labels of two classes or more are coded by their numbers; with ``missing="nan"`` NaN among
    the features is a missing entry. Row weights are multiplied by those of their classes (:func:`.class_factors`).

    ``wrap`` makes a design of the features, and raises for features that the caller cannot use:
    :func:`.as_local_design` for callers that need arrays, :func:`.as_sampling_design` for samplers, :func:`.as_design`
    for callers that use products only.

    Raises
    ------
    ValueError
        On NaN, infinite, complex or text features, no rows or columns, other than two classes (of many: fewer, one
        for every row, or one without rows of some weight), or weights and names that do not fit, such as weights of
        classes where there are none.
    TypeError
        If features must be in memory and are not.

    Examples
    --------
    >>> as_dataset([[0.0], [1.0]], ["no", "yes"]).target.tolist()
    [-1.0, 1.0]
    """
    # A formula without features, y ~ 1, has an empty list of names.
    min_features = 0 if isinstance(feature_names, Sequence) and not feature_names else 1
    design = wrap(X, checking(partial(check_matrix, ensure_min_features=min_features), missing))
    p = design.shape[1]
    passed_names = column_names(X) if feature_names is None else feature_names
    names = default_names(p) if passed_names is None else check_names(passed_names, p)
    facts = ColumnFacts(passed_names is not None, design.zero_based)
    if not (binary or multiclass):
        if class_weight is not None:
            raise ValueError(
                "class_weight: y holds numbers, which have no classes; leave it out, and weigh rows by sample_weight."
            )
        target = design.targets(y)
        refuse_response(design, target, passed_names, y)
        return Dataset(design, target, design.row_weights(sample_weight), names, None, facts=facts)
    classes, code, weight = check_classes(design, y, sample_weight)
    K, n = len(classes), design.shape[0]
    if K > 2 and not multiclass:
        raise ValueError(
            f"y: expected two classes, got {K} ({classes[: SHOWN.few].tolist()} …); take loss=bd.Softmax(), which fits "
            "and samples all of them jointly, DropoutSVC or DropoutLogisticRegression, which solve one against the "
            "rest, or y == one_class."
        )
    if K > 2 and K >= n:
        raise ValueError(
            f"y: expected classes of several rows each, got {K} in {n} rows; if y holds numbers, use a loss of "
            "regression such as bd.Squared()."
        )
    refuse_response(design, code, passed_names, y, classes)
    target = code if multiclass else np.where(code == 1, 1.0, -1.0)
    data = Dataset(design, target, weight, names, classes, facts=facts)
    factor = class_factors(class_weight, classes, code, weight, design)
    if factor is None:
        return data
    return replace(data, weight=weigh_classes(factor, code, weight), class_weight=factor, sample_weight=weight)


def read_rows(
    loss: Loss,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    feature_names: Sequence[str] | None = None,
    *,
    wrap: Callable[..., Design] = as_local_design,
    missing: str | None = None,
    class_weight: Any = None,
    offset: Any = None,
) -> Dataset:
    """Check rows for a model with a loss, for fits and samplers, with responses of any form.

    The other arguments are those of :func:`as_dataset`, and ``offset`` is the known part of the scores.

    Raises
    ------
    TypeError, ValueError
        As :func:`as_dataset`.

    Examples
    --------
    >>> from bayesdrop.losses import Binomial
    >>> data = read_rows(Binomial(), [[0.0], [1.0]], [[1, 3], [0, 2]])
    >>> data.target.tolist(), data.weight.tolist()
    ([0.25, 0.0], [4.0, 2.0])
    """
    counts = read_pairs(loss, y)
    if counts is not None:
        trials = counts.sum(axis=1)
        sample_weight = check_sample_weight(sample_weight, len(counts), all_zero=True)
        y, total = counts[:, 0] / np.maximum(trials, 1), sample_weight * trials
    data = as_dataset(
        X, y, sample_weight if counts is None else total, feature_names, loss.binary, wrap, loss.multiclass, missing,
        class_weight,
    ).with_offset(offset, loss.multiclass)  # fmt: skip
    return data if counts is None else replace(data, counts=counts, sample_weight=sample_weight)


def check_classes(design: Design, y: Any, sample_weight: Any) -> tuple[Shaped[np.ndarray, " K"], PerRow, PerRow]:
    """Classes of labels, the number of each row's class, and row weights.

    Raises
    ------
    ValueError
        If there are fewer than two classes, or none of the rows of one has weight.

    Examples
    --------
    >>> classes, code, weight = check_classes(as_design(np.ones((2, 1))), ["yes", "no"], None)
    >>> classes.tolist(), code.tolist(), weight.tolist()
    (['no', 'yes'], [1, 0], [1.0, 1.0])
    """
    classes, code = design.codes(y)
    weight = design.row_weights(sample_weight)
    if len(classes) < 2:
        raise ValueError(f"y: expected at least two classes, got {classes.tolist()}; none is learnt from one class.")
    totals = design.class_totals(code, weight, len(classes))
    if np.any(totals == 0):
        raise ValueError(
            f"sample_weight: every row of class {classes[np.argmin(totals)]} has weight zero; leave the class out or "
            "give a row some weight."
        )
    return classes, code, weight
