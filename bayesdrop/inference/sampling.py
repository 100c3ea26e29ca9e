"""``sample``: the posterior of weights and dropout rates, as ArviZ groups."""

from __future__ import annotations

import contextlib
import datetime
import json
import warnings
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import check_count, check_flag, check_instance, check_number
from ..centring import settle
from ..data import Data, prepare
from ..description import attributes
from ..designs import ShardedDesign, is_sharded, on_this_machine
from ..diagnosis import diagnose_groups
from ..draws import draws_of
from ..expectation import MASKS
from ..groups import arviz_beside, assemble
from ..model import Model, check_model
from ..noise.centre import centre_of
from ..pointwise import log_likelihood_group
from ..problems import approximation_problem
from ..rates import RateMap
from ..responses import observed_group
from ..results import centred_columns
from .approximation import ApproximationWarning, approximation_error
from .proper import check_proper
from .scales import natural
from .stopping import Stop
from .target import STATISTICS, check_sampler, default_method, is_marginalised, sampler_settings

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["IncompleteWarning", "MixingWarning", "sample"]

Array = Any

# Draws at which the error of an approximation is found.
_REPORTED_DRAWS = 256
# Draws of a chain, and chains, above which a run is a slip of the keyboard.
MOST_DRAWS, MOST_CHAINS = 10**8, 10**5


class MixingWarning(UserWarning):
    """The chains have not run for long enough, or disagree."""


class IncompleteWarning(UserWarning):
    """The run ended before it had what was asked for; it holds the draws that were finished."""


def sample(
    model: Model,
    X: Any,
    y: Any,
    *,
    draws: int = 1000,
    tune: int | None = None,
    chains: int = 4,
    seed: Any = 0,
    method: Any = None,
    target: str | None = None,
    sample_weight: Any = None,
    feature_names: Sequence[str] | None = None,
    log_likelihood: bool = False,
    masks: int = MASKS,
    checkpoint: Any = None,
    stop: Stop | None = None,
    max_seconds: float | None = None,
    progress: bool = True,
) -> Any:
    """Draw from the posterior of weights, intercept and dropout rates.

    Parameters
    ----------
    model : Model
        Any model: every loss, noise, rate structure and weight prior.
    X : array, data frame, scipy sparse or sharded jax.Array (n, p)
        Features. Sparse input is never made dense. A JAX array whose rows lie on several devices stays there, and
        devices that hold the same rows share the chains, as with ``PartitionSpec("rows", None)`` on a mesh of the axes
        ``("chains", "rows")``.
    y : sequence of n labels or numbers
        Two classes, any labels (the larger one is the positive class); numbers for a loss of regression.
    draws, tune, chains : int
        Draws kept of each chain, draws thrown away before them, and chains, which run side by side. By default ``tune``
        is what the method needs on data like the bundled ones: 300 for ``bd.Gibbs()``, 500 for ``bd.HMC()`` and 1,000
        for ``bd.NUTS()``.
    seed : int or JAX key
        Same seed, same result, on one machine.
    method : Gibbs, HMC or NUTS, optional
        By default the one that draws from the stated posterior exactly: ``bd.Gibbs()`` where there are masks, and
        ``bd.HMC()`` where there are none. On a model with masks ``bd.HMC()`` and ``bd.NUTS()`` integrate them
        approximately, say so, and state their error; see :func:`bayesdrop.reweight`.
    target : str, optional
        Which posterior. ``"noising"``: the noise is part of the model and every entry is dropped or kept,
        ``p(y | w, η) = Σ_α p(α | η) exp{−C Σ s_i loss(y_i, wᵀ(x_i∘α_i) + b)}``. ``"marginalised"``: the
        pseudo-posterior ``exp(−U)``, whose mode is ``bd.fit``'s, with the noise averaged inside the loss by the
        ``bound`` of the loss (rates must be fixed). By default "noising" where the noise has rates that are free or
        above 0, else "marginalised"; without noise the two are one.
    sample_weight : array (n,), optional
        Row weights, >= 0: powers of the rows' likelihoods. Rows of weight 0 are left out.
    feature_names : sequence of p str, optional
        Names of the columns; taken from a data frame.
    log_likelihood : bool
        Add the group ``log_likelihood``: of each draw and row ``log p(y_i | w, b, η)``, the masks of the row summed
        out, not given the masks of the chain, which have seen ``y_i``. See :func:`bayesdrop.log_likelihood`, which
        adds it later as well.
    masks : int
        For ``log_likelihood``: a row with no more masks than that has them enumerated, as in
        :func:`bayesdrop.log_likelihood`.
    checkpoint : path, optional
        Folder, made if absent, to which finished draws and the sampler's state go every half a minute and at the end.
        A run that was interrupted or killed goes on where it was when it is called again with the same arguments,
        and its draws are those of a run that was not, bit for bit on one machine. More ``draws`` in the second call
        are added to the first ones. Data or settings other than the folder's are an error that says which.
    stop : Stop, optional
        Stop early, as soon as ``bd.Stop(ess=400, rhat=1.01)`` finds the draws sufficient; ``draws`` is the maximum.
    max_seconds : float, optional
        Wall time that this call may take, compilation included. The draws that are finished then are returned, with
        an ``IncompleteWarning``; with ``checkpoint`` the next call goes on from there.
    progress : bool
        Show a progress bar.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        Whichever the installed ArviZ works with; :func:`bayesdrop.groups.dataset` reads a group of either.
        ``posterior`` has ``weight`` (chain, draw, feature), ``intercept`` (chain, draw) if the model has one, and
        ``rate`` (chain, draw, feature or group) unless the rates are fixed; ``sample_stats`` the joint log density
        ``lp``, up to a constant; ``observed_data`` the responses ``y``, numbers or classes as 0 and 1, whose labels are
        the coordinate ``class``; ``constant_data`` priors or fixed rates, the group of each feature, and the ``centre``
        of the noise where it is not 0. Masks and auxiliary variables are not kept. The attribute ``stopped`` says why
        the run ended: "draws", "target", "budget" or "interrupted".

    Raises
    ------
    ValueError
        If the data, the labels, the groups or a count do not fit; if ``checkpoint`` is damaged or belongs to another
        run; if the log density is not finite; if there is no proper posterior, as :mod:`bayesdrop.inference.proper`
        has it. The message names the argument and what to do.
    TypeError
        If ``method`` is no sampler, or does not record what the model has.
    TimeoutError
        If ``max_seconds`` is used up before a draw is kept.

    Warns
    -----
    UnscaledWarning
        If noise or prior do not fit some columns, which it names, and the model cannot mend it.
    ApproximationWarning
        If masks were integrated as if scores were normal and the log-likelihood is off by more than a nat (standard
        deviation over draws): correct the draws by :func:`bayesdrop.reweight`, or take ``bd.Gibbs()``.
    MixingWarning
        If some R-hat is above 1.01 or some effective sample size (bulk or tail) below 400.
    IncompleteWarning
        If the run was interrupted from the keyboard, or ``max_seconds`` was used up.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> import warnings
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(50, 3, n_informative=2, n_redundant=0, random_state=0)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # a few draws, for show
    ...     post = bd.sample(bd.Model(), X, y, draws=20, tune=20, chains=2, progress=False)
    >>> bd.groups.dataset(post, "posterior")["rate"].dims
    ('chain', 'draw', 'feature')
    """
    check_model(model)
    check_count(draws, "draws", most=MOST_DRAWS)
    if tune is not None:
        check_count(tune, "tune", most=MOST_DRAWS)
    check_count(chains, "chains", most=MOST_CHAINS)
    check_flag(log_likelihood, "log_likelihood")
    check_flag(progress, "progress")
    check_count(masks, "masks")
    X = ShardedDesign.of(X) if is_sharded(X) else X
    data = prepare(X, y, sample_weight, feature_names, model.loss.binary).with_weight()
    if is_sharded(X):
        _check_sharded(data)
    rate_map = model.bind(data.feature_names)
    settled = settle(model, data.X, data.weight, rate_map, data.feature_names)
    data = replace(data, X=settled.X)

    marginalised = is_marginalised(model, rate_map, target)
    check_proper(model, data, rate_map, marginalised)

    import jax

    from .checkpoint import open_checkpoint
    from .fingerprint import fingerprint
    from .runner import as_key, run

    _check_ending(stop, max_seconds, chains)

    method = default_method(model, marginalised) if method is None else check_sampler(method)
    tune = int(method.warm_up if tune is None else tune)
    # Some accelerators round the factors of products in single precision to ten bits unless told otherwise.
    with jax.enable_x64(method.dtype == "float64"), jax.default_matmul_precision("highest"):
        kernel, operands = method.bind(settled.model, data, rate_map, tune, marginalised=marginalised)
        key = as_key(seed)
        with contextlib.ExitStack() as stack:
            store = None
            if checkpoint is not None:
                settings = {"model": model, "method": method, "target": "marginalised" if marginalised else "noising"}
                table = fingerprint(data, key, **settings, chains=chains, tune=tune)
                store = stack.enter_context(open_checkpoint(checkpoint, table))
            result = run(
                kernel,
                operands,
                key,
                tune=tune,
                draws=int(draws),
                chains=int(chains),
                progress=progress,
                checkpoint=store,
                stop=stop,
                statistics=STATISTICS,
                required=_recorded(model, rate_map),
                max_seconds=max_seconds,
                meanwhile=stack.enter_context(arviz_beside()),
            )
    broken = [name for name, value in result.draws.items() if not np.all(np.isfinite(value))]
    if broken:
        raise ValueError(
            f"X: the draws of {broken} are not finite ({method.dtype}); bring the features to a common scale, lower C "
            f'or use method=bd.{type(method).__name__}(dtype="float64").'
        )
    result = replace(result, draws=natural(result.draws))
    groups = _groups(settled.stated, data, rate_map, result)
    if log_likelihood:
        found = draws_of(groups["posterior"], settled.stated, marginalised=marginalised)
        held = on_this_machine(data.X)
        groups["log_likelihood"] = log_likelihood_group(found, held, data.target, data.weight, masks)
    attrs = _attributes(model, method, seed, tune, marginalised, result) | attributes(settled.stated, data.classes)
    if settled.centre is not None:
        attrs["centred"] = centred_columns(settled.centre)
    if settled.unscaled:
        attrs["unscaled"] = json.dumps(settled.unscaled)
    attrs["scale_ratio"] = settled.scale_ratio
    if method.integrates_masks and not marginalised:
        attrs |= _approximation(groups["posterior"], settled.stated, replace(data, X=on_this_machine(data.X)))
    for group in groups.values():
        group.attrs.update(attrs)
    if not result.complete:
        reason = "interrupted" if result.stopped == "interrupted" else f"max_seconds: {max_seconds:g} s were used up"
        further = "" if checkpoint is None else "; call again with the same arguments to go on"
        warnings.warn(
            f"{reason}: {result.draws['lp'].shape[1]} of {draws} draws of each chain are there{further}. The attribute "
            "`complete` is 0.",
            IncompleteWarning,
            stacklevel=2,
        )
    size = result.draws["lp"].size
    wrong = approximation_problem(attrs, size)
    if wrong is not None:
        warnings.warn(f"{wrong.text}. {wrong.advice}", ApproximationWarning, stacklevel=2)
    # An early end and an approximation have warnings of their own.
    known = {name: value for name, value in attrs.items() if not name.startswith("approximation")}
    advice = diagnose_groups(groups, known | {"complete": 1}).advice
    if advice:
        warnings.warn(advice, MixingWarning, stacklevel=2)
    return assemble(groups, attrs)


def _approximation(posterior: xr.Dataset, model: Model, data: Data) -> dict[str, str | int | float]:
    """Attributes that say what was approximated, and how well, at a few hundred draws."""
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    few = draws_of(posterior, model, min(-(-_REPORTED_DRAWS // chains), draws), marginalised=False)
    found = approximation_error(few, data)
    attrs: dict[str, str | int | float] = {
        "approximation": "masks are integrated as if scores were normal; bd.Gibbs() draws them",
        "approximation_error": found.per_row,
        "approximation_total": found.total,
        "approximation_bound": found.bound,
        "approximation_resolved": int(found.resolved),
        "approximation_draws": found.draws,
        "approximation_rows": found.rows,
    }
    return attrs if np.isnan(found.pareto_k) else attrs | {"approximation_pareto_k": found.pareto_k}


def _check_sharded(data: Data) -> None:
    """Raise an error unless a sampler can take sharded features as they are."""
    if data.X.processes > 1:
        raise ValueError(
            f"X: {data.X.processes} processes hold its rows, and bd.sample takes those of one, on as many devices as "
            "it has; run the sampler in one process, on fewer rows if need be. bd.fit takes rows of several."
        )
    if np.any(data.weight == 0):
        raise ValueError(
            "sample_weight: rows of weight zero are left out of a posterior, which sharded features do not allow; "
            "leave them out of X and y, with a number of rows that the devices can share equally."
        )


def _check_ending(stop: Any, max_seconds: Any, chains: int) -> None:
    """Raise an error unless the rules for an early end make sense."""
    check_instance(stop, "stop", Stop, "a rule such as bd.Stop(ess=400)", none=True)
    if stop is not None and chains < 2:
        raise ValueError("stop: one chain cannot show whether it has converged (R-hat); run at least 2, better 4.")
    if max_seconds is not None:
        check_number(max_seconds, "max_seconds", above=0)


def _recorded(model: Model, rate_map: RateMap) -> tuple[str, ...]:
    """What any sampler of the model must record."""
    optional = [("intercept", model.fit_intercept), ("rate", rate_map.is_free)]
    return ("lp", "weight", *(name for name, there in optional if there))


_SCALARS = ("intercept", "sigma", "global_scale")


def _groups(model: Model, data: Data, rate_map: RateMap, result: Any) -> dict[str, xr.Dataset]:
    """Draws, data and priors as datasets."""
    import xarray as xr

    chains, draws = result.draws["lp"].shape
    steps = {"chain": np.arange(chains), "draw": np.arange(draws)}
    features = np.array(data.feature_names)
    coords: dict[str, Any] = {**steps, "feature": features}
    posterior: dict[str, Any] = {"weight": (("chain", "draw", "feature"), result.draws["weight"])}
    posterior |= {name: (("chain", "draw"), result.draws[name]) for name in _SCALARS if name in result.draws}
    constant: dict[str, Any] = dict(model.weight_prior.constants(len(features)))
    centre = centre_of(model.noise)
    if centre is not None:
        constant["centre"] = ("feature", centre)
        if model.fit_intercept:
            # In double precision, for wᵀc is taken off here and added again wherever scores are computed.
            inner = np.asarray(result.draws["intercept"], dtype=np.float64)
            posterior["intercept"] = (("chain", "draw"), inner - result.draws["weight"].astype(np.float64) @ centre)
    if model.loss.variance_prior is not None:
        constant["variance_prior_shape"] = ((), model.loss.variance_prior.shape)
        constant["variance_prior_scale"] = ((), model.loss.variance_prior.scale)
    fixed_coords: dict[str, Any] = {"feature": features}
    if rate_map.is_free:
        coords[rate_map.dim] = fixed_coords[rate_map.dim] = np.array(rate_map.names)
        posterior["rate"] = (("chain", "draw", rate_map.dim), result.draws["rate"])
        if rate_map.hierarchy is not None:
            groups = np.array(rate_map.hierarchy.names)
            coords["group"] = fixed_coords["group"] = groups
            posterior |= {
                name: (("chain", "draw", "group"), result.draws[name]) for name in ("group_rate", "group_strength")
            }
            constant |= rate_map.hierarchy.constants()
            constant["feature_group"] = ("feature", groups[rate_map.hierarchy.index])
        else:
            prior = rate_map.prior.concentrations(data.occurrences(rate_map.index, rate_map.size))
            constant["rate_prior_a"], constant["rate_prior_b"] = ((rate_map.dim, part) for part in prior)
        if rate_map.dim == "group":
            constant["feature_group"] = ("feature", np.array(rate_map.names)[rate_map.index])
    else:
        constant["fixed_rate"] = ("feature", rate_map.initial)
    stats = {name: (("chain", "draw"), result.draws[name]) for name in STATISTICS if name in result.draws}
    if np.any(data.weight != 1):
        constant["row_weight"] = ("obs_id", data.weight)
        fixed_coords["obs_id"] = np.arange(len(data.target))
    return {
        "posterior": xr.Dataset(posterior, coords=coords),
        "sample_stats": xr.Dataset(stats, coords=steps),
        "observed_data": observed_group(data.target, data.classes, binary=model.loss.binary),
        "constant_data": xr.Dataset(constant, coords=fixed_coords),
    }


def _attributes(
    model: Model, method: Any, seed: Any, tune: int, marginalised: bool, result: Any
) -> dict[str, str | int | float]:
    """Where the draws come from; text and numbers only, as netCDF takes them."""
    attrs: dict[str, str | int | float] = {
        "inference_library": "bayesdrop",
        "inference_library_version": version("bayesdrop"),
        **{f"{name}_version": version(name) for name in ("jax", "numpyro", "arviz")},
        "created_at": datetime.datetime.now(datetime.UTC).isoformat(),
        "sampling_time": result.seconds,
        "tuning_steps": int(tune),
        "complete": int(result.complete),
        "stopped": result.stopped,
        "seed": int(seed) if isinstance(seed, int | np.integer) else repr(seed),
        "model": repr(model),
        "method": repr(method),
        "target": "marginalised" if marginalised else "noising",
        "settings": json.dumps(sampler_settings(method)),
    }
    return attrs
