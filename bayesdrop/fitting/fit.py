"""Fit a model: one convex energy at fixed rates, and the rates learnt around it.

See :mod:`.block` for the fit itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._typing import Float, Num
from ..data.dataset import read_rows
from ..data.levels import NO_DRAWS
from ..designs import as_design
from ..model import Model, check_model
from ..rates import RateMap
from ..rates.learnt import is_tuned
from .by_formula import FormulaOptions, RowArguments, read_formula
from .empty_columns import used_columns
from .objective.centring import CentredProblem, centre_problem
from .objective.energy import Energy
from .objective.softmax_energy import centred
from .problems.block import BlockFit, ProblemFit, Task, first_rates, fit_in_parts
from .problems.many_classes import fit_classes
from .results.laplace import laplace_covariances, residual_scale
from .results.result import Fit, RatePosterior
from .solvers.auxiliary import first_problem
from .solvers.driver import FitMethod, announce, check_minimiser
from .solvers.newton import Newton
from .solvers.state import SolverState
from .tuning.choose import choose_strength
from .tuning.folds import Rows
from .tuning.selection import Selection

__all__ = ["Solved", "fit", "rate_posterior", "shaped", "solve"]


def fit(
    model: Model | str,
    X: Any,
    y: Any = None,
    *,
    method: FitMethod[Energy, SolverState] | None = None,
    sample_weight: Any = None,
    class_weight: Any = None,
    groups: Any = None,
    offset: Any = None,
    feature_names: Sequence[str] | None = None,
    full_rank: bool = False,
    unseen: str = "error",
    dropna: bool = False,
    random_scale: Any = None,
) -> Fit:
    """Fit weights and dropout rates to classes, numbers or counts.

    Parameters
    ----------
    model : Model or str
        The model; or a formula, ``bd.fit("y ~ a + C(b)", data)``, with the data frame as ``X`` and no ``y``, which
        takes the default model for two classes, for more, or for numbers (squared loss, no noise).
    X : array, data frame, scipy sparse, Blocks or Dask collection (n, p)
        Features. Sparse input is never made dense; :class:`bayesdrop.Blocks` are read when needed. Or a formula,
        ``bd.fit(model, "y ~ a + C(b)", data)``; see :func:`bayesdrop.from_formula`. A formula may contain Python
        expressions, which are executed: do not use formulas from untrusted sources.
    y : sequence of n labels or numbers, optional
        Two classes with any labels (the larger label is the positive class), or more for ``bd.Softmax()``; numbers for
        a regression loss, or two columns, successes and failures, for ``bd.Binomial()``. If ``X`` is a formula, the
        data frame.
    method : Newton or EM, optional
        ``bd.Newton()`` by default; ``bd.Softmax()`` accepts no other.
    sample_weight : array (n,), optional
        Row weights, >= 0.
    class_weight : dict or "balanced", optional
        Weight of each class, by which the weights of its rows are multiplied; 1 for classes that the dictionary omits.
        ``"balanced"`` gives all classes the same total weight.
    groups : array (n,), optional
        Group of each row, such as the patient: ``bd.Tuned`` holds out whole groups when it chooses the strength of the
        noise.
    offset : array (n,) or float, optional
        Known part of every row's score, ``offset + wᵀx̃ + b``, neither noised nor penalised, such as the logarithm of
        the exposure of a count. Predictions for new rows need the offsets of those rows. Only for losses with one score
        per row, and for rows in this process or ``bd.Blocks``. In a formula: ``offset(column)``.
    feature_names : sequence of p str, optional
        Names of the columns; taken from a data frame.
    full_rank : bool, default=False
        For a formula: code factors by reference levels and contrasts, as in R, rather than by a column for every level.
    unseen : "error" or "population", default="error"
        For a formula: whether ``predict`` raises an error on a level that is not in these rows, or gives it the
        effect 0, of a factor and of a random term. Values are the same level whatever their types: 2, 2.0
        and ``"2"``, True and 1, a date and its ISO text.
    dropna : bool, default=False
        For a formula: omit the rows with a missing value in one of its columns, here and in every table that later
        functions are given.
    random_scale : float or mapping from term to float, optional
        For a formula with random terms, such as ``(1 | site)`` or ``(0 + age | site)``: the standard deviation of the
        effects of the levels, as in ``{"1|site": 0.5}``. The effects are not noised. To learn the standard deviation
        use :func:`bayesdrop.sample`.

    Returns
    -------
    Fit
        Weights, intercept, rates, their plug-in posterior, objective trace and status. With ``bd.Softmax()`` weights
        are (K, p), intercepts (K,), both sum to zero over the classes, and all classes share the rates.

    Raises
    ------
    ValueError
        If the data, labels or groups are invalid, or blocks change while they are read; the message names the argument
        and what to do.
    TypeError
        If ``method`` is not a minimiser.

    Warns
    -----
    UnscaledWarning
        If the scale of some columns, which the warning names, suits neither the noise nor the prior, and the model
        cannot correct it.

    See Also
    --------
    sample, Fit, DropoutLogisticRegression

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, 5, random_state=0)
    >>> result = bd.fit(bd.Model(rates=bd.PerFeature(bd.Beta(1, 1))), X, y)
    >>> result.status.name, result.rates.shape
    ('CONVERGED', (5,))
    >>> data = {"age": [31.0, 45, 52, 28], "site": ["n", "s", "e", "s"], "ill": ["no", "yes", "yes", "no"]}
    >>> result = bd.fit("ill ~ scale(age) + site", data)
    >>> result.predict({"age": [60.0], "site": ["n"]}).label.tolist()
    ['yes']
    >>> result = bd.fit("ill ~ scale(age) + (1 | site)", data, random_scale=0.5)
    >>> result.predict({"age": [60.0], "site": ["w"]}, unseen="population").label.tolist()
    ['yes']
    """
    if isinstance(unseen, str) and unseen == "draw":
        raise ValueError(f"unseen: {NO_DRAWS}")
    options = FormulaOptions(full_rank, unseen, dropna, random_scale)
    rows = RowArguments(sample_weight, class_weight, offset, groups)
    model_or_formula, design, default_options = model, None, FormulaOptions()
    has_options = any(value is not default for value, default in zip(options, default_options, strict=True))
    if isinstance(model, str) or isinstance(X, str) or y is None or has_options:
        model_or_formula, X, y, feature_names, design, rows = read_formula(model, X, y, feature_names, options, rows)
    model = check_model(model_or_formula)
    method = Newton() if method is None else check_minimiser(method)
    many = model.loss.multiclass
    all_rows = read_rows(
        model.loss, X, y, rows.sample_weight, feature_names, wrap=as_design, missing=model.missing,
        class_weight=rows.class_weight, offset=rows.offset,
    )  # fmt: skip
    if design is not None:
        all_rows = all_rows.of_formula(design.encoder)
    data = all_rows.checked(model.loss, fit_intercept=model.fit_intercept)
    origins = None
    if rows.groups is not None or is_tuned(model.rates):
        own_weight = data.weight if data.class_weight is None else data.sample_weight
        origins = replace(Rows.of(all_rows.weight, rows.groups), weight=own_weight)
    names, classes = data.feature_names, data.classes
    if many and not isinstance(method, Newton):
        raise ValueError(
            f"method: {model.loss!r} is fitted by Newton's method on all classes jointly, got {method!r}; take "
            "bd.Newton(tol=..., max_iter=...), or leave it out."
        )
    centring = centre_problem(model, data.design, data.weight, first_rates(model).bind(names), names)
    centring.advise_C()
    task = Task(
        centring.model, centring.design, data.target if many else data.target[:, None], data.weight, names, method,
        origins, len(np.asarray(classes)) if many else None, offset=data.offset,
    )  # fmt: skip
    solved = solve(task, centring)
    result, weights = solved.fit, solved.fit.weights
    sigma = None
    if model.loss.parameters:
        sigma = residual_scale(solved.model, task, replace(result, weights=centring.to_centred(weights)))
    return Fit(
        weight=np.ascontiguousarray(weights[:-1].T) if many else weights[:-1, 0],
        intercept=weights[-1] if many else float(weights[-1, 0]),
        rates=shaped(result.rates).T.copy(),
        rate_posterior=rate_posterior(solved.rate_map, result.posterior, result.occurrences),
        objective_trace=result.trace[:, 0],
        status=result.status,
        n_iter=result.iterations,
        solver=result.solver,
        feature_names=names,
        classes=classes,
        model=replace(model, rates=solved.model.rates, loss=solved.model.loss),
        sigma=sigma,
        centre=centring.centre,
        selection=solved.selection,
        offset=all_rows.offset,
        facts=data.facts,
        class_weight=data.weight_of_classes,
        covariance=None if solved.covariances is None else solved.covariances[0],
        _auxiliary=first_problem(result.auxiliary, all_rows.weight) if isinstance(result, BlockFit) else None,
    )


def shaped(part: Num[np.ndarray, ...]) -> Num[np.ndarray, ...]:
    """One problem, or what classes share, as a vector; several as a block.

    Examples
    --------
    >>> shaped(np.ones((3, 1))).shape, shaped(np.ones((3, 2))).shape
    ((3,), (3, 2))
    """
    return part if part.shape[1] > 1 else part[:, 0]


@dataclass(frozen=True)
class Solved:
    """A fit, with the weights (p + 1, K) of the user's columns and their covariances, and the ``model`` of the centred
    rows with its rates chosen.
    """

    model: Model
    rate_map: RateMap
    selection: Selection | None
    fit: ProblemFit
    covariances: Float[np.ndarray, "B D D"] | None


def solve(
    task: Task,
    centring: CentredProblem,
    earlier: tuple[Float[np.ndarray, "q K"], Float[np.ndarray, "p _"]] | None = None,
) -> Solved:
    """Choose the strength of the rates if it is ``bd.Tuned``, and fit all problems, or all classes jointly.

    Parameters
    ----------
    task : Task
        Model of the centred rows, their design and targets, and the minimiser.
    centring : CentredProblem
        The way back.
    earlier : (array (p + 1, K), array (p, _)), optional
        Weights for the user's columns, and rates, from which to start.
    """
    if any(not parameter.degree for parameter in task.model.loss.parameters):
        from .problems.shapes import fitted_shape

        task = replace(task, model=fitted_shape(task, lambda one, begin: _weights_and_rates(one, centring, begin)))
    whole, columns = task, used_columns(task) if np.sum(task.empty_columns) > 1 else None
    start = None if earlier is None else (centring.to_centred(earlier[0]), earlier[1])
    if columns is not None:
        task = columns.reduce(task)
        start = None if start is None else columns.start(start)
    if is_tuned(task.model.rates) and task.model.weight_prior.absolute_penalty(len(task.names)) is not None:
        raise ValueError(
            f"rates: bd.Tuned chooses by formulas that have no kink at zero weights, got {task.model.weight_prior!r}; "
            "give rates, as in bd.Fixed(0.1), or take bd.Normal(...)."
        )
    model, selection = choose_strength(task) if is_tuned(task.model.rates) else (task.model, None)
    rate_map = model.bind(task.names)
    if task.n_classes is None:
        result = fit_in_parts(replace(task, model=model), rate_map, start)
    else:
        result = fit_classes(
            model, task.design, rate_map, task.target, task.weight, task.n_classes, tol=task.method.tol,
            max_iter=task.method.max_iter, start=start, unlabelled=task.unlabelled,
        )  # fmt: skip
    if columns is not None:
        model = replace(model, weight_prior=whole.model.weight_prior)
        rate_map = model.bind(whole.names)
        result = columns.restore(result, rate_map.dim == "feature")
    weights = centring.to_original(result.weights)
    if task.n_classes is not None:
        weights = centred(weights)
    announce(result.status, result.iterations)
    # Rates above 0 are noise, whose fits have no covariance.
    covariances = None if np.any(result.rates) else laplace_covariances(model, whole, result, centring)
    return Solved(model, rate_map, selection, replace(result, weights=weights), covariances)


def _weights_and_rates(task: Task, centring: CentredProblem, start: Any) -> Any:
    """Weights for the centred rows, and rates, of a fit on the way to another."""
    at = None if start is None else (centring.to_original(start[0]), start[1])
    solution = solve(task, centring, at).fit
    return centring.to_centred(solution.weights), solution.rates


def rate_posterior(rate_map: RateMap, law: Any, occurrences: Num[np.ndarray, ...] | None) -> RatePosterior | None:
    """Plug-in posterior of learnt rates: (k,), or (k, K) where problems, or classes, have their own."""
    if law is None or occurrences is None:
        return None
    has_problems = occurrences.shape[1] > 1
    return RatePosterior(
        law.map(lambda part: part if has_problems else part[:, 0]), shaped(occurrences), rate_map.names, rate_map.dim
    )
