r"""Check that the posterior is proper: with a flat prior of the intercept its integral may be infinite.

Weights and rates have proper priors, so all depends on the integral over the intercept ``b``, ``∫ p(y | w, b) db``.

*Two classes.* Between the highest score of the negative rows and the lowest of the positive ones the likelihood neither
falls nor grows with ``b``, and outside it decays exponentially. With ``g(w) = min₊ wᵀx_i − max₋ wᵀx_i`` the integral is
therefore at most a constant plus ``max(g(w), 0)``, and for large ``g`` at least half of that. Since ``g`` is at most
``|wᵀ(x_i − x_j)|`` for any rows of different classes, weights with a mean ``E|w| < ∞`` have a proper posterior. Under a
prior ``w = τu`` with a shared scale ``E τ = ∞``, as the horseshoe's, it is proper if and only if no hyperplane of the
columns with such weights separates the classes strictly: if none does, ``g`` is at most the contribution of the other
weights, which has a mean; if one does, ``g > 0`` on an open cone, and ``E max(g(w), 0) = E τ · E max(g(u), 0) = ∞``.

*Many classes.* If a hyperplane separates one class from the others, the same holds for its intercept given those of the
others. (It holds for sets of classes too, which are not checked.)

Noise that is averaged inside the loss makes the loss grow with every weight that it touches; if it touches one with
such a prior, nothing is refused. With drawn masks the likelihood is a mixture over all masks, which is improper if one
term is. Rates are below 1, so one term keeps all entries, and separated classes have no posterior. Strictly, any masks
that separate the classes are enough, and most data have some; but each is improbable, and drawn scales are bounded by
the inverse of round-off, so that the contribution of such masks is negligible if the classes overlap: not refused.

*Numbers.* One row makes the integral finite, and an unknown scale adds ``σ^{1−S}``, ``S = Σ s_i``, which under ``σ² ~
InverseGamma(a, ·)`` has a mean if and only if ``S + 2a > 1``, and under a half-normal or half-Cauchy prior always:
their density is bounded at small ``σ``, and weights that fit every row exactly are improbable.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import Float
from ..data.dataset import Dataset
from ..model import Model
from ..priors import InverseGamma, RandomEffects
from ..rates import RateMap

__all__ = ["check_proper", "separates"]


def check_proper(model: Model, data: Dataset, rate_map: RateMap, marginalised: bool) -> None:
    """Raise an error if the posterior is certainly improper.

    Raises
    ------
    ValueError
        If a hyperplane separates the classes and the prior of its weights has no mean, or if an unknown variance
        has too few data and too weak a prior. The message says what to do.
    """
    if not model.fit_intercept:
        return
    variance: Any = getattr(model.loss, "variance", None)
    if isinstance(variance, InverseGamma):
        total = float(np.sum(data.weight))
        if total + 2 * variance.shape <= 1:
            raise ValueError(
                f"variance: with a flat intercept the posterior is improper unless Σ sample_weight + 2 shape is above "
                f"1, got {total:g} + 2 · {variance.shape:g}; give a shape above {max(1 - total, 0) / 2:g}, more data, "
                "or fit_intercept=False."
            )
    # Samplers of streamed rows refuse priors without a mean, so that these rows need not be read here.
    if data.design.is_streamed or model.weight_prior.has_mean or not (model.loss.binary or model.loss.multiclass):
        return
    prior, p = model.weight_prior, len(data.feature_names)
    terms, heavy = [], np.full(p, True)
    if isinstance(prior, RandomEffects):
        terms = prior.terms_without_mean
        levels = [[term in terms] * len(names) for term, names in zip(prior.terms, prior.levels, strict=True)]
        heavy = np.concatenate([np.full(p - prior.size, not prior.features.has_mean), *levels]).astype(bool)
        prior = prior.features
    noise = model.noise.coefficients(np.full(p, 0.5) if rate_map.is_free else rate_map.initial)
    moved = sum(np.abs(part) for part in (noise.quadratic, noise.linear, noise.constant)) * np.ones(p)
    if marginalised and np.any(moved[..., heavy]):
        return
    signs = [data.target]
    if model.loss.multiclass:
        signs = [np.where(data.target == k, 1.0, -1.0) for k in np.unique(data.target)]
    X = data.X if np.all(heavy) else data.X[:, np.flatnonzero(heavy)]
    if any(separates(X, sign) for sign in signs):
        raise ValueError(_refusal(model, prior, terms))


def _refusal(model: Model, prior: Any, terms: list[str]) -> str:
    """Message about heavy tails of the features' ``prior``, of the scales of random ``terms``, or of both."""
    what = "one class from the others" if model.loss.multiclass else "the two classes"
    arguments, causes, laws, remedies = [], [], [], []
    if terms:
        effects: Any = model.weight_prior
        scales = dict(zip(effects.terms, effects.scale, strict=True))
        arguments, causes = ["random_scale"], [f"the effects of {terms}"]
        laws, remedies = [repr(scales[term]) for term in terms], ["random_scale=bd.HalfNormal(1.0) or a number"]
    if not prior.has_mean:
        arguments, causes, laws = [*arguments, "weight_prior"], ["the features", *causes], [*laws, repr(prior)]
        normal = "bd.Normal(...) with a number or bd.HalfNormal(...) for its scale"
        remedies = [*remedies, f"weight_prior={normal}"] if terms else [f"bd.Laplace(...), or {normal}"]
    has_effects = isinstance(model.weight_prior, RandomEffects)
    leave = '"y ~ 0 + ..."' if has_effects else "bd.Model(..., fit_intercept=False)"
    return (
        f"{', '.join(arguments)}: {' and '.join(causes)} separate {what}, and with a flat intercept the heavy tails of "
        f"{' and '.join(dict.fromkeys(laws))} then leave no proper posterior; use "
        f"{' with '.join(remedies)}, or {leave}."
    )


def separates(X: Any, target: Float[np.ndarray, " n"], rows: int = 4, largest: int = 2_000_000) -> bool:
    """True if a hyperplane is found that separates the two classes strictly.

    False means that none was found: the result is always False for more than ``largest`` rows times variables.

    Parameters
    ----------
    X : array or scipy sparse (n, p)
        Features.
    target : array (n,)
        Classes, −1 and +1.

    Examples
    --------
    >>> separates(np.array([[0.0], [1.0], [2.0]]), np.array([-1.0, 1.0, 1.0]))
    True
    >>> separates(np.array([[0.0], [1.0], [2.0]]), np.array([-1.0, 1.0, -1.0]))
    False
    """
    # ``largest``: rows times variables of the largest linear programme, some seconds.
    # ``rows``: rows per variable of the first linear programme; most data have no such hyperplane on a few rows.
    n, p = X.shape
    order = np.random.default_rng(0).permutation(n)
    size = rows * (p + 1)
    while size < n and size * (p + 1) <= largest:
        # A hyperplane that separates all rows separates every subset.
        if not _separates(X[order[:size]], target[order[:size]]):
            return False
        size *= 2
    return n * (p + 1) <= largest and _separates(X, target)


def _separates(X: Any, target: Float[np.ndarray, " n"]) -> bool:
    # A smaller gap per feature, in units of its largest entry, may be rounding.
    rounding = 1e-12
    from scipy import sparse
    from scipy.optimize import linprog

    if len(np.unique(target)) < 2:
        return True
    X = sparse.csc_array(X, dtype=np.float64)
    n, p = X.shape
    scale = np.maximum(abs(X).max(axis=0).toarray().ravel(), np.finfo(float).tiny)
    ones = sparse.csc_array(np.ones((n, 1)))
    signed = sparse.diags_array(target) @ sparse.hstack([X @ sparse.diags_array(1 / scale), ones])
    # Maximise the gap over weights in [−1, 1]; it is 0 if no hyperplane separates the classes.
    solution = linprog(
        np.append(np.zeros(p + 1), -1.0),
        A_ub=sparse.hstack([-signed, ones]),
        b_ub=np.zeros(n),
        bounds=[(-1.0, 1.0)] * p + [(None, None), (None, 1.0)],
        method="highs-ipm",
    )
    # Do not trust the solver: check that its hyperplane separates.
    return solution.x is not None and bool(np.min(signed @ solution.x[:-1]) > rounding * p)
