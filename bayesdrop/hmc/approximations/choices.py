"""Choose the normal approximation of a gradient sampler, and its kernel: the first row of a table that applies.

Shapes: ``n`` rows, ``p`` features, ``K`` classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...data.dataset import Dataset
from ...fitting.solvers.choices import Choice
from ...losses.protocols import Curved
from ...model import Model
from ...rates import RateMap

__all__ = ["CHOICES", "Case", "Limits", "case_of", "choose", "without_noise"]


@dataclass(frozen=True)
class Limits:
    """Maximum sizes for which an approximation is used.

    Attributes
    ----------
    dense : int
        Maximum number of weights and intercepts for a covariance matrix.
    rows, rows_per_feature : int, float
        Maximum number of rows of a factor by rows, in all and per feature: its three n × n matrices stay below a
        gigabyte, and it takes about 10 n³ operations.
    eigenvectors : int
        Maximum side of the matrix whose eigenvectors classes share; they take half a minute at this size.
    """

    dense: int = 1500
    rows: int = 6000
    rows_per_feature: float = 1.4
    eigenvectors: int = 4000


class Case(NamedTuple):
    """Properties of a model and its data that a choice depends on.

    Attributes
    ----------
    n, p, n_classes : int
        Numbers of rows, features, and classes with a score each; 1 for a single score.
    local, streamed : bool
        Whether the rows are in memory; whether they are read when needed or are on a cluster.
    noisy, shift : bool
        Whether there is noise; whether it shifts mean scores independently of the features.
    free : bool
        Whether rates are free.
    curved : bool
        Whether the loss has derivatives and the weight prior is normal, for the approximation of a single score.
    learnt : bool
        Whether scales of the weights are learnt.
    level : bool
        Whether the intercept has a prior.
    parameter : bool
        Whether a scale or shape of the likelihood is learnt, a coordinate that approximations by scores lack.
    """

    n: int
    p: int
    n_classes: int
    local: bool
    streamed: bool
    noisy: bool
    shift: bool
    free: bool
    curved: bool
    learnt: bool
    level: bool = False
    parameter: bool = False

    @property
    def coordinates(self) -> int:
        """Number of weights and intercepts, counting an intercept per score."""
        return max(self.n_classes - 1, 1) * (self.p + 1)

    def has_many_scaled(self, limits: Limits) -> bool:
        """Whether scales are learnt for more coordinates than a dense matrix allows, with the rows in memory."""
        return self.learnt and not self.streamed and self.coordinates > limits.dense


def _single(case: Case, limits: Limits) -> bool:
    many = case.coordinates > limits.dense and not case.parameter
    return many and case.n_classes == 1 and case.local and case.curved and not (case.shift or case.learnt)


def _few_rows(case: Case, limits: Limits) -> bool:
    return _single(case, limits) and case.n <= min(limits.rows, limits.rows_per_feature * case.p)


def _scores(case: Case, limits: Limits) -> bool:
    return _few_rows(case, limits) and not (case.noisy or case.level)


def _eigenvectors(case: Case, limits: Limits) -> bool:
    if case.n_classes == 1 or case.coordinates <= limits.dense or case.shift or case.free or case.learnt:
        return False
    if case.streamed:
        return case.p <= limits.eigenvectors
    return case.local and min(case.n, case.p) <= limits.eigenvectors


CHOICES = (
    Choice(
        "scores", _scores, "a factor with a row per observation; the scores are integrated instead of the weights",
        "without noise a leapfrog step is one product with the covariance of the scores: 39 s instead of 98 for 2,000 "
        "reviews of 5,000 words",
    ),
    Choice(
        "rows", _few_rows, "the diagonal of the prior plus the curvature of the rows, by products with the rows",
        "exact, with two passes over the features and one n × n product",
    ),
    Choice(
        "directions", _single, "a diagonal plus leading eigenvectors, in a Python loop over blocks of rows",
        "neither an n × n nor a p × p matrix fits into memory",
    ),
    Choice(
        "eigenvectors", _eigenvectors, "eigenvectors that all classes share",
        "eight times the effective draws of a diagonal for 1.7 times the work",
    ),
    Choice(
        "dense", lambda case, limits: case.coordinates <= limits.dense, "a matrix of all coordinates",
        "exact, and cheap at this size",
    ),
    Choice("diagonal", lambda case, limits: True, "standard deviations", "nothing else fits into memory"),
)  # fmt: skip
"""Approximations in order of preference."""


def choose(case: Case, limits: Limits) -> Choice:
    """The first row whose condition holds.

    Examples
    --------
    >>> case = Case(2000, 5000, 1, True, False, False, False, False, True, False)
    >>> choose(case, Limits()).name, choose(case._replace(noisy=True), Limits()).name
    ('scores', 'rows')
    """
    return next(choice for choice in CHOICES if choice.when(case, limits))


def case_of(model: Model, data: Dataset, rate_map: RateMap, marginalised: bool) -> Case:
    """Case of a model with its data."""
    (n, p), design, loss = data.design.shape, data.design, model.loss
    probe = model.noise.coefficients(np.full(p, 0.5) if rate_map.is_free else rate_map.initial)
    noisy, learnt = not without_noise(model, rate_map), model.weight_prior.learnt_scale(p) is not None
    return Case(
        n=n,
        p=p,
        n_classes=len(data.classes) if loss.multiclass else 1,  # type: ignore[arg-type]  # labels
        local=design.is_local,
        streamed=design.is_streamed,
        noisy=noisy,
        shift=bool(np.any(probe.shift)),
        free=rate_map.is_free,
        curved=isinstance(loss if noisy else loss.plain, Curved) and model.weight_prior.gaussian,
        learnt=learnt,
        level=model.intercept_prior is not None,
        parameter=bool(loss.parameters),
    )


def without_noise(model: Model, rate_map: RateMap) -> bool:
    """True if the noise does not change the scores, and no rate is free."""
    if rate_map.is_free:
        return False
    one = model.noise.coefficients(rate_map.initial)
    noised = any(np.any(part) for part in (one.shift, one.quadratic, one.linear, one.constant))
    return not noised and bool(np.all(one.gain == 1))
