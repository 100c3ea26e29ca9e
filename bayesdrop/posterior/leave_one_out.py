"""Score rows by leave-one-out cross-validation from a posterior, and by refits for rows with too much influence.

The scores of :func:`loo` are importance-sampling estimates from one posterior. The
estimate of a row with a large Pareto k is unreliable; ``refit=True`` samples the model again without the row (Vehtari,
Gelman & Gabry 2017, section 2.1).
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from .._display import compared_texts
from .._progress import step, waiting
from .._typing import Float, Int, PerRow
from .._validation import check_flag, one_per_row
from ..data.column_facts import complete_rows, response_in
from ..data.responses import read_pairs
from ..designs import Design
from ..gibbs.method import Gibbs
from ..hmc.method import HMC
from ..hmc.nuts import NUTS
from ..warnings import InfluenceWarning, warn
from .arviz_groups.groups import dataset, group_names, read_attributes
from .diagnostics.mixing import largest_k, smoothed_log_weights
from .draws.draws import Draws, read_draws, stored_constants, stored_offset
from .draws.new_rows import check_rows, match_design
from .held_out import HeldOut
from .scores.pointwise import observed_response, warn_of_pseudo_likelihood
from .scores.smoothed_loo import smoothed_loo, with_refits

__all__ = ["held_out_of", "left_out_log_weights", "left_out_weights", "loo"]


def loo(post: Any, X: Any = None, y: Any = None, *, refit: bool = False, method: Any = None) -> Any:
    """Leave-one-out cross-validation from one posterior, by Pareto-smoothed importance sampling.

    Parameters
    ----------
    post : InferenceData or DataTree
        A posterior with the group ``log_likelihood``, from :func:`log_likelihood` or
        ``bd.sample(..., log_likelihood=True)``. A group of more than 2²³ numbers, in memory or in a file, is processed
        a block of rows at a time.
    X, y : optional
        For ``refit=True``: the rows that were sampled, as in :func:`log_likelihood`, in memory.
    refit : bool, default=False
        Whether to sample again without each row whose Pareto k is too large, with the same model, settings and numbers
        of draws, and replace its score by the one under that posterior. It takes one run per such row.
    method : Gibbs, HMC or NUTS, optional
        For ``refit=True``: the sampler, by default the one that ``post`` was sampled by. A posterior that was not
        sampled, of ``bd.variational`` or ``bd.project``, needs it; its warm-up is then the default.

    Returns
    -------
    arviz.ELPDData
        Expected log predictive density, its standard error and the diagnostic ``pareto_k`` of each row: 0 of rows that
        were refitted, which ``pareto_k.attrs["refitted"]`` lists.
        ``arviz.compare({"one": post, "other": other})`` compares models of the same data.

    Raises
    ------
    TypeError, ValueError
        If ``post`` is not from ``bd.sample`` or has no group ``log_likelihood``; with ``refit=True``, if the rows are
        missing or not those that were sampled, or the sampler is not one of this package.

    Warns
    -----
    InfluenceWarning
        If some rows have a Pareto k above what the number of draws allows (0.7 with 2,000 or more); the message says
        what to do.
    PseudoLikelihoodWarning
        If the scores are those of a pseudo-likelihood: of a hinge, of classes with ``C`` or row weights other than 1,
        or with the noise averaged inside the loss. They can rank rate structures and priors under one loss and one
        ``C``; it is meaningless to compare a hinge with a logistic loss, or two values of ``C``, by them.

    See Also
    --------
    log_likelihood, elpd, kfold

    Notes
    -----
    Vehtari, Gelman & Gabry (2017). With row weights a score is that of the weighted likelihood: a row of weight 2 is
    left out as a whole.

    References
    ----------
    Vehtari, Gelman & Gabry (2017), Practical Bayesian model evaluation using leave-one-out cross-validation and WAIC,
    Statistics and Computing 27.

    Examples
    --------
    >>> import xarray as xr
    >>> import bayesdrop as bd
    >>> from bayesdrop.description import attributes
    >>> generator = np.random.default_rng(0)
    >>> weight = xr.Dataset({"weight": (("chain", "draw", "feature"), generator.normal(size=(2, 500, 1)))})
    >>> weight = weight.assign_coords(feature=["x0"], chain=[0, 1], draw=np.arange(500))
    >>> observed = xr.Dataset({"y": ("obs_id", [0, 1])})
    >>> model = bd.Model(rates=bd.Fixed(0.5), fit_intercept=False)
    >>> post = bd.groups.assemble({"posterior": weight, "observed_data": observed}, attributes(model, ["no", "yes"]))
    >>> int(loo(bd.log_likelihood(post, [[0.3], [0.5]], ["no", "yes"])).n_data_points)
    2
    """
    draws = read_draws(post)
    _check_likelihoods(post)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ's warning about Pareto k; ours follows
        result = smoothed_loo(post)
    k = np.asarray(result.pareto_k).ravel()
    limit = largest_k(draws.size)
    poor = np.flatnonzero(~(k <= limit))
    if check_flag(refit, "refit"):
        result = with_refits(result, poor, _refitted(post, draws, X, y, poor, method))
    elif len(poor):
        first = ", ".join(str(row) for row in poor[:5]) + (" …" if len(poor) > 5 else "")
        largest, bound = compared_texts(float(np.nanmax(k)), limit, ".2f")
        warnings.warn(
            f"{len(poor)} of {len(k)} rows have a Pareto k above {bound} (rows {first}; largest "
            f"{largest}): their scores, and the sum, are unreliable. Use more draws; look at these "
            "rows; or sample again without each of them, which is exact: bd.loo(post, X, y, refit=True).",
            InfluenceWarning,
            stacklevel=2,
        )
    warn_of_pseudo_likelihood(draws, "row_weight" in stored_constants(post))
    return result


def left_out_weights(post: Any) -> Float[np.ndarray, "S n"]:
    """Weights of the draws (chains concatenated) for the posterior without each row, of sum 1.

    Parameters
    ----------
    post : InferenceData or DataTree
        A posterior with the group ``log_likelihood``.

    Raises
    ------
    ValueError
        If there is no such group.

    Warns
    -----
    InfluenceWarning
        If the weights of some rows are unreliable, as :func:`loo` says.

    Examples
    --------
    >>> import xarray as xr
    >>> import bayesdrop as bd
    >>> likelihood = {"log_likelihood": xr.Dataset({"y": (("chain", "draw", "obs_id"), np.zeros((2, 50, 1)))})}
    >>> bool(np.allclose(left_out_weights(bd.groups.assemble(likelihood)), 0.01))
    True
    """
    _check_likelihoods(post)
    likelihoods = dataset(post, "log_likelihood")
    values = likelihoods[next(iter(likelihoods.data_vars))].transpose("chain", "draw", ...).values
    advice = (
        "what the posterior without them predicts is unreliable. Use more draws, or look at these rows (bd.loo lists "
        "them)."
    )
    logs = values.reshape(values.shape[0] * values.shape[1], -1).astype(np.float64)
    return np.exp(left_out_log_weights(logs.T, advice)).T


def left_out_log_weights(logs: Float[np.ndarray, "n S"], advice: str) -> Float[np.ndarray, "n S"]:
    """Logarithms of the Pareto-smoothed weights of the draws for the posterior without each row.

    Warns
    -----
    InfluenceWarning
        If a Pareto k is larger than the number of draws allows, with the given advice.

    Examples
    --------
    >>> bool(np.allclose(left_out_log_weights(np.zeros((2, 100)), ""), np.log(1 / 100)))
    True
    """
    weights, shapes = zip(*(smoothed_log_weights(-row) for row in logs), strict=True)
    k, limit = np.array(shapes), largest_k(logs.shape[1])
    if poor := int(np.sum(~(k <= limit))):
        warn(
            f"{poor} of {len(k)} rows have a Pareto k above {limit:.2f} (largest {k.max():.2f}): {advice}",
            InfluenceWarning,
        )
    return np.stack(weights)


def _check_likelihoods(post: Any) -> None:
    if "log_likelihood" not in group_names(post):
        raise ValueError(
            "post: expected a group 'log_likelihood'; add it by bd.log_likelihood(post, X, y), or sample with "
            "log_likelihood=True."
        )


def _refitted(
    post: Any, draws: Draws, X: Any, y: Any, rows: Int[np.ndarray, " m"], method: Any
) -> Float[np.ndarray, " m"]:
    """Scores of some rows, each under a posterior sampled without the row."""
    X, y = complete_rows(X, draws.feature_names, draws.facts, y)
    y = response_in(X, draws.feature_names, draws.facts, y)
    for name, value in (("X", X), ("y", y)):
        if value is None:
            raise TypeError(f"{name}: refit=True expects the rows that were sampled, got none.")
    design: Any = match_design(X, draws.feature_names, draws.model, draws.facts)
    n = design.shape[0]
    check_rows(post, n)
    observed_response(post, draws, design, y)
    counts = read_pairs(draws.model.loss, y)
    held_out = held_out_of(post, draws, design, one_per_row(y, n) if counts is None else counts, method)
    scores = np.empty(len(rows))
    with waiting("refits", "row"):
        for number, row in enumerate(rows):
            scores[[number]], _ = held_out.scores(np.delete(np.arange(n), row), np.array([row]), weighted=True)
            step()
    return scores


def held_out_of(post: Any, draws: Draws, design: Design, labels: PerRow, method: Any = None) -> HeldOut:
    """Prepare to sample again without some rows, with the model, settings and numbers of draws of a posterior.

    Parameters
    ----------
    post : InferenceData or DataTree
        From ``bd.sample``.
    draws : Draws
        Draws of ``post``.
    design : Design (n, p)
        All rows of ``post``, in the order of its features.
    labels : array (n,) or (n, 2)
        Responses of these rows.
    method : Gibbs, HMC or NUTS, optional
        By default the one that ``post`` was sampled by.
    """
    constant, posterior = stored_constants(post), dataset(post, "posterior")
    attrs = read_attributes(post)
    tune, seed = attrs.get("tuning_steps"), attrs["seed"]
    options = {
        "method": _method_of(attrs) if method is None else method,
        "target": attrs["target"],
        "draws": posterior.sizes["draw"],
        "tune": None if tune is None else int(tune),
        "thin": int(attrs.get("thin", 1)),
        "chains": posterior.sizes["chain"],
        "seed": seed if isinstance(seed, int) else 0,
        "progress": False,
    }
    weight = constant["row_weight"].values if "row_weight" in constant else None
    return HeldOut(draws.model, design, labels, weight, stored_offset(post), draws.feature_names, options)


def _method_of(attrs: Mapping[str, Any]) -> Any:
    """Sampler with the settings that a posterior stores."""
    kinds: dict[str, Any] = {kind.__name__: kind for kind in (Gibbs, HMC, NUTS)}
    name = str(attrs.get("method", "")).partition("(")[0]
    if name not in kinds or "settings" not in attrs:
        raise ValueError(
            f"method: expected a posterior of bd.Gibbs(), bd.HMC() or bd.NUTS(), got one of {attrs.get('method')!r}; "
            "sample the model, or give bd.loo the sampler, as in method=bd.HMC()."
        )
    settings = json.loads(attrs["settings"])
    field_names = {field.name for field in fields(kinds[name]) if field.init and field.repr}
    sampler = kinds[name](**{key: value for key, value in settings.items() if key in field_names})
    return replace(sampler, correct=True) if attrs.get("reweighted") else sampler
