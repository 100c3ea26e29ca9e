"""Learnt rates with a prior: one for all features, per feature or per group; or scaled by a cross-validated strength.

The update is that of Zhuo, Zhu & Zhang (2015, eqs 15, 17 and 22), except that a weight of zero counts half each way,
while (15) as printed gives the rate 0; see :mod:`bayesdrop.fitting.solvers.learning`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from .._validation import (
    check_flag,
    check_folds,
    check_groups,
    check_instance,
    check_number,
    check_numbers,
    group_index,
    shown,
)
from ..priors import Beta, RatePrior
from .base import RateMap
from .fixed import Fixed

__all__ = ["STRENGTHS", "ExpectedDeletion", "PerFeature", "PerGroup", "Shared", "Tuned", "is_tuned"]

STRENGTHS = (1.0, 2 / 3, 1 / 3, 1 / 9, 0.0)


class _Learnt:
    """Base of learnt rates; subclasses have the prior, the start and the weight of the classes as fields."""

    prior: RatePrior
    start: float
    class_ratio: bool | None

    def __post_init__(self) -> None:
        check_instance(self.prior, "prior", RatePrior, "an object such as bd.Beta(1, 1)")
        advice = "a rate is the probability that a feature is dropped"
        check_number(self.start, "start", least=0, below=1, advice=advice)
        check_flag(self.class_ratio, "class_ratio", none=True)

    def _map(self, index: Any, names: Sequence[str], dim: str = "group") -> RateMap:
        start = np.full(len(index), float(self.start))
        return RateMap(index, start, list(names), dim, self.prior, self.class_ratio)


@dataclass(frozen=True)
class PerFeature(_Learnt):
    """One learnt rate per feature.

    Parameters
    ----------
    prior : RatePrior, optional
        Prior of each rate.
    start : float, default=0.5
        Rate to start from; the result does not depend on it.
    class_ratio : bool, optional
        Weigh the negative class by ``n₊/n₋`` in the rate update (Zhuo, Zhu & Zhang 2015, section 4.3). By default
        only in one-vs-rest problems.

    See Also
    --------
    PerGroup, Hierarchical, Tuned

    References
    ----------
    Zhuo, Zhu & Zhang (2015), Adaptive dropout rates for learning with corrupted features, IJCAI, eqs 15, 17.

    Examples
    --------
    >>> PerFeature(Beta(1, 1)).bind(["age", "weight"]).size
    2
    """

    prior: RatePrior = field(default_factory=Beta)
    start: float = 0.5
    class_ratio: bool | None = None

    def bind(self, feature_names: Sequence[str]) -> RateMap:
        """Map onto named columns."""
        return self._map(np.arange(len(feature_names)), feature_names, "feature")


@dataclass(frozen=True)
class Shared(_Learnt):
    """One learnt rate for all features.

    Parameters
    ----------
    prior : RatePrior, optional
        Prior of the rate.
    start : float, default=0.5
        Rate to start from; the result does not depend on it.
    class_ratio : bool, optional
        As in :class:`PerFeature`.

    See Also
    --------
    PerGroup, PerFeature

    Examples
    --------
    >>> Shared(Beta(1, 1)).bind(["age", "weight"]).names
    ['all']
    """

    prior: RatePrior = field(default_factory=Beta)
    start: float = 0.5
    class_ratio: bool | None = None

    def bind(self, feature_names: Sequence[str]) -> RateMap:
        """Map onto named columns."""
        return self._map(np.zeros(len(feature_names), dtype=np.intp), ["all"])


@dataclass(frozen=True)
class PerGroup(_Learnt):
    """One learnt rate per group of features.

    Parameters
    ----------
    groups : sequence of length p, or mapping, optional
        The group of each column in order, or ``{group: [columns]}`` with columns by name or by position. Every column
        belongs to exactly one group. With a formula the default is its terms.
    prior : RatePrior, optional
        Prior of each group's rate.
    start : float, default=0.5
        Rate to start from; the result does not depend on it.
    class_ratio : bool, optional
        As in :class:`PerFeature`.

    See Also
    --------
    PerFeature, Hierarchical, from_formula

    References
    ----------
    Zhuo, Zhu & Zhang (2015), Adaptive dropout rates for learning with corrupted features, IJCAI, eq. 22.

    Examples
    --------
    >>> PerGroup(["body", "body", "blood"]).bind(["age", "weight", "iron"]).names
    ['body', 'blood']
    >>> PerGroup({"body": ["age", "weight"], "blood": ["iron"]}).bind(["age", "weight", "iron"]).index.tolist()
    [0, 0, 1]
    """

    groups: Any = None
    prior: RatePrior = field(default_factory=Beta)
    start: float = 0.5
    class_ratio: bool | None = None

    def __post_init__(self) -> None:
        if self.groups is not None:
            check_groups(self.groups)
        super().__post_init__()

    def bind(self, feature_names: Sequence[str]) -> RateMap:
        """Map onto named columns."""
        return self._map(*group_index(self.groups, feature_names))


@dataclass(frozen=True)
class Tuned:
    """Learnt rates, scaled by one strength that is chosen on held-out rows.

    The rule that learns a rate counts how often the feature contradicts the sign of its weight (Zhuo, Zhu & Zhang 2015,
    eq. 15). In many dense tables this is too much noise, because a weak feature contradicts its weight nearly half of
    the time. The rates are ``s`` times those of the rule, where ``s = 1/(1 + λ)`` for the relative strength ``λ`` of a
    prior about 0 (eq. 17), and ``s`` is the largest candidate whose log loss on held-out rows is within a quarter of a
    standard error of the smallest, by paired differences. For a hinge the error of these rows replaces their log loss;
    see :class:`DropoutSVC`.

    For point fits by the classifiers, whose default it is, and by ``bd.fit``, but not for ``bd.sample``.

    Parameters
    ----------
    structure : PerFeature, Shared or PerGroup, optional
        Which rates are learnt, under a ``bd.Beta`` prior.
    strengths : sequence of float in [0, 1], optional
        Candidates: 1 is the published rule, 0 no noise.
    cv : int, splitter, iterable of (train, test) or "loo", optional
        Folds, as in scikit-learn, except that an int is a number of folds of shuffled rows, the same at every call
        (seed 0) and stratified by class, because tables are often sorted. For rows that belong together pass
        ``fit(..., groups=)``, so that whole groups are held out, or a splitter or pairs, which are used unchanged.
        ``"loo"``: each row is left out alone, approximately and from one fit
        (:mod:`bayesdrop.fitting.objective.leave_one_out`), except the most influential rows, which are left out of
        a fit each. By default ``"loo"`` for tables that are not large, with at least four rows per column, and
        losses with second derivatives, else 5; fits of folds use fewer rows, which favours noise. Integer row weights
        count copies, of which ``"loo"`` leaves out one.
    one_standard_error : bool, default=False
        Use the strongest noise whose loss is within one standard error of the best, instead of a quarter of one.

    See Also
    --------
    Fixed, PerFeature, DropoutLogisticRegressionCV

    References
    ----------
    - Zhuo, Zhu & Zhang (2015), Adaptive dropout rates for learning with corrupted features, IJCAI, eq. 17.
    - Rad & Maleki (2020), A scalable estimate of the out-of-sample prediction error via approximate leave-one-out,
      JRSS B 82.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> fit = bd.fit(bd.Model(rates=Tuned()), X / X.std(axis=0), y)
    >>> fit.selection.chosen.strength in STRENGTHS
    True
    """

    structure: Any = field(default_factory=PerFeature)
    strengths: Sequence[float] = STRENGTHS
    cv: Any = None
    one_standard_error: bool = False

    def __post_init__(self) -> None:
        expected = "a sequence of numbers in [0, 1]"
        values = check_numbers(self.strengths, "strengths", expected, least=0, most=1, advice="1 is the published rule")
        if values.ndim != 1 or len(values) == 0:
            raise ValueError(f"strengths: expected {expected}, got {shown(self.strengths)}; give (1.0, 0.0), say.")
        if self.cv is not None:
            check_folds(self.cv, "loo")
        check_flag(self.one_standard_error, "one_standard_error")
        if not hasattr(getattr(self.structure, "prior", None), "scaled"):
            raise ValueError(
                "structure: expected learnt rates under a bd.Beta prior, as bd.PerFeature() or bd.PerGroup(groups), "
                f"got {shown(self.structure)}; the strength is one of such a prior."
            )

    @property
    def candidates(self) -> list[Any]:
        """Pairs of the structure and each strength, in decreasing order."""
        return [(self.structure, float(s)) for s in np.unique(np.asarray(self.strengths, dtype=float))[::-1]]

    def bind(self, feature_names: Sequence[str]) -> NoReturn:
        """Raise ValueError: there are no rates before the choice is made."""
        raise ValueError(
            "rates: bd.Tuned chooses the strength of the noise by cross-validation of point fits; bd.fit and the "
            "estimators' fit take it. Here give the structure, as bd.PerFeature(), whose posterior weighs all "
            "strengths, or the choice of an earlier fit, selection_.chosen.rates."
        )


@dataclass(frozen=True)
class ExpectedDeletion(Tuned):
    """Fixed rates at which new rows will lose entries, as the only candidate; held-out rows are scored as such rows.

    Parameters
    ----------
    structure : Fixed
        The rates.
    """

    structure: Any = field(default_factory=Fixed)

    def __post_init__(self) -> None:
        pass

    @property
    def candidates(self) -> list[Any]:
        """The rates."""
        return [self.structure]


def is_tuned(rates: Any) -> bool:
    """True if the strength of the rates is yet to be chosen."""
    return isinstance(rates, Tuned)
