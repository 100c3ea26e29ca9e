r"""Point fit of many classes jointly, at rates that are given or learnt; rates are shared by the classes.

**Learnt rates.** Given the scores, the augmentation of every class is a pseudo-observation ``κ_ik = y_ik − ½`` of its
score (:mod:`bayesdrop.losses.softmax`), and one mask entry is part of all of them. Keeping it adds

    Σ_k κ_ik w_dk x_id = x_id (w_{d,y_i} − ½ Σ_k w_dk) = x_id w_{d,y_i}

to their exponent, for weights that sum to zero over the classes as those of a fit do. So the rule of Zhuo, Zhu & Zhang
(2015, equations 15, 17 and 22) counts as spoken against its weight every entry with ``x_id w_{d,y_i} < 0``,

    n⁻_d = Σ_i s_i 1(x_id w_{d,y_i} < 0),

whatever the number of classes. With two it is theirs: ``w_{d,1} = −w_{d,0}`` and the sign of ``w_{d,y_i}`` is that of
``y_i w_d``. The counts of signs by class are taken once, and an update costs O(pK).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._typing import Bool, Float, Num, PerRow
from ..data.dataset import Dataset
from ..designs import Design
from ..losses.softmax_forms import expected_softmax
from ..model import Model
from ..moments import ScoreMoments
from ..priors.rate_prior import UpdatedRateLaw, map_arrays
from ..rates import RateMap
from .centring import Settled
from .driver import ROUND_OFF, Status, status_at
from .newton import Newton
from .overflow import refuse_overflow
from .protocols import FitMethod
from .rate_update import RateLearner
from .result import Fit, RatePosterior
from .row_weights import row_weights
from .softmax_energy import SoftmaxEnergy
from .softmax_fit import fit_softmax

__all__ = ["ClassFit", "ClassRates", "centred", "class_chances", "fit_classes", "fit_dataset", "softmax_energy"]

# Accuracy of the weights from which on a sign that keeps changing counts as undecided.
_MODEST = 1e-3
_MOST_UPDATES = 100
# Rows whose covariances are held at once when probabilities are asked for.
_ROWS = 2048


@dataclass
class ClassRates(RateLearner):
    """Sign counts of all classes and the rates that follow from the weights of all of them.

    ``agree`` and ``against`` (p, K) are the weighted numbers of entries above and below zero in the rows of each class:
    one above zero agrees with a weight of its row's class that is.
    """

    @classmethod
    def take(cls, design: Design, code: PerRow, weight: PerRow, n_classes: int, rate_map: RateMap) -> ClassRates:
        """Count in one pass over the data; class (n,) and weight (n,) of each row."""
        above, below = design.sign_sums(weight[:, None] * (code[:, None] == np.arange(n_classes)))
        return cls(rate_map, above, below)

    @property
    def occurrences(self) -> Float[np.ndarray, "k 1"]:
        """``n`` of each free rate, (k, 1)."""
        return self.rate_map.collapse((self.agree + self.against).sum(axis=1, keepdims=True))

    def one_signed(self, total: float) -> Bool[np.ndarray, " p"]:
        """Which features are non-zero in every row, whose weights add to ``total``, and of one sign, (p,) bool."""
        whole = total * (1 - 1e-12)
        return np.asarray((self.agree.sum(axis=1) >= whole) | (self.against.sum(axis=1) >= whole))

    def posterior(self) -> UpdatedRateLaw:
        """Plug-in posterior of the free rates, (k, 1)."""
        opposed: np.ndarray = np.where(self.signs > 0, self.against, self.agree)
        opposed = np.where(self.undecided | (self.signs == 0), 0.5 * (self.agree + self.against), opposed)
        total = self.occurrences
        law: UpdatedRateLaw = self.rate_map.prior.law(total).given(
            self.rate_map.collapse(opposed.sum(axis=1, keepdims=True)), total
        )
        return law


@dataclass(frozen=True)
class ClassFit:
    """Fit of all classes: weights (p + 1, K), whose rows sum to zero, rates (p,), and what the free rates follow from;
    None where no rate is free.
    """

    weights: Float[np.ndarray, "q K"]
    rates: Float[np.ndarray, " p"]
    posterior: UpdatedRateLaw | None
    occurrences: Num[np.ndarray, "k 1"] | None
    one_signed: Bool[np.ndarray, " p"] | None
    trace: Float[np.ndarray, " iterations"]
    status: Status
    iterations: int


def softmax_energy(
    model: Model,
    design: Design,
    rate: Float[np.ndarray, " p"],
    code: PerRow,
    n_classes: int,
    loss_weight: PerRow,
    noise_weight: PerRow,
) -> SoftmaxEnergy:
    """Energy of all classes at rates (p,), for a model whose loss is a softmax."""
    loss: Any = model.loss
    model.noise.check(design.minimum())
    return SoftmaxEnergy(
        moments=ScoreMoments(design, model.noise, rate[:, None], model.fit_intercept),
        form=loss.expectation,
        n_classes=n_classes,
        code=code,
        loss_weight=loss_weight,
        noise_weight=noise_weight,
        precision=np.append(model.weight_prior.precision(design.shape[1]), 0.0)[:, None],
    )


def fit_classes(
    model: Model,
    design: Design,
    rate_map: RateMap,
    code: PerRow,
    weight: PerRow,
    n_classes: int,
    *,
    tol: float,
    max_iter: int,
    start: tuple[Float[np.ndarray, "q K"], Float[np.ndarray, " p"]] | None = None,
    unlabelled: tuple[int, float] | None = None,
) -> ClassFit:
    """Fit all classes jointly, and with free rates alternate with their update until the signs of the weights stand.

    Parameters
    ----------
    model : Model
        Loss (a softmax), noise, priors and C.
    design : Design
        Checked matrix, n rows and p columns.
    rate_map : RateMap
        ``model.bind(feature_names)``.
    code, weight : array (n,)
        Class number and weight of each row.
    n_classes : int
        ``K``.
    tol, max_iter
        Relative tolerance of the energy, and most steps of a fit at fixed rates.
    start : (array (p + 1, K), array (p,)), optional
        Weights and rates of an earlier fit.
    unlabelled : (int, float), optional
        The last so many rows have no label and count by so much each.
    """
    known, noisy = (part[:, 0] for part in row_weights(model, weight, unlabelled)[:2])
    p, learner = design.shape[1], None
    rate = rate_map.initial
    weights = np.zeros((p + 1, n_classes)) if start is None else start[0].copy()
    if start is not None and rate_map.is_free:
        rate = rate_map.mean(start[1][:, None])[:, 0]

    def energy_at(rate: Float[np.ndarray, " p"]) -> SoftmaxEnergy:
        return softmax_energy(model, design, rate, code, n_classes, model.C * known, noisy)

    energy = energy_at(rate)
    if not rate_map.is_free:
        weights, trace = fit_softmax(energy, weights, tol, max_iter)
        unsettled, values, steps = False, trace.values, trace.iterations
    else:
        learner = ClassRates.take(design, code, known, n_classes, rate_map)
        unsettled, values, steps, coarse = True, [], 0, max(tol, _MODEST)
        for _ in range(_MOST_UPDATES):
            weights, trace = fit_softmax(energy, weights, coarse, max_iter)
            values, steps = values + trace.values, steps + trace.iterations
            least = np.full(n_classes, np.sqrt(ROUND_OFF * abs(float(trace.values[-1][0]))))
            moved = bool(np.any(learner.observe(centred(weights)[:-1], np.ones(n_classes, dtype=bool), least)))
            new = rate_map.expand(learner.rates()[:, 0])
            if not moved and np.array_equal(new, rate):
                if coarse == tol:
                    unsettled = False
                    break
                coarse = tol
            rate, energy = new, energy_at(new)
    refuse_overflow(weights=weights, energy=values[-1])
    status = Status.RATES_UNSETTLED if unsettled and trace.status is Status.CONVERGED else trace.status
    return ClassFit(
        weights=centred(weights),
        rates=rate.copy(),
        posterior=None if learner is None else learner.posterior(),
        occurrences=None if learner is None else learner.occurrences,
        one_signed=None if learner is None else learner.one_signed(float(np.sum(design.total(known[:, None])))),
        trace=np.array(values)[:, 0],
        # One energy of all classes, whose weights lie in one block.
        status=status_at(weights[:-1].reshape(-1, 1), values[-1], status),
        iterations=steps,
    )


def class_chances(
    model: Model,
    design: Design,
    weights: Float[np.ndarray, "q K"],
    rates: Float[np.ndarray, " p"],
    centre: Float[np.ndarray, " p"] | None,
    corrupted_inputs: bool,
) -> Float[np.ndarray, "m K"]:
    """Expected softmax of the rows of a design, (n, K), by the moments of their scores.

    ``centre`` is that of the noise if the rows are not shifted by it; rows that come corrupted have no more noise.
    """
    noise, K, found = model.noise, weights.shape[1], {}
    for rows, part in design.parts(_ROWS):
        moments = ScoreMoments(part, noise, rates[:, None], model.fit_intercept, centre)
        n = part.shape[0]
        if corrupted_inputs:
            found[rows.start] = expected_softmax(part.matvec(weights[:-1]) + weights[-1], np.zeros((n, K, K)))
            continue
        nothing = np.zeros(n)
        energy = SoftmaxEnergy(moments, "taylor", K, np.zeros(n, dtype=int), nothing, nothing, np.zeros((1, 1)))
        found[rows.start] = expected_softmax(moments.mean(weights), energy.covariance(weights))
    # Of rows that several processes hold these are this process's, whose devices may come in any order.
    return np.concatenate([found[start] for start in sorted(found)])


def centred(weights: Float[np.ndarray, "q K"]) -> Float[np.ndarray, "q K"]:
    """Weights and intercepts that sum to zero over the classes: the same scores, up to what all of a row share."""
    return weights - weights.mean(axis=1, keepdims=True)


def fit_dataset(
    model: Model, settled: Settled, data: Dataset, rate_map: RateMap, method: FitMethod[Any, Any] | None
) -> tuple[Fit, ClassFit]:
    """:func:`bayesdrop.fit` of a model whose loss is a softmax, on checked data.

    Raises
    ------
    ValueError
        If ``method`` is another than Newton's.
    """
    method = Newton() if method is None else method
    if not isinstance(method, Newton):
        raise ValueError(
            f"method: {model.loss!r} is fitted by Newton's method on all classes jointly, got {method!r}; take "
            "bd.Newton(tol=..., max_iter=...), or leave it out."
        )
    classes: Any = data.classes
    found = fit_classes(
        settled.model, settled.design, rate_map, data.target, data.weight, len(classes), tol=method.tol,
        max_iter=method.max_iter,
    )  # fmt: skip
    weights, posterior = centred(settled.outward(found.weights)), None
    if found.posterior is not None and found.occurrences is not None:
        law = map_arrays(lambda part: part[:, 0], found.posterior)
        posterior = RatePosterior(law, found.occurrences[:, 0], rate_map.names, rate_map.dim)
    fit = Fit(
        weight=np.ascontiguousarray(weights[:-1].T),
        intercept=weights[-1],
        rates=found.rates,
        rate_posterior=posterior,
        objective_trace=found.trace,
        status=found.status,
        n_iter=found.iterations,
        feature_names=data.feature_names,
        classes=data.classes,
        model=model,
        centre=settled.centre,
    )
    return fit, found
