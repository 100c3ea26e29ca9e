"""Sample the posterior of weights and dropout rates, as ArviZ groups: ``bd.sample``."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._progress import uninterrupted
from .._typing import ArvizData
from .._validation import check_count, check_flag, drawn_seed, takes_seed
from ..description import attributes
from ..designs import as_sampling_design
from ..fitting.by_formula import FormulaOptions, RowArguments, read_formula
from ..fitting.results.result import centred_columns
from ..model import Model, check_model
from ..noise.base import centre_of
from ..priors import RandomEffects
from ..sampling.protocols import natural
from ..sampling.run.late import LateInterruption
from ..sampling.run.stopping import Stop, check_ending
from .arviz_groups.builder import build_groups, provenance
from .arviz_groups.constants import model_constants, observed_group, parted
from .arviz_groups.groups import assemble
from .diagnostics.diagnosis import warn_of_run
from .diagnostics.response_spread import spread_of
from .draws.draws import draws_of
from .draws.new_rows import rows_of_design
from .noise_average.enumeration import MASKS
from .problem import Problem, sampler_settings
from .scores.pointwise import check_size, rows_group
from .scores.reweighting import judged, stated_approximation

if TYPE_CHECKING:
    import xarray as xr

    from ..sampling.run.runner import Run

__all__ = ["check_counts", "sample"]

# Maximum numbers of draws of a chain and of chains.
_MOST_DRAWS, _MOST_CHAINS = 10**8, 10**5
_TARGETS = {False: "noising", True: "marginalised"}


@takes_seed
def sample(
    model: Model | str,
    X: Any,
    y: Any = None,
    *,
    draws: int = 1000,
    tune: int | None = None,
    chains: int = 4,
    seed: Any = 0,
    method: Any = None,
    target: str | None = None,
    sample_weight: Any = None,
    class_weight: Any = None,
    offset: Any = None,
    feature_names: Sequence[str] | None = None,
    full_rank: bool = False,
    unseen: str = "error",
    dropna: bool = False,
    random_scale: Any = None,
    correlation_shape: float | int = RandomEffects.eta,
    log_likelihood: bool = False,
    masks: int = MASKS,
    checkpoint: Any = None,
    stop: Stop | None = None,
    max_seconds: float | int | None = None,
    thin: int = 1,
    progress: bool = True,
) -> ArvizData:
    """Draw from the posterior of weights, intercept and dropout rates.

    Parameters
    ----------
    model : Model or str
        Any model, with every loss, noise, rate structure and weight prior; or a formula with the data frame as ``X``,
        as in :func:`bayesdrop.fit`. A formula may contain Python expressions, which are executed: do not use formulas
        from untrusted sources. It is stored with the result, so that :func:`bayesdrop.predict` and other functions
        accept tables with its columns; for a result read from a file, only if the formula contains no Python code
        except arithmetic and the functions that a file may name.
    X : array, data frame, scipy sparse, Blocks or Dask collection (n, p)
        Features. Sparse input is never made dense. ``bd.Blocks`` and Dask collections are sampled by ``bd.HMC()`` in
        double precision: each leapfrog step of all chains is one pass over the data, one or two passes per draw without
        masks; up to rounding and the end of the point fit the draws are those for rows in memory. They need a normal
        weight prior, and ``bd.Softmax()`` a model without masks; a learnt scale costs up to 12 further fits.
    y : sequence of n labels or numbers, or data frame where X is a formula, optional
        Two classes with any labels (the larger label is the positive class), or more for ``bd.Softmax()``; numbers for
        a regression loss, or two columns, successes and failures, for ``bd.Binomial()``.
    draws, tune, chains : int, default=(1000, None, 4)
        Draws kept per chain, warm-up draws discarded before them, and number of chains, which run in parallel. By
        default ``tune`` is 300 for ``bd.Gibbs()``, 500 for ``bd.HMC()`` and 1,000 for ``bd.NUTS()``.
    seed : int, numpy.random.Generator, RandomState or JAX key, default=0
        Same seed, same result, on one machine.
    method : Gibbs, HMC or NUTS, optional
        By default ``bd.Gibbs()`` for models with masks and integer row weights, otherwise ``bd.HMC()``, which is exact
        without masks. For more than 1,500 weights with a learnt scale it is ``bd.Gibbs()``, or ``bd.NUTS()`` if the
        loss does not support Gibbs sampling. With masks ``bd.HMC()`` and ``bd.NUTS()`` are approximate: for few rows
        :func:`bayesdrop.reweight` corrects the draws, unless ``correct=False``; for many rows a warning reports the
        error.
    target : str, optional
        Which posterior to sample. ``"noising"``: the noise is part of the model, and every entry is dropped or kept,
        ``p(y | w, η) = Π_i [Σ_α p(α | η) exp{−C loss(y_i, wᵀ(x_i∘α) + b)}]^{s_i}``. ``"marginalised"``: the
        pseudo-posterior ``exp(−U)``, whose mode is ``bd.fit``'s, with the noise averaged inside the loss as its
        ``expectation`` says (rates must be fixed). By default "noising" if the noise has rates that are free or above
        0, otherwise "marginalised"; without noise the two are the same.
    sample_weight : array (n,), optional
        Row weights ``s_i``, >= 0: each row's likelihood, with the masks summed out, is raised to the power of its
        weight, so that a row of weight 2 counts as two equal rows. Rows of weight 0 are omitted. ``bd.Gibbs()`` needs
        integer weights for rows with an entry that can be dropped.
    class_weight : dict or "balanced", optional
        Weight of each class, by which the weights of its rows are multiplied (1 for classes that the dictionary omits);
        ``"balanced"`` gives all classes the same total weight. The likelihood of each row is raised to the product: the
        posterior is then that of a weighted loss, not that of the sampled population.
    offset : array (n,) or float, optional
        Known part of every row's score, ``offset + wᵀx̃ + b``, neither noised nor sampled, such as the logarithm of the
        exposure of a count. It is stored in ``constant_data``, and predictions for new rows need the offsets of those
        rows. Only for losses with one score per row, and for rows in memory. In a formula: ``offset(column)``.
    feature_names : sequence of p str, optional
        Names of the columns; taken from a data frame.
    full_rank, dropna : bool, default=False
        For a formula, as in :func:`bayesdrop.fit`.
    unseen : "error", "population" or "draw", default="error"
        For a formula, as in :func:`bayesdrop.fit`; "draw": a level of a random term that is not in these rows has an
        effect that is drawn from the distribution of the term, one for each draw.
    random_scale : HalfNormal, HalfCauchy, float, or mapping from term to one of them, optional
        For a formula with random terms, such as ``(1 | site)``, an intercept for each level of a column, or ``(0 + age
        | site)``, a slope: the prior of the standard deviation of the effects, or its value. By default
        ``bd.HalfNormal(1.0)``, for numeric responses times the standard deviation of the response minus the offset.
        Terms may cross, and ``site:year`` combines columns. The effects are not noised. ``(age | site)`` has intercepts
        and slopes that are correlated; in ``(age || site)`` they are independent. Correlated effects, and any where the
        features have ``bd.Laplace`` or ``bd.Horseshoe``, need ``bd.HMC()`` or ``bd.NUTS()`` and features without noise.
    correlation_shape : float, default=2.0
        For a formula with ``(age | site)``: the shape ``η`` of the LKJ prior of each correlation matrix, whose density
        is proportional to its determinant to the power ``η − 1``; above 0. 1 is flat, larger numbers prefer small
        correlations.
    log_likelihood : bool, default=False
        Add the group ``log_likelihood``: ``log p(y_i | w, b, η)`` for each draw and row, with the masks of the row
        summed out. :func:`bayesdrop.log_likelihood` adds it later.
    masks : int, default=64
        For ``log_likelihood``: the largest number of masks of a row that is enumerated, as in
        :func:`bayesdrop.log_likelihood`.
    checkpoint : path, optional
        Folder, created if absent, to which finished draws and the state of the sampler are written every half minute
        and at the end. An interrupted run continues when it is called again with the same arguments; on the same
        machine its draws are those of an uninterrupted run, bit for bit. With more ``draws`` in the second call the run
        is extended. If data or settings differ from those of the folder, an error names the difference.
    stop : Stop, optional
        Stop as soon as the criterion, such as ``bd.Stop(ess=400, r_hat=1.01)``, is met; ``draws`` is then the maximum.
    max_seconds : float, optional
        Maximal wall time of this call, compilation included. The draws that are finished by then are returned, with an
        ``IncompleteWarning``; with ``checkpoint`` the next call continues.
    thin : int, default=1
        Number of draws made per kept draw: after the warm-up every ``thin``-th draw of a chain is kept, and ``draws``,
        ``stop``, ``checkpoint`` and ``sample_stats`` count and hold kept draws. It changes no draw. Thinning saves
        memory and loses information, so use it only where draws do not fit in memory. The attribute ``thin`` of the
        result stores it.
    progress : bool, default=True
        Show a progress bar in a terminal or notebook; elsewhere, as in a log, one line at the end.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        The type that the installed ArviZ uses; :func:`bayesdrop.groups.dataset` reads a group of either. ``posterior``
        has ``weight`` (chain, draw, feature), ``intercept`` (chain, draw) if the model has one, and ``rate`` (chain,
        draw, feature or group) unless the rates are fixed, and ``weight_scale`` (chain, draw, and weight_group if there
        are groups) if the prior learns one; for ``(1 | site)`` the effects ``1|site`` (chain, draw, ``site|level``) and
        their scale ``1|site|scale`` if it is learnt, and of ``(age | site)`` the ``1+age|site|correlation`` (chain,
        draw, ``1+age|site|pair``); a learnt ``sigma`` or ``dispersion`` (chain, draw). With ``sigma``
        default priors are in units of the response's sd, the attribute ``response_spread``. ``sample_stats`` has the
        joint log density ``lp``, up to a constant; ``observed_data`` the responses ``y``, numbers, classes as 0 and 1,
        whose labels are the coordinate ``class``, or of two columns the successes; ``constant_data`` the ``trials`` of
        these, the priors or fixed rates, the group of each feature, and the ``centre`` of the noise if it is not 0. The
        attribute ``stopped`` says why the run ended: "draws", "target", "budget" or "interrupted".
        With ``bd.Softmax()`` ``weight`` and ``intercept`` have the dim ``class`` after ``draw``, and ``y`` is the
        number of the class. As only differences between classes change a probability, intercepts sum to zero over the
        classes, and so do weights unless their prior is ``bd.Laplace``, ``bd.Horseshoe`` or ``bd.SpikeSlab``.

    Raises
    ------
    ValueError
        If the data, labels, groups or a count are invalid; if ``checkpoint`` is damaged or belongs to another run; if
        the log density is not finite; if the posterior is improper (:mod:`bayesdrop.sampling.propriety`). The message
        names the argument and what to do.
    TypeError
        If ``method`` is not a sampler, does not record the variables of the model, or cannot take rows outside memory.
    TimeoutError
        If ``max_seconds`` has passed before a draw is kept.
    RuntimeError
        In a process forked (``os.fork``) from one that has sampled.

    Warns
    -----
    UnscaledWarning
        If the scale of some columns, which the warning names, suits neither the noise nor the prior, and the model
        cannot correct it.
    ApproximationWarning
        If masks were integrated as if scores were normal, the error of the log-likelihood has a standard deviation
        above 0.1 nat or a Pareto k above 0.5, and the draws were not corrected: use ``bd.reweight`` or ``bd.Gibbs()``.
    MixingWarning
        If an R-hat is above 1.01 and above the limit for this number of quantities (:func:`bayesdrop.diagnose`), or an
        effective sample size (bulk or tail) is below 400.
    IncompleteWarning
        If the run was interrupted from the keyboard, or ``max_seconds`` had passed. An interruption after the last
        draw keeps all draws; the warning names what was not computed, such as log likelihoods.

    See Also
    --------
    fit, diagnose, predict

    References
    ----------
    van Dyk & Park (2008), Partially collapsed Gibbs samplers, JASA 103.

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
    options = FormulaOptions(full_rank, unseen, dropna, random_scale, correlation_shape)
    rows = RowArguments(sample_weight, class_weight, offset)
    passed_model, X, y, feature_names, design, rows = read_formula(model, X, y, feature_names, options, rows)
    model = check_model(passed_model)
    check_counts(draws, tune, chains)
    check_count(thin, "thin", most=_MOST_DRAWS // int(draws))
    check_flag(log_likelihood, "log_likelihood")
    check_flag(progress, "progress")
    seed = drawn_seed(seed)
    check_count(masks, "masks")
    check_ending(stop, max_seconds, chains)
    problem = Problem.of(
        model, X, y, target=target, sample_weight=rows.sample_weight, class_weight=rows.class_weight,
        offset=rows.offset, feature_names=feature_names, wrap=as_sampling_design,
        formula=None if design is None else design.encoder,
    )  # fmt: skip
    centring, data, marginalised = problem.centring, problem.data, problem.marginalised
    method = problem.method(method)
    if log_likelihood and data.design.is_streamed:
        check_size(int(draws) * int(chains), data.design.shape[0])
    tune = int(method.warm_up if tune is None else tune)
    # Before the chains run, because their draws would be lost if a description could not be made.
    described = attributes(centring.original_model, data.classes, data.facts, data.feature_names)
    described |= {"settings": json.dumps(sampler_settings(method))}

    late = LateInterruption()
    result, choices = _run(
        problem, method, seed, model, checkpoint, draws=int(draws), tune=tune, chains=int(chains), thin=int(thin),
        stop=stop, max_seconds=max_seconds, progress=progress, late=late,
    )  # fmt: skip
    with late.whole():
        groups = _groups(problem, result)
    attrs = provenance(
        inference_method="mcmc", method=repr(method), target=_TARGETS[marginalised], model=repr(model), seed=seed,
        run=result, tune=tune, thin=thin,
    )  # fmt: skip
    attrs |= described | {"scale_ratio": centring.scale_ratio, **choices}
    if centring.centre is not None:
        attrs["centred"] = centred_columns(centring.centre)
    attrs |= {"unscaled": json.dumps(centring.unscaled)} if centring.unscaled else {}
    attrs |= late.optional("the spread of responses", lambda: spread_of(problem, groups), dict[str, float]())
    if method.integrates_masks and not marginalised:
        attrs |= stated_approximation(centring.original_model)
        correct, law = getattr(method, "correct", False), problem.rate_law
        groups, attrs = late.optional(
            "the error of the approximation (bd.reweight corrects it)",
            lambda: judged(groups, attrs, centring.original_model, data, law, correct, seed),
            (groups, attrs),
        )  # fmt: skip
    if log_likelihood:
        groups = late.optional(
            "log likelihoods (bd.log_likelihood adds them)",
            lambda: groups | {"log_likelihood": _log_likelihood(problem, groups["posterior"], masks)},
            groups,
        )  # fmt: skip
    with late.whole():
        for name in ("posterior", "constant_data"):
            groups[name] = parted(groups[name], centring.original_model.weight_prior)
        for group in groups.values():
            group.attrs.update(attrs)
    late.optional(
        "the diagnosis (bd.diagnose)",
        lambda: warn_of_run(groups, attrs, draws, max_seconds=max_seconds, resumable=checkpoint is not None),
        None,
    )  # fmt: skip
    with late.whole():
        tree = assemble(groups, attrs)
    late.warn()
    return tree


def _log_likelihood(problem: Problem, posterior: xr.Dataset, masks: int) -> xr.Dataset:
    """Log likelihoods of the sampled rows, as a group."""
    model, stored = problem.centring.original_model, problem.rows
    draws = draws_of(posterior, model, marginalised=problem.marginalised)
    rows = rows_of_design(stored.design, problem.data.feature_names, model)
    return rows_group(draws, rows, stored.target, stored.weight, stored.offset, masks=masks)


def check_counts(draws: Any, tune: Any, chains: Any) -> None:
    """Raise an error for invalid numbers of draws, of warm-up draws (None: the default of the method) or of chains."""
    check_count(draws, "draws", most=_MOST_DRAWS)
    if tune is not None:
        check_count(tune, "tune", most=_MOST_DRAWS)
    check_count(chains, "chains", most=_MOST_CHAINS)


def _run(
    problem: Problem, method: Any, seed: Any, model: Model, checkpoint: Any, *, late: LateInterruption, **options: Any
) -> tuple[Run, dict[str, str]]:
    """Draws by the names and on the scales of the posterior, and the normal approximation of the kernel.

    ``model`` is the user's.
    """
    with uninterrupted():
        import jax
        import xarray  # noqa: F401  # groups are xarray datasets

        from ..sampling.run.checkpoint import open_checkpoint
        from ..sampling.run.checks import check_process
        from ..sampling.run.fingerprint import fingerprint
        from ..sampling.run.runner import as_key, run

    check_process()
    # By default some accelerators round single-precision factors of products to ten bits.
    with jax.enable_x64(method.dtype == "float64"), jax.default_matmul_precision("highest"):
        kernel, operands = problem.bind(method, options["tune"])
        key = as_key(seed)
        with contextlib.ExitStack() as stack:
            store = None
            if checkpoint is not None:
                settings = {"model": model, "method": method, "target": _TARGETS[problem.marginalised]}
                settings |= {name: options[name] for name in ("chains", "tune", "thin")}
                table = fingerprint(problem.data, key, **settings)
                store = stack.enter_context(open_checkpoint(checkpoint, table))
            sizes = {dim: len(names) for dim, names in problem.coords.items()}
            result = run(
                kernel, operands, key, **options, checkpoint=store, required=problem.required, sizes=sizes, late=late
            )
    with late.whole():
        broken = [name for name, value in result.draws.items() if not np.all(np.isfinite(value))]
        if broken:
            raise ValueError(
                f"X: the draws of {broken} are not finite ({method.dtype}); bring the features to a common scale, "
                f'lower C or use method=bd.{type(method).__name__}(dtype="float64").'
            )
        return replace(result, draws=_original(result.draws, problem)), getattr(kernel, "choices", {})


def _original(draws: dict[str, Any], problem: Problem) -> dict[str, Any]:
    """Draws on the scales of the posterior, with intercepts for features that are not centred."""
    model, originals = problem.centring.original_model, problem.in_response_units(natural(draws))
    centre = centre_of(model.noise) if model.fit_intercept else None
    if centre is not None:
        # Use double precision, because wᵀc is added again when scores are computed.
        intercept = originals["intercept"].astype(np.float64)
        for place in np.ndindex(intercept.shape[:2]):  # one draw at a time, to save memory
            intercept[place] -= np.sum(originals["weight"][place].astype(np.float64) * centre, axis=-1)
        if model.loss.multiclass:
            intercept -= intercept.mean(axis=-1, keepdims=True)
        originals["intercept"] = intercept
    return originals


def _groups(problem: Problem, result: Run) -> dict[str, xr.Dataset]:
    """Draws and data as groups."""
    model, data, rows, rate_map = problem.centring.original_model, problem.data, problem.rows, problem.rate_map
    return build_groups(
        result.draws,
        variables=result.variables,
        statistics=result.statistics,
        coords=problem.coords,
        observed=observed_group(np.asarray(rows.target), data.classes, model.loss),
        constants=model_constants(
            model, rate_map, np.asarray(rows.weight), lambda: data.occurrences(rate_map.index, rate_map.size),
            rows.offset, np.asarray(rows.target),
        ),
    )  # fmt: skip
