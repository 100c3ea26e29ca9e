"""Draw from the posterior of a hidden layer whose inputs are noised: weights of both layers and dropout rates.

The density does not change if units are permuted or, with free intercepts, if the signs of a unit are flipped:
``σ(−u) = 1 − σ(u)``, so that ``(α_k, a_k, w_k, b)`` and ``(−α_k, −a_k, −w_k, b + w_k)`` have the same scores and, under
symmetric priors, the same density. A chain visits some of the ``2^K K!`` equal modes. Therefore each draw is relabelled
to be nearest to a reference (Stephens 2000, with squared distance as loss): an assignment problem of the units, each
with its better sign. Multimodality that remains shows as a large R-hat.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .._typing import ArvizData, Float
from .._validation import MOST_PARTS, check_count, check_flag, drawn_seed, shown, takes_seed
from ..data.dataset import Dataset, as_dataset
from ..data.responses import check_responses
from ..description import attributes
from ..losses.protocols import Scored, require
from ..model import Model, check_model, refuse_stated_priors, require_complete
from ..noise.base import require_zero_centre
from ..posterior.arviz_groups.builder import build_groups, provenance
from ..posterior.arviz_groups.constants import model_constants, model_coords, observed_group
from ..posterior.arviz_groups.groups import assemble
from ..posterior.diagnostics.diagnosis import warn_of_run
from ..posterior.sampling import check_counts
from ..sampling.run.late import LateInterruption
from .objective.rules import RULES

if TYPE_CHECKING:
    import xarray as xr

    from ..sampling.run.runner import Run

__all__ = ["align_units", "sample_latent"]


@takes_seed
def sample_latent(
    model: Model,
    X: Any,
    y: Any,
    *,
    n_hidden: int = 5,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    seed: Any = 0,
    method: Any = None,
    sample_weight: Any = None,
    feature_names: Sequence[str] | None = None,
    progress: bool = True,
) -> ArvizData:
    """Draw from the posterior of a predictor with one hidden layer of logistic units.

    The density is that of :mod:`bayesdrop.latent.density`: the noise of the inputs is propagated through the units to
    first order, as in ``bd.LatentDropoutSVC``, and the resulting score is treated as normal. Hidden weights
    have the model's ``weight_prior``, output weights a standard normal, hidden intercepts ``N(0, 3²)``.

    Permuting units or flipping their signs does not change the predictor, so the draws of all chains are brought to one
    labelling (:func:`bayesdrop.latent.sampling.align_units`). Modes that differ otherwise show as a large R-hat of the
    weights; rates, ``lp`` and predictions do not depend on labels.

    Parameters
    ----------
    model : Model
        Loss, noise, rates, ``C`` and weight prior (normal).
    X : array, data frame or scipy sparse (n, p)
        Features. Sparse input is never made dense.
    y : sequence of n labels or numbers
        Two classes, or numbers for a regression loss.
    n_hidden : int, default=5
        Hidden units, at least 1.
    draws, tune, chains : int, default=(1000, 1000, 4)
        Draws kept per chain, warm-up draws discarded before them, and number of chains.
    seed : int, numpy.random.Generator, RandomState or JAX key, default=0
        Same seed, same result, on one machine.
    method : NUTS, optional
        ``bd.NUTS()`` by default.
    sample_weight : array (n,), optional
        Row weights, >= 0.
    feature_names : sequence of p str, optional
        Names of the columns; taken from a data frame.
    progress : bool, default=True
        Show a progress bar if standard error is a terminal; otherwise, as in a notebook, one line at the end.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        ``posterior`` has ``hidden_weight`` (chain, draw, hidden, feature), ``output_weight`` (chain, draw, hidden),
        ``hidden_intercept`` and ``intercept`` if the model has intercepts, and ``rate`` unless the rates are fixed;
        ``observed_data`` as in ``bd.sample``. The attribute ``complete`` is 0 if the run was interrupted.

    Raises
    ------
    ValueError
        If the data or a count are invalid, the weight prior is not normal, or the likelihood has a learnt scale.

    Warns
    -----
    IncompleteWarning
        If the run was interrupted from the keyboard; the finished draws are returned.
    MixingWarning
        If some R-hat exceeds 1.01 and the limit for the largest of as many R-hats of chains that agree
        (:func:`bayesdrop.diagnose`), or some effective sample size is below 400.

    See Also
    --------
    LatentDropoutLogisticRegression, sample

    References
    ----------
    - Hoffman & Gelman (2014), The No-U-Turn Sampler, JMLR 15.
    - Stephens (2000), Dealing with label switching in mixture models, JRSS B 62.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> import warnings
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # a few draws, for show
    ...     post = bd.sample_latent(bd.Model(), X, y, n_hidden=2, draws=5, tune=5, chains=2, progress=False)
    >>> bd.groups.dataset(post, "posterior")["hidden_weight"].shape
    (2, 5, 2, 2)
    """
    from ..hmc.nuts import NUTS

    check_model(model)
    check_count(tune, "tune")
    check_counts(draws, tune, chains)
    check_count(n_hidden, "n_hidden", most=MOST_PARTS)
    check_flag(progress, "progress")
    seed = drawn_seed(seed)
    if not model.weight_prior.gaussian or model.loss.parameters:
        raise ValueError(
            "model: a hidden layer takes normal weight priors and a likelihood of known scale and shape, such as "
            f"bd.Squared(variance=1.0), got {model.weight_prior!r} and {model.loss!r}."
        )
    require_zero_centre(model.noise, "a hidden layer")
    require_complete(model, "a hidden layer")
    data = as_dataset(X, y, sample_weight, feature_names, model.loss.binary).with_weight()
    refuse_stated_priors(model, len(data.feature_names), "a hidden layer")
    check_responses(model.loss, data.design, data.target, fit_intercept=model.fit_intercept)
    method = NUTS() if method is None else method
    if not isinstance(method, NUTS):
        raise TypeError(f"method: expected bd.NUTS(), got {shown(method)}.")
    # Before the chains run, because their draws would be lost if a description could not be made.
    described = attributes(model, data.classes, data.facts, data.feature_names)
    late = LateInterruption()
    result = _run(model, data, int(n_hidden), int(draws), int(tune), int(chains), seed, method, progress, late)
    with late.whole():
        groups = _groups(model, data, result)
    attrs = provenance(
        inference_method="mcmc", method=repr(method), target="hidden layer", model=repr(model), seed=seed, run=result,
        tune=int(tune),
    )  # fmt: skip
    attrs |= described | {
        "n_hidden": int(n_hidden),
        "units": "aligned: permuted and turned to the labelling of the most probable draw",
        "approximation": "noise is carried through the hidden layer to first order and scores are taken as normal",
    }
    for group in groups.values():
        group.attrs.update(attrs)
    late.optional("the diagnosis (bd.diagnose)", lambda: warn_of_run(groups, attrs, draws), None)
    with late.whole():
        posterior = assemble(groups, attrs)
    late.warn()
    return posterior


def _run(
    model: Model, data: Dataset, units: int, draws: int, tune: int, chains: int, seed: Any, method: Any,
    progress: bool, late: LateInterruption,
) -> Any:  # fmt: skip
    """Run the sampler and return its draws, by name."""
    import jax
    import jax.numpy as jnp

    from ..hmc.binding import operands_of
    from ..hmc.nuts import NUTSKernel, NUTSOperands
    from ..sampling.run.checks import check_process
    from ..sampling.run.runner import as_key, run
    from .density import LatentDensity

    check_process()

    rate_map = model.bind(data.feature_names)
    p = len(data.feature_names)
    model.noise.check(data.design.minimum())
    # Some accelerators round the factors of products in single precision to ten bits by default.
    with jax.enable_x64(method.dtype == "float64"), jax.default_matmul_precision("highest"):
        real = partial(jnp.asarray, dtype=method.dtype)
        loss = require(
            model.loss.plain, Scored, "the posterior of a hidden layer", "write its cost under normal scores"
        )
        density = LatentDensity(loss, model.noise, units, p, model.fit_intercept, rate_map.size, rate_map.dim)
        operands = operands_of(model, data, rate_map, method.dtype)
        kernel = NUTSKernel(density, tune, method)
        whitened = NUTSOperands(operands, real(np.zeros(density.size)), real(np.ones(density.size)))
        return run(kernel, whitened, as_key(seed), tune=tune, draws=draws, chains=chains, progress=progress, late=late)


def _groups(model: Model, data: Dataset, result: Run) -> dict[str, xr.Dataset]:
    """Draws with aligned units, and the data, as ArviZ groups."""
    draws = result.draws
    hidden = np.asarray(draws["hidden_weight"])
    chains, count, units, p = hidden.shape
    total = chains * count
    nothing = np.zeros((chains, count, units))
    aligned = align_units(
        hidden.reshape(total, units, p),
        np.reshape(draws.get("hidden_intercept", nothing), (total, units)),
        np.reshape(draws["output_weight"], (total, units)),
        np.reshape(draws.get("intercept", nothing[:, :, 0]), total),
        reference=int(np.argmax(draws["lp"])),
        turn=model.fit_intercept,
    )
    names = ("hidden_weight", "hidden_intercept", "output_weight", "intercept")
    by_chain = {
        name: np.reshape(value, (chains, count, *np.shape(value)[1:]))
        for name, value in zip(names, aligned, strict=True)
    }
    rate_map = model.bind(data.feature_names)
    return build_groups(
        draws | by_chain,
        variables=result.variables,
        statistics=result.statistics,
        coords=model_coords(rate_map, data.feature_names) | {"hidden": [f"hidden{k}" for k in range(units)]},
        observed=observed_group(data.target, data.classes, model.loss),
        constants=model_constants(
            model, rate_map, data.weight, lambda: data.occurrences(rate_map.index, rate_map.size)
        ),
    )


def align_units(
    hidden: Float[np.ndarray, "S K p"],
    shift: Float[np.ndarray, "S K"],
    output: Float[np.ndarray, "S K"],
    intercept: Float[np.ndarray, " S"],
    reference: int = 0,
    turn: bool = True,
) -> tuple[Float[np.ndarray, "S K p"], Float[np.ndarray, "S K"], Float[np.ndarray, "S K"], Float[np.ndarray, " S"]]:
    """Permute the units of each draw and flip their signs to match a common reference.

    Parameters
    ----------
    hidden : array (S, K, p)
        Hidden weights of ``S`` draws.
    shift, output : array (S, K)
        Hidden intercepts and output weights.
    intercept : array (S,)
        Output intercepts.
    reference : int
        Index of the draw that is the first reference; later references are means of the aligned draws.
    turn : bool
        Whether signs of units may be flipped, which needs an output intercept.

    Returns
    -------
    hidden, shift, output, intercept : arrays
        Draws of the same predictors, with aligned units.

    Examples
    --------
    >>> one = np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> hidden = np.stack([one, -one[::-1]])
    >>> found = align_units(hidden, np.zeros((2, 2)), np.array([[1.0, 2.0], [-2.0, -1.0]]), np.zeros(2))
    >>> bool(np.all(found[0][0] == found[0][1])), found[3].tolist()
    (True, [0.0, -3.0])
    """
    from scipy.optimize import linear_sum_assignment

    whole = np.concatenate([hidden, shift[:, :, None], output[:, :, None]], axis=2).astype(np.float64)
    intercept = np.array(intercept, dtype=np.float64)
    centre = whole[reference]
    for _ in range(RULES.alignments):
        before = whole.copy()
        # ‖±u − r‖² = ‖u‖² + ‖r‖² ∓ 2uᵀr: the better sign is the sign of uᵀr, and the gain its absolute value.
        product = np.einsum("ska,ra->skr", whole, centre)
        for s in range(len(whole)):
            gain = np.abs(product[s]) if turn else product[s]
            rows, columns = linear_sum_assignment(gain, maximize=True)
            order = rows[np.argsort(columns)]
            against = product[s][order, np.arange(len(order))] < 0
            sign = np.where(against & turn, -1.0, 1.0)
            intercept[s] += whole[s, order[sign < 0], -1].sum()
            whole[s] = sign[:, None] * whole[s, order]
        centre = whole.mean(axis=0)
        if np.array_equal(whole, before):
            break
    return whole[:, :, :-2], whole[:, :, -2], whole[:, :, -1], intercept
