"""Compute the log prior density of draws, for ArviZ's power-scaling sensitivities, and prior intervals of rates.

    weight         Σ_d log p(w_d), or given a learnt scale Σ_d log N(w_d; μ_d, (σ_g u_d)²), for each class
    weight_scale   Σ_g log p(σ_g)
    rate           Σ_j log p(η_j)
    sigma          log p(σ), which for a prior of the variance is log p(σ²) + log σ
    intercept      log p(b + wᵀx̄) at the means of the columns, if it has a prior

up to constants. ``arviz.psens`` raises them to a power near 1, which shows how much a result depends on the prior
(Kallioinen, Paananen, Bürkner & Vehtari 2024).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._typing import ArvizData, Float
from ...description import carried, stored_model
from ...noise.base import centre_of
from ...priors.base import selecting
from ...priors.rate_prior import BetaLaw
from ...rates import PerFeature
from ..arviz_groups.constants import read_rate_prior
from ..arviz_groups.groups import dataset, extend, read_attributes
from .draws import Draws, read_draws, stored_constants

if TYPE_CHECKING:
    from ...fitting.results.result import Fit

__all__ = ["drawn_prior_interval", "log_prior", "log_prior_terms", "prior_interval"]


def log_prior(post: Any) -> ArvizData:
    """Add the log prior density of each draw as the group ``log_prior``.

    Parameters
    ----------
    post : InferenceData or DataTree
        What ``bd.sample`` returned, or :func:`bayesdrop.groups.load` read.

    Returns
    -------
    InferenceData or DataTree
        ``post`` with the group ``log_prior``, on (chain, draw): ``weight``, and ``rate``, ``weight_scale`` and
        ``sigma`` where they are drawn, ``intercept`` if it has a prior.
        ``arviz.psens(post, component="prior")`` uses it, and with the group ``log_likelihood``
        (:func:`bayesdrop.log_likelihood`) also ``component="likelihood"``.

    Raises
    ------
    TypeError, ValueError
        If ``post`` is not from ``bd.sample``, or its prior has no density in closed form: ``bd.Horseshoe``,
        ``bd.Hierarchical``, or a prior of your own that is not stored.

    See Also
    --------
    log_likelihood, prior_draws

    References
    ----------
    Kallioinen, Paananen, Bürkner & Vehtari (2024), Detecting and diagnosing prior and likelihood sensitivity with
    power-scaling, Statistics and Computing 34.

    Examples
    --------
    >>> import xarray as xr
    >>> import bayesdrop as bd
    >>> from bayesdrop.description import attributes
    >>> model = bd.Model(rates=bd.Fixed(0.5), weight_prior=bd.Normal(2.0), fit_intercept=False)
    >>> weight = xr.Dataset({"weight": (("chain", "draw", "feature"), [[[0.0], [4.0]]])}, coords={"feature": ["x0"]})
    >>> post = log_prior(bd.groups.assemble({"posterior": weight}, attributes(model, ["no", "yes"])))
    >>> bd.groups.dataset(post, "log_prior")["weight"].values.tolist()
    [[0.0, -2.0]]
    """
    import xarray as xr

    draws = read_draws(post)
    rate_map = draws.model.bind(draws.feature_names)
    law = read_rate_prior(stored_constants(post), rate_map.names)
    if law is None and rate_map.is_free:
        raise ValueError(
            f"post: the rates have the prior of {draws.model.rates!r}, whose density is not stored in closed form; "
            "take bd.PerFeature, bd.PerGroup or bd.Shared, and sample again."
        )
    if draws.weight_scale is None and draws.model.weight_prior.learnt_scale(draws.weight.shape[-1]) is not None:
        raise ValueError(
            f"post: expected the variable 'weight_scale' in the posterior, for {draws.model.weight_prior!r}; got none."
        )
    data = {
        name: (("chain", "draw"), values.reshape(draws.shape)) for name, values in log_prior_terms(draws, law).items()
    }
    return extend(post, {"log_prior": xr.Dataset(data, coords=draws.steps)})


def log_prior_terms(draws: Draws, law: BetaLaw | None) -> dict[str, Float[np.ndarray, " S"]]:
    """Log prior densities by variable, (S,) each, up to constants; ``law`` is the prior of any free rates.

    Raises
    ------
    ValueError
        If the prior of the weights has no density in closed form.
    """
    terms = _weights(draws)
    if law is not None and draws.free_rate.shape[-1]:
        minimum = float(np.finfo(draws.free_rate.dtype).tiny)
        rate = draws.free_rate.astype(np.float64)
        density = law.log_rate_density(np.log(np.maximum(rate, minimum)), np.log1p(-np.minimum(rate, 1 - 1e-12)))
        terms["rate"] = density.reshape(draws.size, -1).sum(axis=1)
    intercept_prior: Any = draws.model.intercept_prior
    if intercept_prior is not None:
        # Intercepts of draws are those for columns minus the centre of the noise.
        level = intercept_prior.moved(centre_of(draws.model.noise))
        terms["intercept"] = level.log_density(draws.weight, draws.intercept)
    for one in draws.model.loss.parameters:
        # The law is that of the logarithm; dividing by the value makes it that of the value.
        log_value = np.log(np.asarray(draws.parameter))
        terms[one.name] = one.prior.law(1).log_density(one.power * log_value) - log_value
    return terms


def _weights(draws: Draws) -> dict[str, Float[np.ndarray, " S"]]:
    """Terms of the weights and of their scales, (S,) each."""
    weight, scale = draws.weight.astype(np.float64), draws.weight_scale
    prior: Any = draws.model.weight_prior
    if getattr(prior, "mixture", None) is not None:
        first = weight.shape[-1] - prior.size
        model = replace(draws.model, weight_prior=prior.effects)
        terms = _weights(replace(draws, model=model, weight=weight[..., first:]))
        return terms | {"weight": terms["weight"] + _marginal(prior.features, weight[..., :first])}
    learnt = prior.learnt_scale(weight.shape[-1])
    if (scale is None and draws.correlation is None) or selecting(prior):
        return {"weight": _marginal(prior, weight)}
    location = prior.location(weight.shape[-1])
    weight = weight if location is None else weight - location
    each = np.log(prior.known_scales(weight.shape[-1])[None] if scale is None else learnt.scale(scale))
    # Weights that sum to 0 over K classes have K - 1 dimensions.
    free, each = (1.0, each) if weight.ndim == 2 else (1 - 1 / weight.shape[1], each[:, None])
    ratio, correlation = weight * np.exp(-each), np.zeros((2, draws.size))
    if draws.correlation is not None:
        blocks = prior.blocks(weight.shape[-1])
        for block, matrix in zip(blocks, prior.correlations(draws.correlation), strict=True):
            root = np.linalg.cholesky(matrix)
            ratio[:, block] = np.linalg.solve(root, ratio[:, block])
            log_root = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
            correlation += np.outer([-block.shape[1], 2 * (prior.eta - 1)], log_root)
    weight_terms = (-free * each - 0.5 * ratio**2).reshape(draws.size, -1).sum(axis=1) + correlation[0]
    terms = {"weight": weight_terms}
    if scale is not None:
        # The law is that of log σ; dividing by σ makes it that of σ.
        log_scale = np.log(scale)
        terms["weight_scale"] = (learnt.law.log_density(log_scale) - log_scale).sum(axis=1)
    return terms if draws.correlation is None else terms | {"correlation": correlation[1]}


def _marginal(prior: Any, weight: Float[np.ndarray, "S ..."]) -> Float[np.ndarray, " S"]:
    """Log density of the weights, with their scales integrated out."""
    try:
        density: Float[np.ndarray, "S ..."] = prior.log_density(weight)
    except TypeError as error:
        raise ValueError(f"post: expected a weight prior with a density in closed form; {error}") from None
    return density.reshape(len(weight), -1).sum(axis=1)


def prior_interval(fit: Fit, probability: float) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """Equal-tailed prior interval of each learnt rate, (k,) and (k,).

    Raises
    ------
    ValueError
        If the rates of the fit are fixed.
    """
    if fit.rate_posterior is None:
        raise ValueError("prior_interval: expected a fit with learnt rates, got one with fixed rates.")
    prior = fit.model.bind(fit.feature_names).prior
    return _equal_tailed(probability, prior.law(fit.rate_posterior.occurrences))


def drawn_prior_interval(
    post: Any, probability: float
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]] | None:
    """Equal-tailed prior interval of each sampled rate, (k,) and (k,); None if the draws do not determine the prior.

    An ArviZ object of ``bd.sample`` stores the parameters of the prior. A posterior group alone has at most the
    description of the model, which does not suffice for a strength relative to counts. For a hierarchy it is None.
    """
    tree = hasattr(post, "posterior")
    rate = (dataset(post, "posterior") if tree else post)["rate"]
    (dim,) = set(rate.dims) - {"chain", "draw"}
    law = read_rate_prior(stored_constants(post), [str(name) for name in rate[dim].values]) if tree else None
    if law is None:
        model = stored_model(read_attributes(post) if tree else {**post.attrs, **carried([post])})
        prior: Any = None if model is None else getattr(model.rates or PerFeature(), "prior", None)
        if prior is None or prior.relative:
            return None
        law = prior.law(np.zeros(rate.sizes[dim]))
    return _equal_tailed(probability, law)


def _equal_tailed(probability: float, law: BetaLaw) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    return law.quantile((1 - probability) / 2), law.quantile((1 + probability) / 2)
