"""Parameters of the estimators: each described once, and kept as they are given.

scikit-learn reads an estimator's parameters off the signature of its constructor, which therefore names them all; what
they mean stands here, under names that docstrings quote in braces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

__all__ = ["set_parameters", "with_parameters"]

Kind = TypeVar("Kind", bound=type)

_TEXTS = {
    "rates": """    rates : float or Rates, optional
        Dropout rate in [0, 1), or ``bd.Fixed``, ``bd.Shared``, ``bd.PerFeature`` or ``bd.PerGroup``, or
        ``bd.Tuned()``, the default: one learnt rate per feature, all of them scaled by a strength in [0, 1] that is
        chosen by the log loss of held-out rows, at this ``C``. ``bd.PerFeature()`` is the published rule, in one fit.
        With more than two classes each class learns its own rates, and the negative class is
        weighed by ``n₊/n₋`` in the rate update unless the rates object says otherwise. ``partial_fit``, which sees no
        folds, takes ``bd.PerFeature()`` by default; what ``sample`` takes it says itself.
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
    objective_trace_ : array ``(n_iter_,)`` or ``(n_iter_, K)``
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
    missing : None or "nan"
        What NaN in the features is. None (default): an error. ``"nan"``: a missing entry, which is a dropped one: it
        becomes ``centre_``, in training as in prediction, and a column of which some are missing is centred at the mean
        of the others unless the noise says otherwise; see :class:`bayesdrop.Model`.
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
    random_state : int, numpy.random.Generator, RandomState or None
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
    objective_trace_ : array ``(n_iter_,)``
        Energy after each step.
""",
    "calibration": """    calibration_ : Calibration or None
        ``slope`` and ``intercept`` of the probability as a function of the score; None if no rows were held out.
""",
    "selection": """    selection_ : Selection or None
        What ``bd.Tuned()`` chose and what it is worth: ``print(estimator.selection_)``, ``bd.plots.selection``.
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
    "search": """    rates : sequence or Tuned, optional
        Candidates: dropout rates in [0, 1), and objects such as ``bd.PerFeature()`` that learn theirs. By default
        those of ``bd.Tuned()``: learnt rates per feature, scaled by strengths from 1, the published rule, to 0, no
        noise. One rate for all features, ``bd.Tuned(bd.Shared())``, is tried where it is listed: on none of eight data
        sets did that lower the log loss, and it took a third more time. A regression has 0, 0.1, 0.3, 0.5 and 0.7.
    Cs : sequence of float, optional
        Candidates of ``C``, the weight of the loss with scikit-learn's meaning; by default powers of ten from 1e-4 to
        1e4. Among equal scores the smallest ``C`` is taken, and at this ``C`` the first of the ``rates``.
    cv : int, splitter, iterable of (train, test) or "loo", optional
        Folds, as in scikit-learn, but that an int means so many folds of shuffled rows, the same at every call (seed
        0), stratified by class: tables are often sorted. Rows that belong together have ``groups`` in ``fit``;
        splitters and pairs are followed as they are. Equal rows are in one fold, as a row of their weight is. ``"loo"``
        leaves out each row by itself, approximately and from one fit
        (:mod:`bayesdrop.fitting.objective.leave_one_out`), but for the rows that this moves most, which are fitted
        without; whole weights count copies, of which one leaves. By default ``"loo"`` where there is no ``scoring``,
        for tables that are not large, of four rows to a column at least, and losses with second derivatives; else 5.
    scoring : str or callable, optional
        Greater is better. By default minus the log loss of the classes under a normal score, for a hinge that of its
        normalised pseudo-likelihood; of a regression minus the plain loss. With ``sample_weight`` it is given those of
        the test rows. With default ``rates``, or all of them ``bd.Tuned`` as in
        ``[bd.Tuned(), bd.Tuned(bd.PerGroup(groups))]``, and default ``scoring`` the search climbs from ``C = 1`` and
        dismisses what is clearly worse (:mod:`bayesdrop.fitting.tuning.search`); otherwise all candidates are tried
        on all folds.
    one_standard_error : bool
        Take the smallest ``C``, and there the most noise, whose score is within a standard error of the best, in pairs;
        otherwise within half a one, or the best of a ``scoring`` that is given.
    n_jobs : int, optional
        Processes among which folds are spread, as in scikit-learn; they only pay for large data.
""",
    "chosen": """    C_ : float
        Chosen ``C``.
    best_rates_ : float or Rates
        Chosen candidate; ``rates_`` holds what it came to.
    best_score_ : float
        Its mean score over the folds.
    best_index_ : int
        Its place in ``cv_results_``.
    best_estimator_ : estimator
        The plain estimator, fitted to all rows with the choice.
    selection_ : Selection
        The choice and what it is worth, in words: ``print(model.selection_)``; ``bd.plots.selection`` draws it.
    cv_results_ : dict of arrays
        Of all that was tried, NaN on folds before which it was dismissed: ``param_rates``, ``param_C``, ``params``,
        ``mean_test_score``, ``std_test_score``, ``standard_error_test_score`` (of the mean), ``rank_test_score`` and
        ``split0_test_score``, …
    scorer_, n_splits_
        As in ``GridSearchCV``.
""",
    "corruption": """    rates : float, array (p,) or Fixed
        Dropout rates in [0, 1); ignored by a noise without rates.
    C : float
        Weight of the loss, with scikit-learn's meaning: ``½‖w‖² + C Σ loss``.
    noise : Noise, optional
        ``bd.Dropout()`` by default: a kept feature stays as it is.
    fit_intercept : bool
        Add an intercept, which is neither noised nor penalised.
""",
    "iterations": """    max_iter : int
        Most iterations.
""",
    "corrupted": """    coef_ : array (1, p) or (K, p)
        Weights, un-noised; more than two classes are solved one against the rest.
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
""",
    "regressor": """    coef_ : array (p,)
        Weights, un-noised.
    intercept_ : float
        Intercept.
    rates_ : array (p,)
        Dropout rates of the features.
    objective_trace_ : array ``(n_iter_,)``
        Energy after each iteration.
""",
    "counted_rates": """    rates : float, array (p,) or Rates, optional
        Dropout rates in [0, 1), 0.1 by default, or ``bd.PerFeature()`` and its kin to learn them: a count speaks for a
        higher score as often as it counts, and for a lower one as often as the mean count.
""",
    "known_rates": """    rates : float, array (p,) or Fixed, optional
        Dropout rates in [0, 1), 0.1 by default. The sign rule that learns rates needs two classes; ``sample`` draws
        the rates of a regression from their posterior.
""",
}


def with_parameters(kind: Kind) -> Kind:
    """Fill the shared descriptions of parameters and attributes, ``{C}`` and so on, into an estimator's docstring."""
    text = kind.__doc__ or ""
    for name, block in _TEXTS.items():
        text = text.replace(f"    {{{name}}}\n", block)
    kind.__doc__ = text
    return kind


def set_parameters(estimator: Any, given: Mapping[str, Any]) -> None:
    """Keep the arguments of a constructor, its ``locals()``, as they came: scikit-learn clones them by identity.

    Examples
    --------
    >>> class Scaled:
    ...     def __init__(self, factor=2):
    ...         set_parameters(self, locals())
    >>> Scaled(3).factor
    3
    """
    for name, value in given.items():
        if name != "self":
            setattr(estimator, name, value)
