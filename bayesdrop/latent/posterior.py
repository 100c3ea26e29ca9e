"""Posterior of a hidden layer whose inputs are noised: weights of both layers and dropout rates, as ArviZ takes it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import check_count, check_flag, shown
from ..data import Data, prepare
from ..groups import assemble
from ..model import Model, check_model
from ..noise.centre import needs_zero
from ..responses import observed_group
from .alignment import align_units

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["sample_latent"]

Array = Any


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
) -> Any:
    """Draw from the posterior of a predictor with one hidden layer of logistic units.

    The density is that of :mod:`bayesdrop.latent.density`: the noise of the inputs is carried through the units to
    first order, as in ``bd.LatentDropoutSVC``, and the score that results is taken as normal. Hidden weights have the
    model's ``weight_prior``, output weights a standard normal, hidden intercepts ``N(0, 3²)``.

    Permuted or turned units are the same predictor, so the draws of all chains are brought to one labelling
    (:func:`bayesdrop.latent.alignment.align_units`). Modes that differ by more show as a large R-hat of the weights;
    rates, ``lp`` and predictions do not depend on labels at all.

    Parameters
    ----------
    model : Model
        Loss, noise, rates, ``C`` and weight prior (normal).
    X : array, data frame or scipy sparse (n, p)
        Features. Sparse input is never made dense.
    y : sequence of n labels or numbers
        Two classes, or numbers for a loss of regression.
    n_hidden : int
        Hidden units, at least 1.
    draws, tune, chains : int
        Draws kept of each chain, draws thrown away before them, and chains.
    seed : int or JAX key
        Same seed, same result, on one machine.
    method : NUTS, optional
        ``bd.NUTS()`` by default.
    sample_weight : array (n,), optional
        Row weights, >= 0.
    feature_names : sequence of p str, optional
        Names of the columns; taken from a data frame.
    progress : bool
        Show a progress bar.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        ``posterior`` has ``hidden_weight`` (chain, draw, hidden, feature), ``output_weight`` (chain, draw, hidden),
        ``hidden_intercept`` and ``intercept`` if the model has intercepts, and ``rate`` unless the rates are fixed;
        ``observed_data`` as ``bd.sample`` has it. The attribute ``complete`` is 0 if the run was interrupted.

    Raises
    ------
    ValueError
        If the data or a count do not fit, or the weight prior is not normal.

    Warns
    -----
    IncompleteWarning
        If the run was interrupted from the keyboard; the draws that were finished are there.
    MixingWarning
        If some R-hat is above 1.01 or some effective sample size below 400.

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
    from ..diagnosis import diagnose_groups
    from ..inference.sampling import MOST_CHAINS, MOST_DRAWS, IncompleteWarning, MixingWarning

    check_model(model)
    check_count(draws, "draws", most=MOST_DRAWS)
    check_count(tune, "tune", most=MOST_DRAWS)
    check_count(chains, "chains", most=MOST_CHAINS)
    check_count(n_hidden, "n_hidden", most=10**6)
    check_flag(progress, "progress")
    if not model.weight_prior.gaussian or model.loss.variance_prior is not None:
        raise ValueError(
            f"model: a hidden layer takes normal weight priors and known variances, got {model.weight_prior!r} and "
            f"{model.loss!r}."
        )
    needs_zero(model.noise, "a hidden layer")
    data = prepare(X, y, sample_weight, feature_names, model.loss.binary).with_weight()
    result = _run(model, data, int(n_hidden), int(draws), int(tune), int(chains), seed, method, progress)
    groups = _groups(model, data, result.draws)
    attrs = _attributes(model, int(n_hidden), result, int(tune))
    for group in groups.values():
        group.attrs.update(attrs)
    if not result.complete:
        warnings.warn(
            f"interrupted: {result.draws['lp'].shape[1]} of {draws} draws of each chain are there. The attribute "
            "`complete` is 0.",
            IncompleteWarning,
            stacklevel=2,
        )
    advice = diagnose_groups(groups, attrs | {"complete": 1}).advice
    if advice:
        warnings.warn(advice, MixingWarning, stacklevel=2)
    return assemble(groups, attrs)


def _run(
    model: Model, data: Data, units: int, draws: int, tune: int, chains: int, seed: Any, method: Any, progress: bool
) -> Any:
    """Draws of the whitened sampler, by name."""
    import jax
    import jax.numpy as jnp

    from ..inference.hmc import operands_of
    from ..inference.nuts import NUTS, NUTSOperands
    from ..inference.runner import as_key, run
    from .density import LatentDensity, LatentKernel

    method = NUTS() if method is None else method
    if not isinstance(method, NUTS):
        raise TypeError(f"method: expected bd.NUTS(), got {shown(method)}.")
    rate_map = model.bind(data.feature_names)
    p = len(data.feature_names)
    model.noise.check(float(data.X.min()) if data.X.shape[0] and p else 0.0)
    # Some accelerators round the factors of products in single precision to ten bits unless told otherwise.
    with jax.enable_x64(method.dtype == "float64"), jax.default_matmul_precision("highest"):
        real = partial(jnp.asarray, dtype=method.dtype)
        density = LatentDensity(model.loss.plain, model.noise, units, p, model.fit_intercept, rate_map.size)
        operands = operands_of(model, data, rate_map, method.dtype)
        kernel = LatentKernel(density, tune, float(method.target_accept), int(method.max_tree_depth))
        whitened = NUTSOperands(operands, real(np.zeros(density.size)), real(np.ones(density.size)))
        return run(kernel, whitened, as_key(seed), tune=tune, draws=draws, chains=chains, progress=progress)


def _groups(model: Model, data: Data, draws: dict[str, Array]) -> dict[str, xr.Dataset]:
    """Aligned draws and the data as datasets."""
    import xarray as xr

    hidden = np.asarray(draws["hidden_weight"])
    chains, count, units, p = hidden.shape
    flat = chains * count
    best = int(np.argmax(draws["lp"]))
    nothing = np.zeros((chains, count, units))
    turned, shift, output, intercept = align_units(
        hidden.reshape(flat, units, p),
        np.reshape(draws.get("hidden_intercept", nothing), (flat, units)),
        np.reshape(draws["output_weight"], (flat, units)),
        np.reshape(draws.get("intercept", nothing[:, :, 0]), flat),
        reference=best,
        turn=model.fit_intercept,
    )
    both = ("chain", "draw")
    dims = {"hidden_weight": (*both, "hidden", "feature"), "output_weight": (*both, "hidden")}
    values = {"hidden_weight": turned, "output_weight": output}
    if model.fit_intercept:
        dims |= {"hidden_intercept": (*both, "hidden"), "intercept": both}
        values |= {"hidden_intercept": shift, "intercept": intercept}
    coords: dict[str, Any] = {
        "chain": np.arange(chains),
        "draw": np.arange(count),
        "hidden": np.array([f"hidden{k}" for k in range(units)]),
        "feature": np.array(data.feature_names),
    }
    variables = {
        name: (dims[name], np.reshape(value, (chains, count, *np.shape(value)[1:]))) for name, value in values.items()
    }
    rate_map = model.bind(data.feature_names)
    constant: dict[str, Any] = dict(model.weight_prior.constants(p))
    if rate_map.is_free:
        coords[rate_map.dim] = np.array(rate_map.names)
        variables["rate"] = ((*both, rate_map.dim), draws["rate"])
        prior = rate_map.prior.concentrations(data.occurrences(rate_map.index, rate_map.size))
        constant["rate_prior_a"], constant["rate_prior_b"] = ((rate_map.dim, part) for part in prior)
    else:
        constant["fixed_rate"] = ("feature", rate_map.initial)
    names = ("lp", "acceptance_rate", "energy", "step_size", "n_steps", "diverging")
    fixed = {name: value for name, value in coords.items() if name in ("feature", rate_map.dim)}
    return {
        "posterior": xr.Dataset(variables, coords=coords),
        "sample_stats": xr.Dataset({name: (both, draws[name]) for name in names}, {c: coords[c] for c in both}),
        "observed_data": observed_group(data.target, data.classes, binary=model.loss.binary),
        "constant_data": xr.Dataset(constant, fixed),
    }


def _attributes(model: Model, units: int, result: Any, tune: int) -> dict[str, str | int | float]:
    return {
        "inference_library": "bayesdrop",
        "sampling_time": result.seconds,
        "tuning_steps": tune,
        "complete": int(result.complete),
        "stopped": result.stopped,
        "model": repr(model),
        "n_hidden": units,
        "units": "aligned: permuted and turned to the labelling of the most probable draw",
        "approximation": "noise is carried through the hidden layer to first order and scores are taken as normal",
    }
