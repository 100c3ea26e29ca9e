r"""Check that the posterior is proper: under a flat intercept the integral may be infinite.

Weights and rates have proper priors, so all depends on the integral over the intercept ``b``, ``∫ p(y | w, b) db``.

*Two classes.* Between the highest score of the negative rows and the lowest of the positive ones the likelihood neither
falls nor grows with ``b``, and outside it decays exponentially. With ``g(w) = min₊ wᵀx_i − max₋ wᵀx_i`` the integral is
therefore at most a constant plus ``max(g(w), 0)``, and from some ``g`` on at least half of that. Since ``g`` is at most
``|wᵀ(x_i − x_j)|`` of any pair of rows, weights with a mean ``E|w| < ∞`` always have a posterior. Under a prior
``w = τu`` with a shared scale ``E τ = ∞``, as the horseshoe's, there is one if and only if no hyperplane of the columns
with such weights separates the classes strictly: if none does, ``g`` is at most what the other weights add, which has a
mean; if one does, ``g > 0`` on an open cone, and ``E max(g(w), 0) = E τ · E max(g(u), 0) = ∞``.

*Many classes.* If a hyperplane separates one class from the others, the same holds of its own intercept while those of
the others stand still. (It holds of sets of classes too, which are not looked at.)

Noise that is averaged inside the loss makes the loss grow with every weight that it touches; where there is some,
nothing is refused. Drawn masks are a mixture over all of them, which is improper if one term is. Rates are below 1, so
one term keeps all entries, and separated classes have no posterior. Strictly, any masks that separate the classes are
enough, and few data are free of them; but each is improbable, and the scales that are drawn end at the inverse of
round-off, so that what such masks add to the posterior of data that overlap is out of sight. That is not refused.

*Numbers.* One row makes the integral finite, and an unknown scale adds ``σ^{1−S}``, ``S = Σ s_i``, which under ``σ² ~
InverseGamma(a, ·)`` has a mean if and only if ``S + 2a > 1``, and under a half-normal or half-Cauchy prior always:
their density is bounded where ``σ`` is small, and weights that fit every row exactly are improbable.
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
        If a hyperplane separates the two classes and the prior of its weights has no mean, or if an unknown variance
        has next to no data and a prior without weight. The message says what to do.
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
    # Priors without a mean are refused by those who sample rows that are streamed, and rows are not gone through.
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
    """True if some hyperplane has all rows of one class strictly on one side, and those of the other on the other.

    Of large data it is not looked for, unless it shows on some of the rows that there is none; False means that none
    was found.

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
    # Rows times variables of the largest linear programme, some seconds.
    # Rows of the first linear programme for each of its variables: most data show on a few that nothing does.
    n, p = X.shape
    order = np.random.default_rng(0).permutation(n)
    size = rows * (p + 1)
    while size < n and size * (p + 1) <= largest:
        # What separates all rows separates some of them.
        if not _separates(X[order[:size]], target[order[:size]]):
            return False
        size *= 2
    return n * (p + 1) <= largest and _separates(X, target)


def _separates(X: Any, target: Float[np.ndarray, " n"]) -> bool:
    # A smaller gap for each feature, in units of its largest entry, may be rounding.
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
    # The widest gap of weights in [−1, 1]; it is 0 if the classes are not apart.
    solution = linprog(
        np.append(np.zeros(p + 1), -1.0),
        A_ub=sparse.hstack([-signed, ones]),
        b_ub=np.zeros(n),
        bounds=[(-1.0, 1.0)] * p + [(None, None), (None, 1.0)],
        method="highs-ipm",
    )
    # The solver's word is checked: its plane must do what it says.
    return solution.x is not None and bool(np.min(signed @ solution.x[:-1]) > rounding * p)
