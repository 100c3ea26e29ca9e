r"""Compute the intraclass correlation: the share of groups in the variance of a response given its features.

    ρ_t = σ_t² / (Σ_u σ_u² + σ²)

with the standard deviations ``σ_t`` of the random intercepts and ``σ`` of a normal response about its score. A binary
or binomial response is the sign of a latent logistic variable, whose variance about its score is ``σ² = π²/3``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..losses import Squared
from ..posterior.draws.draws import read_group
from ..priors import RandomEffects
from .table import read_posterior

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["intraclass_correlation"]


def intraclass_correlation(result: Any) -> xr.DataArray:
    """Compute draws of the intraclass correlation of each random intercept, ``(1 | site)``.

    It is the correlation of two responses of one level with the same features: the variance of the effects divided by
    the total variance of all random intercepts and of the response about its score. It excludes the variance from
    features and from their noise. For ``bd.Logistic()`` and ``bd.Binomial()`` it is the correlation of latent logistic
    variables, of variance π²/3, and not of the responses 0 and 1 themselves.

    Parameters
    ----------
    result : InferenceData or DataTree
        Posterior from ``bd.sample`` for a formula with random intercepts.

    Returns
    -------
    xarray.DataArray
        The correlations, on ``chain``, ``draw`` and ``term``. Crossed or nested terms have one share each, and the sum
        over ``term`` is the correlation of two responses with all levels in common.

    Raises
    ------
    TypeError, ValueError
        If ``result`` is not a posterior, has no random intercepts, or has random slopes, whose share depends on the
        row; or if the loss has no variance of the response about its score, as for counts.

    See Also
    --------
    hypothesis, sample

    References
    ----------
    Nakagawa, Johnson & Schielzeth (2017), The coefficient of determination R² and intra-class correlation coefficient
    from generalized linear mixed-effects models revisited and expanded, Journal of the Royal Society Interface 14,
    doi:10.1098/rsif.2017.0213.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> import numpy as np
    >>> import warnings
    >>> rng = np.random.default_rng(0)
    >>> data = {"site": np.repeat([*"abcdefgh"], 10), "y": np.repeat(rng.normal(size=8), 10) + rng.normal(size=80)}
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # a few draws, for show
    ...     post = bd.sample("y ~ (1 | site)", data, draws=20, tune=20, chains=2, progress=False)
    >>> found = bd.intraclass_correlation(post)
    >>> found.dims, found["term"].values.tolist()
    (('chain', 'draw', 'term'), ['1|site'])
    """
    import xarray as xr

    posterior, draws = read_group(result, "posterior", "result"), read_posterior(result)
    prior, loss = draws.model.weight_prior, draws.model.loss
    if not isinstance(prior, RandomEffects):
        raise ValueError("result: it has no random intercepts; sample a formula with a term such as (1 | site).")
    slopes = [term for term in prior.terms if not term.startswith("1|")]
    if slopes:
        raise ValueError(
            f"result: the share of the effects of {slopes[0]!r} depends on the row; sample a formula with random "
            "intercepts alone, such as (1 | site)."
        )
    if isinstance(loss, Squared):
        residual = 1 / (loss.precision * np.asarray(draws.C, dtype=np.float64))
    elif loss.ratio == "odds_ratio" and not loss.multiclass and draws.model.C == 1:
        residual = np.full(draws.size, np.pi**2 / 3)
    else:
        raise ValueError(
            f"result: {loss!r} with C={draws.model.C:g} has no variance of the response about its score; the "
            "correlation is defined for bd.Squared(), and of a latent variable for bd.Logistic() and bd.Binomial() "
            "with C=1."
        )
    learnt = {term: posterior.get(f"{term}|scale", scale) for term, scale in zip(prior.terms, prior.scale, strict=True)}
    scale = np.stack([np.broadcast_to(one, draws.shape) for one in learnt.values()], axis=-1).astype(np.float64)
    total = np.sum(scale**2, axis=-1) + residual.reshape(draws.shape)
    coords = {**draws.steps, "term": list(prior.terms)}
    return xr.DataArray(scale**2 / total[..., None], coords, ("chain", "draw", "term"), name="intraclass_correlation")
