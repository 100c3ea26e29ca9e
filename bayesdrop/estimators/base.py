"""What the linear estimators share: parameters, the model they build, the fit and the moments of new scores."""

from __future__ import annotations

import numbers
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._validation import check_count, check_flag, check_number
from .._warning import warn
from ..centring import Settled, moved, settle, shifted, warn_of_counts
from ..designs import as_design, is_elsewhere
from ..inference import Newton
from ..inference.adapt import SignCounts
from ..inference.descent import check_minimiser
from ..inference.fitting import BlockFit, fit_block
from ..inference.online import Online
from ..losses import Loss
from ..model import Model
from ..moments import ScoreMoments
from ..noise import Dropout
from ..noise.centre import AUTO, MEAN, centre_of
from ..overflow import double_range, refuse_overflow
from ..priors import Normal
from ..rates import Fixed, RateMap
from ..rates.base import check_rate
from ..results import RatePosterior
from .joint import joint_energy, joint_rates
from .names import check_features, default_names

__all__ = ["DropoutEstimator", "with_parameters"]

Array = Any

_TEXTS = {
    "rates": """    rates : float or Rates, optional
        Dropout rate in [0, 1), or ``bd.Fixed``, ``bd.Shared``, ``bd.PerFeature`` (default, with a flat prior) or
        ``bd.PerGroup``. With more than two classes each class learns its own rates, and the negative class is
        weighed by ``n₊/n₋`` in the rate update unless the rates object says otherwise.
""",
    "class_weight": """    class_weight : dict or "balanced", optional
        Weights of the classes, as in scikit-learn.
""",
    "classifier": """    coef_ : array (1, p) or (K, p)
        Weights, un-noised.
    intercept_ : array (1,) or (K,)
        Intercepts.
    classes_ : array (K,)
        Class labels.
    rates_ : array (p,) or (K, p)
        Dropout rates of the features.
    rate_posterior_ : RatePosterior or None
        Plug-in posterior of the free rates, (k,) or (k, K); None if they are fixed.
    objective_trace_ : array (n_iter_,) or (n_iter_, K)
        Energy after each iteration.
""",
    "C": """    C : float
        Weight of the loss, with scikit-learn's meaning: ``½‖w‖² + C Σ loss``.
""",
    "noise": """    noise : Noise, optional
        ``bd.Dropout()`` by default: a kept feature stays as it is, and a dropped one becomes 0, or its mean where 0 is
        no usual value of it (``centre="auto"``). Other noises take no ``rates``.
""",
    "common": """    weight_prior : Normal, optional
        ``bd.Normal(1.0)`` by default; the intercept is neither penalised nor noised.
    method : Newton or EM, optional
        Minimiser with a tolerance of its own; by default ``bd.Newton(tol=tol, max_iter=max_iter)``.
    fit_intercept : bool
        Add an intercept.
    warm_start : bool
        Start from the last fit's weights and rates.
    corrupted_inputs : bool
        Say at prediction that new rows are corrupted already: the score is then ``wᵀx`` rather than its mean under
        the noise, ``(g∘w)ᵀx``, and probabilities are not averaged over the noise. Features then go missing as zeros,
        so that ``centre="auto"`` is None.
    tol : float
        Estimated suboptimality, relative to the energy, at which to stop.
    max_iter : int
        Most Newton steps.
""",
    "latent": """    weight_prior : Normal, optional
        Prior of the hidden weights, ``bd.Normal(1.0)`` by default, which the output weights always have.
    method : LBFGS, Alternating or Minibatch, optional
        By default ``bd.LBFGS(tol, max_iter)``, and ``bd.Minibatch()`` beyond 200,000 rows.
    fit_intercept : bool
        Add intercepts to both layers.
    n_init : int
        Random starts; the one that is best after 15 steps is followed to its end.
    warm_start : bool
        Start from the last fit.
    corrupted_inputs : bool
        New rows are corrupted already: take them as they are.
    random_state : int, RandomState or None
        Seed of the starts.
    tol : float
        Stop where a step lowers the energy by less than this for each unit of the rows' weight; see ``bd.LBFGS``.
    max_iter : int
        Most steps.
""",
    "layers": """    hidden_coef_ : array (n_hidden, p)
        Weights of the hidden units.
    hidden_intercept_ : array (n_hidden,)
        Their intercepts.
    coef_ : array (1, n_hidden) or (K, n_hidden)
        Output weights.
    intercept_ : array (1,) or (K,)
        Output intercepts.
    classes_ : array (K,)
        Class labels.
    rates_ : array (p,)
        Dropout rates of the features.
    rate_posterior_ : RatePosterior or None
        Plug-in posterior of the free rates; None if they are fixed.
    objective_trace_ : array (n_iter_,)
        Energy after each step.
""",
    "fitted": """    n_iter_ : int
        Iterations.
    status_ : Status
        How the fit ended; ``status_.value`` says what to do.
    centre_ : array (p,) or None
        What a dropped entry becomes: the ``centre`` of the noise, None if it is 0 for all columns.
    n_features_in_, feature_names_in_
        As in scikit-learn.
""",
}


def with_parameters(kind: type) -> type:
    """Fill the shared descriptions of parameters and attributes, ``{C}`` and so on, into an estimator's docstring."""
    text = kind.__doc__ or ""
    for name, block in _TEXTS.items():
        text = text.replace(f"    {{{name}}}\n", block)
    kind.__doc__ = text
    return kind


def _shape(part: Array) -> Array:
    """One problem as a vector, several as a block."""
    return part if part.shape[1] > 1 else part[:, 0]


class DropoutEstimator(BaseEstimator):
    """Base of the linear estimators; a subclass names its loss and the rates that it takes by default."""

    rates: Any
    C: float
    noise: Any
    bound: Any
    weight_prior: Any
    method: Any
    fit_intercept: bool
    warm_start: bool
    corrupted_inputs: bool
    tol: float
    max_iter: int
    coef_: Array
    intercept_: Any
    rates_: Array
    n_features_in_: int
    centre_: Array | None
    _counts: SignCounts | None
    _online: Online | None

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _default_rates(self) -> Any:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _model(self) -> Model:
        rates = self.rates
        if isinstance(rates, numbers.Real | np.ndarray):
            rates = Fixed(check_rate(rates, "rates"))
        noise: Any = Dropout() if self.noise is None else self.noise
        if rates is None and getattr(noise, "has_rate", False):
            rates = self._default_rates()
        check_flag(self.corrupted_inputs, "corrupted_inputs")
        if self.corrupted_inputs and getattr(noise, "centre", None) == AUTO:
            # The rows to come have zeros where features went missing, and the noise stands for that.
            noise = replace(noise, centre=None)
        prior = Normal() if self.weight_prior is None else self.weight_prior
        return Model(self._loss(), noise, rates, self.C, prior, self.fit_intercept)

    def _check_limits(self) -> None:
        check_count(self.max_iter, "max_iter")
        check_number(self.tol, "tol", above=0)
        check_flag(self.warm_start, "warm_start")

    def _settle(self, model: Model, X: Any, weight: Array, rate_map: RateMap | None = None) -> Settled:
        """Numbers for what the model says of the columns, and the features less the centre of the noise."""
        names = default_names(self)
        rate_map = model.bind(names) if rate_map is None else rate_map
        found = settle(model, X, weight, rate_map, names, zeros_to_come=self.corrupted_inputs)
        self.centre_ = found.centre
        return found

    def _solve(
        self,
        settled: Settled,
        X: Any,
        target: Array,
        weight: Array,
        earlier: tuple[Array, Array] | None,
        unlabelled: tuple[int, float] | None = None,
    ) -> BlockFit:
        """Fit the block of problems to rows ``X − c``; return it with the intercepts of the user's columns.

        Everything but the coefficients is kept, whose shape is the subclass's; ``earlier`` are weights for ``X``.
        """
        model = settled.model
        if earlier is not None:
            earlier = (settled.inward(earlier[0]), earlier[1])
        rate_map = model.bind(default_names(self))
        plain = Newton(tol=self.tol, max_iter=self.max_iter)
        method = plain if self.method is None else check_minimiser(self.method)
        self._online = None
        block = fit_block(model, as_design(X), rate_map, target, weight, method, earlier, unlabelled)
        if not self.corrupted_inputs:
            warn_of_counts(X, block.one_signed, default_names(self), model.fit_intercept)
        if block.status.is_unfinished:
            warn(block.status.value, ConvergenceWarning)
        self._keep_rates(rate_map, block.rates, block.posterior, block.occurrences)
        self._counts = block.counts
        self.objective_trace_ = _shape(block.trace)
        self.n_iter_ = block.iterations
        self.status_ = block.status
        return replace(block, weights=settled.outward(block.weights))

    def _keep_rates(
        self, rate_map: RateMap, rates: Array, posterior: tuple[Array, Array] | None, occurrences: Array | None
    ) -> None:
        self.rates_ = np.ascontiguousarray(rates.T) if rates.shape[1] > 1 else rates[:, 0].copy()
        self.rate_posterior_ = None
        if posterior is not None and occurrences is not None:
            a, b = posterior
            self.rate_posterior_ = RatePosterior(
                _shape(a), _shape(b), _shape(occurrences), rate_map.names, rate_map.dim
            )

    def _earlier(self) -> tuple[Array, Array]:
        """Weights (p + 1, K) and rates of the features (p, K) or (p, 1) of the last fit."""
        return self._weights(), np.atleast_2d(self.rates_).T

    def _step_online(
        self,
        model: Model,
        X: Any,
        target: Array,
        weight: Array,
        n_total: float | None,
        n_joint: int | None = None,
    ) -> Array:
        """Weights (p + 1, K) after one step of an online fit, begun where the estimator stands.

        ``n_joint`` classes jointly if given. Blocks do not know the means of all rows: the centre is that of the last
        ``fit``, or the numbers given, or 0.
        """
        if n_total is not None:
            check_number(n_total, "n_total", above=0)
        rate_map = model.bind(default_names(self)) if n_joint is None else joint_rates(self, model)
        if rate_map.is_free and not model.loss.binary:
            raise ValueError("rates: learnt rates need two classes; give fixed ones, as in bd.Fixed(0.1).")
        p, K = X.shape[1], target.shape[1] if n_joint is None else n_joint
        centre = self._online_centre(model, p)
        noise: Any = model.noise
        if noise.centre is not None:
            model = replace(model, noise=replace(noise, centre=None))
        design = as_design(shifted(X, centre))
        online = getattr(self, "_online", None)
        if online is None:
            start, counts = None, None
            if hasattr(self, "coef_"):
                start, counts = moved(self._weights(), centre, 1.0), getattr(self, "_counts", None)
            online = Online.start(model, p, K, start, counts)
        # A step that leaves double precision leaves no trace.
        online = deepcopy(online)
        with double_range():
            if n_joint is None:
                online.update(model, design, rate_map, target, weight, n_total)
            else:
                row_weight = model.C * weight
                energy = joint_energy(self, model, design, target, row_weight, row_weight)
                online.update_joint(energy, float(weight.sum()), n_total)
        refuse_overflow(weights=online.weights, curvature=online.curvature)
        self._online, self.centre_ = online, centre
        rate = online.rate(rate_map)
        learner = online.learner
        self._keep_rates(
            rate_map,
            np.broadcast_to(rate, (p, K)),
            None if learner is None else learner.posterior(),
            None if learner is None else learner.occurrences,
        )
        self.n_iter_ = online.steps
        return moved(online.weights, centre, -1.0)

    def _online_centre(self, model: Model, p: int) -> Array | None:
        """Centre of the noise for blocks of rows."""
        if hasattr(self, "centre_"):
            return self.centre_
        if model.noise.centre == MEAN:
            raise ValueError(
                'centre: "mean" is that of all rows, and partial_fit sees a block; call fit on some rows before, or '
                "give the means, as in bd.Dropout(centre=means)."
            )
        centre = centre_of(model.noise)
        if centre is not None and (len(centre) != p or not model.fit_intercept):
            raise ValueError(
                f"centre: expected {p} numbers (one per feature) and an intercept, got {len(centre)} and "
                f"fit_intercept={model.fit_intercept}."
            )
        return centre

    def _weights(self) -> Array:
        """Fitted weights as a block (p + 1, K)."""
        coef = np.atleast_2d(self.coef_)
        return np.vstack([coef.T, np.broadcast_to(self.intercept_, coef.shape[0])])

    def _moments(self, X: Any) -> tuple[Array, Array]:
        """Mean and variance of the score of new rows, (n, 1) or (n, K)."""
        check_is_fitted(self)
        X = check_features(self, X)
        with double_range():
            if self.corrupted_inputs:
                weights = self._weights()
                mean = as_design(X).matvec(weights[:-1]) + weights[-1]
                var = np.zeros_like(mean)
            else:
                model = self._model()
                X, weights, centre = self._about_centre(X)
                rate = np.atleast_2d(self.rates_).T
                mean, var = ScoreMoments(as_design(X), model.noise, rate, model.fit_intercept, centre).scores(weights)
        refuse_overflow(scores=mean, variances=var)
        return mean, var

    def _about_centre(self, X: Any) -> tuple[Any, Array, Array | None]:
        """New rows less the centre with their weights, or, if they cannot be shifted, as they are and the centre."""
        weights = self._weights()
        if self.centre_ is None or is_elsewhere(X) or hasattr(X, "tocsr"):
            return X, weights, self.centre_
        return shifted(X, self.centre_), moved(weights, self.centre_, 1.0), None
