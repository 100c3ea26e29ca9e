r"""Marginalised corrupted features: linear classifiers trained on expected losses in closed form.

    quadratic     Σ_i ½ E(y_i − s_i)²                          s_i = wᵀx̃_i + b
    exponential   Σ_i E exp(−y_i s_i) = Σ_i exp(a_i)           a_i = −y_i b + Σ_d log E exp(−y_i w_d x̃_id)
    logistic      Σ_i log(1 + exp(a_i))

each times ``C``, plus ``½‖w‖²``. Noise is independent across features, so that the expectation of the exponential is
a product of moment-generating functions. The logistic loss is bounded from above by Jensen's inequality, as
``E log(1 + e^{−ys}) <= log(1 + E e^{−ys})``. All three are convex. The intercept has no noise and no penalty.
Van der Maaten, Chen, Tyree & Weinberger (2013), sections 3.1 to 3.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize

from .._typing import Float
from ..designs import Design
from ..estimators.validation import default_names, set_parameters
from ..fitting.problems.block import fit_block
from ..fitting.solvers.driver import Status
from ..fitting.solvers.newton import Newton
from ..losses import Squared
from ..model import Model
from ..moments import ScoreMoments
from ..noise import Noise
from ..rates import Fixed
from .marginalised_loss import ExponentLoss, MarginalisedLoss, ObjectiveAndGradient, exponential, logistic
from .one_vs_rest import OneVsRest, check_noise, fixed_rates

__all__ = ["MCFExponential", "MCFLogistic", "MCFQuadratic"]


@dataclass(frozen=True)
class Rules:
    """Rules of the minimisation by L-BFGS-B.

    Attributes
    ----------
    inside : float
        Bound of the weights, as a share of the limit of the moment-generating function.
    round_off : float
        Slope, per unit of curvature and objective, below which a search that failed has converged.
    huge : float
        Value that replaces an objective that overflows, from which the line search steps back.
    evaluations, corrections : int
        Maximum number of evaluations per iteration, and number of corrections that L-BFGS-B keeps.
    """

    inside: float = 1 - 1e-6
    round_off: float = 1e-6
    huge: float = 1e150
    evaluations: int = 20
    corrections: int = 20


RULES = Rules()


class _MCF(OneVsRest):
    """Shared by the three losses: parameters, noise and prediction."""

    def __init__(
        self,
        rates: Any = 0.5,
        *,
        C: float = 1.0,
        noise: Any = None,
        fit_intercept: bool = True,
        tol: float = 1e-6,
        max_iter: int = 1000,
    ) -> None:
        set_parameters(self, locals())

    def _corruption(self, design: Design) -> tuple[Noise, Float[np.ndarray, " p"]]:
        noise = check_noise(self.noise)
        self.rates_ = fixed_rates(self.rates, noise, default_names(self))
        noise.check(design.minimum())
        return noise, self.rates_

    def _noised_mean(self) -> tuple[Float[np.ndarray, " _"], Float[np.ndarray, " _"]]:
        gain, shift, *_ = check_noise(self.noise).coefficients(self.rates_)
        return gain, shift


class MCFQuadratic(_MCF):
    """Linear classifier trained on the expected squared loss of labels −1 and +1.

    Minimises ``½‖w‖² + C Σ ½ E(y − wᵀx̃ − b)²`` (van der Maaten et al. 2013, section 3.1), which is ridge regression
    with a penalty per feature: the minimiser of :class:`bayesdrop.DropoutRidge` for those labels.

    Parameters
    ----------
    rates : float, array (p,) or Fixed, default=0.5
        Dropout rates in [0, 1); ignored by a noise without rates.
    C : float, default=1.0
        Weight of the loss, with scikit-learn's meaning: ``½‖w‖² + C Σ loss``.
    noise : Noise, optional
        ``bd.Dropout()`` by default: a kept feature is unchanged.
    fit_intercept : bool, default=True
        Add an intercept, which is neither noised nor penalised.
    tol : float, default=1e-06
        Estimated suboptimality, relative to the energy, at which to stop.
    max_iter : int, default=1000
        Maximal number of iterations.

    Attributes
    ----------
    coef_ : array (1, p) or (K, p)
        Weights, without noise; more than two classes are fitted one against the rest.
    intercept_ : array (1,) or (K,)
        Intercepts.
    classes_ : array (K,)
        Class labels.
    rates_ : array (p,)
        Dropout rates of the features.
    n_iter_ : int
        Iterations, of the slowest class.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    bayesdrop.DropoutRidge, bayesdrop.baselines.MCFLogistic

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, 5, random_state=0)
    >>> MCFQuadratic(0.3).fit(X, y).coef_.shape
    (1, 5)
    """

    def _solve(
        self, design: Design, sign: Float[np.ndarray, "n K"], weight: Float[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, "q K"], int, bool]:
        noise, rate = self._corruption(design)
        model = Model(
            Squared(), noise, Fixed(rate) if noise.has_rate else None, self.C, fit_intercept=self.fit_intercept
        )
        method = Newton(tol=self.tol, max_iter=self.max_iter)
        block = fit_block(model, design, model.bind(default_names(self)), sign, weight, method)
        return block.weights, block.iterations, block.status is not Status.MAX_ITERATIONS


class _Exponent(_MCF):
    """Shared by the losses of the marginalised exponent, which L-BFGS-B minimises class by class."""

    _curvature: ClassVar[tuple[float, float]]
    """Weights of the mean's square and of the variance of ``x̃`` in the curvature at zero weights."""

    def _loss(self, weight: Float[np.ndarray, " n"]) -> ExponentLoss:
        raise NotImplementedError

    def _solve(
        self, design: Design, sign: Float[np.ndarray, "n K"], weight: Float[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, "q K"], int, bool]:
        noise, rate = self._corruption(design)
        moments = ScoreMoments(design, noise, rate[:, None], self.fit_intercept)
        of_mean, of_var = self._curvature
        curvature = of_mean * moments.diagonal(weight[:, None])[:, 0]
        curvature[:-1] += of_var * moments.spread(weight[:, None])[:, 0]
        curvature = float(self.C) * curvature + np.append(np.ones(len(rate)), 0.0)
        fits = []
        for one in sign.T:
            total = MarginalisedLoss(design, noise, rate, one, weight, self._loss(weight))
            fits.append(self._minimise(total, curvature, noise.mgf_limit()))
        weights, iterations, converged = zip(*fits, strict=True)
        return np.stack(weights, axis=1), max(iterations), all(converged)

    def _minimise(
        self, total: MarginalisedLoss, curvature: Float[np.ndarray, " q"], limit: float
    ) -> tuple[Float[np.ndarray, " q"], int, bool]:
        """Weights (p + 1,), iterations and whether the tolerance is met.

        In units of the objective and of its curvature at zero weights, both of order one whatever ``C``, the number
        of rows and the scales of the features are.
        """
        p = total.design.shape[1]
        unit, first = self._penalised(*total(np.zeros(p + 1)), np.zeros(p + 1))
        self._check_start(first, curvature)
        scale = np.sqrt(unit / curvature)

        def objective(scaled: Float[np.ndarray, " q"]) -> ObjectiveAndGradient:
            with np.errstate(over="ignore", invalid="ignore"):
                value, gradient = self._penalised(*total(scale * scaled), scale * scaled)
            if np.isfinite(value) and np.all(np.isfinite(gradient)):
                return value / unit, scale * gradient / unit
            return RULES.huge, scaled

        edge = RULES.inside * limit / scale[:-1]
        bounds = [*zip(-edge, edge, strict=True), (None, None)] if np.isfinite(limit) else None
        goal = self.tol * np.max(np.abs(scale * first / unit))
        options: Any = {
            "maxiter": self.max_iter, "maxfun": RULES.evaluations * self.max_iter, "maxcor": RULES.corrections,
            "gtol": goal, "ftol": 0.0,
        }  # fmt: skip
        result = minimize(objective, np.zeros(p + 1), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        weights = scale * result.x
        self._check_inside(total, weights, limit)
        # If iterations ran out, the slope must meet the goal; otherwise no step lowers the objective in double
        # precision.
        enough = goal if result.nit >= self.max_iter else max(goal, RULES.round_off)
        return weights, int(result.nit), bool(np.max(np.abs(result.jac)) <= enough)

    def _check_start(self, slope: Float[np.ndarray, " q"], curvature: Float[np.ndarray, " q"]) -> None:
        """Raise ValueError if the features are too large for any step."""
        size = np.maximum(np.abs(slope), curvature)[:-1]
        if not np.all(size < RULES.huge):
            worst = default_names(self)[int(np.argmax(np.where(np.isnan(size), np.inf, size)))]
            raise ValueError(
                f"X: feature {worst} is too large for double precision, or C is; standardise the features."
            )

    def _check_inside(self, total: MarginalisedLoss, weights: Float[np.ndarray, " q"], limit: float) -> None:
        """Raise ValueError if the search stopped at the bound beyond which the expectation is infinite."""
        names = default_names(self)
        ratio = np.abs(weights[:-1]) / limit
        if np.any(ratio >= RULES.inside**2):
            raise ValueError(
                f"noise: the weight of feature {names[int(np.argmax(ratio))]} stopped at {limit:g}, where the "
                f"expectation under {total.noise!r} becomes infinite; use a smaller scale of the noise or a smaller "
                "C, standardise the features, or use MCFQuadratic."
            )


class MCFExponential(_Exponent):
    """Linear classifier trained on the expected exponential loss.

    Minimises ``½‖w‖² + C Σ e^{−yb} Π_d E exp(−y w_d x̃_d)`` (van der Maaten et al. 2013, section 3.2): the expectation
    is exact, and one badly misclassified row can outweigh all others.

    Parameters
    ----------
    rates, C, noise, fit_intercept, max_iter : see MCFQuadratic
        As in :class:`MCFQuadratic`.
    tol : float, default=1e-06
        Largest slope, per unit of curvature at zero weights and relative to the first one, at which to stop.

    Attributes
    ----------
    coef_, intercept_, classes_, rates_, n_iter_, n_features_in_, feature_names_in_
        As in :class:`MCFQuadratic`.

    See Also
    --------
    bayesdrop.baselines.MCFLogistic

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, 5, random_state=0)
    >>> bool(MCFExponential(0.3, C=0.1).fit(X, y).score(X, y) > 0.8)
    True
    """

    _curvature = (1.0, 1.0)

    def _loss(self, weight: Float[np.ndarray, " n"]) -> ExponentLoss:
        # At the optimum no row's loss exceeds the loss of all rows at zero weights. Larger exponents occur only in line
        # searches, for which a tangent is better.
        return partial(exponential, steepest=1 + np.log(weight.sum() / weight.min()))


class MCFLogistic(_Exponent):
    """Linear classifier trained on an upper bound of the expected logistic loss.

    Minimises ``½‖w‖² + C Σ log(1 + e^{−yb} Π_d E exp(−y w_d x̃_d))`` (van der Maaten et al. 2013, section 3.3), where
    Jensen's inequality takes the expectation inside the logarithm.

    Parameters
    ----------
    rates, C, noise, fit_intercept, max_iter : see MCFQuadratic
        As in :class:`MCFQuadratic`.
    tol : float, default=1e-06
        Largest slope, per unit of curvature at zero weights and relative to the first one, at which to stop.

    Attributes
    ----------
    coef_, intercept_, classes_, rates_, n_iter_, n_features_in_, feature_names_in_
        As in :class:`MCFQuadratic`.

    See Also
    --------
    bayesdrop.DropoutLogisticRegression, bayesdrop.baselines.MCFExponential

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from bayesdrop.noise import LaplaceNoise
    >>> X, y = make_classification(200, 5, random_state=0)
    >>> bool(MCFLogistic(noise=LaplaceNoise(0.5)).fit(X, y).score(X, y) > 0.8)
    True
    """

    _curvature = (0.25, 0.5)

    def _loss(self, weight: Float[np.ndarray, " n"]) -> ExponentLoss:
        return logistic
