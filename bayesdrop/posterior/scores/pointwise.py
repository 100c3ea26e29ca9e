r"""Compute the log likelihood of each row, summed over its masks, for leave-one-out scores.

    log p(y_i | w, b, η) = s_i log Σ_α p(α | η) p(y_i | x_i∘α),      p(y | x) = exp{−C loss(y, wᵀx + b)} × constant

The likelihood given the masks of the chain would be biased, because these masks depend on ``y_i``. For a row with few
noised entries all masks are enumerated, which is exact. For others the sum comes from the characteristic function of
the score, with an error of the logarithm of at most 0.001 (:mod:`.noise_average`). No masks are drawn, because the
logarithm of an average over drawn masks is too low by half its relative variance, which would penalise models with
noise. The scores are those of Vehtari, Gelman & Gabry (2017).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._typing import ArvizData, Float, PerRow
from ..._validation import check_count
from ...data.column_facts import complete_rows, response_in
from ...data.responses import code_response, single_trials
from ...designs import Design, as_design
from ...losses.logistic_counts import log_binomial
from ...losses.protocols import Simulated, Sloped, require
from ...moments import ScoreMoments
from ...warnings import PseudoLikelihoodWarning, warn
from ..arviz_groups.constants import read_response
from ..arviz_groups.groups import extend
from ..draws.draws import Draws, blocks, read_draws, read_group, stored_constants, stored_offset
from ..draws.new_rows import NewRows, check_rows, match_rows
from ..noise_average.class_chances import class_log_likelihood
from ..noise_average.enumeration import MASKS
from ..noise_average.expectation import expectation
from ..noise_average.functions import LogLikelihood
from .smoothed_loo import GROUP, STEP, open_group, write_group

if TYPE_CHECKING:
    import xarray as xr

__all__ = [
    "MOST",
    "check_size",
    "log_likelihood",
    "observed_response",
    "pseudo_likelihood",
    "stored_response",
    "row_log_likelihoods",
    "rows_group",
    "sampled_rows",
    "warn_of_pseudo_likelihood",
]

MOST = 1 << 28
"""Maximum number of entries of the group for streamed rows: 2 GB."""


def log_likelihood(post: Any, X: Any = None, y: Any = None, *, masks: int = MASKS, path: Any = None) -> ArvizData:
    """Add the log likelihood of each draw and row, summed over the masks of the row.

    Parameters
    ----------
    post : InferenceData or DataTree
        What ``bd.sample`` returned, or :func:`bayesdrop.groups.load` read.
    X : array, data frame or scipy sparse (n, p), optional
        The rows that were sampled, without those of weight 0. For ``bd.Blocks`` and Dask collections the group may have
        2²⁸ numbers, 2 GB, in memory. Without ``X`` and ``y`` the group is read from ``path``.
    y : sequence of n labels or numbers, or two columns of counts, optional
        The responses of these rows.
    masks : int, default=64
        For a row with at most this number of masks, ``2^k`` with ``k`` noised entries (6 by default), all masks are
        summed, which is exact, as are models without masks. For other rows the sum is approximated, with a relative
        error of at most 0.001 and usually far less; see :mod:`bayesdrop.posterior.noise_average.expectation`.
    path : path, optional
        File (netCDF) to which the values are written, a block of rows at a time, instead of being held in memory; an
        older file is replaced when all is written. The group is then read from the file when needed, in blocks of rows
        by :func:`bayesdrop.loo`. Not for Dask collections, whose rows stay on their workers.

    Returns
    -------
    InferenceData or DataTree
        ``post`` with the group ``log_likelihood``: ``y`` (chain, draw, obs_id). For a loss of numbers it is a
        log density of ``y``, for a logistic loss a log probability if ``C`` is 1, for a hinge the
        pseudo-likelihood ``−C loss``, not normalised. ``C`` is a power of ``p(y | x)`` given the masks, for a logistic
        loss, a count, or a squared loss of unknown variance; row weights multiply the whole logarithm.

    Raises
    ------
    TypeError, ValueError
        If ``post`` is not from ``bd.sample``, ``X`` or ``y`` differ from the data of ``post``, ``masks`` is below 1, or
        the file is damaged or belongs to another posterior.
    FileNotFoundError
        If ``path`` should be read and does not exist.

    See Also
    --------
    loo, reweight

    References
    ----------
    Vehtari, Gelman & Gabry (2017), Practical Bayesian model evaluation using leave-one-out cross-validation and WAIC,
    Statistics and Computing 27.

    Examples
    --------
    >>> import xarray as xr
    >>> import bayesdrop as bd
    >>> from bayesdrop.description import attributes
    >>> weight = xr.Dataset({"weight": (("chain", "draw", "feature"), [[[0.0], [2.0]]])}, coords={"feature": ["x0"]})
    >>> observed = xr.Dataset({"y": ("obs_id", [0, 1])})
    >>> model = bd.Model(rates=bd.Fixed(0.5), fit_intercept=False)
    >>> post = bd.groups.assemble({"posterior": weight, "observed_data": observed}, attributes(model, ["no", "yes"]))
    >>> values = bd.groups.dataset(log_likelihood(post, [[0.0], [1.0]], ["no", "yes"]), "log_likelihood")["y"].values
    >>> bool(np.isclose(values[0, 1, 1], np.log(0.5 / 2 + 0.5 / (1 + np.exp(-2)))))
    True
    """
    check_count(masks, "masks")
    draws = read_draws(post)
    if X is None and y is None and path is not None:
        n = read_group(post, "observed_data").sizes["obs_id"]
        return extend(post, {GROUP: open_group(path, draws, n)})
    rows, vectors = sampled_rows(post, draws, X, y)
    if path is not None:
        n = rows.design.shape[0]
        write_group(path, draws, _parts(draws, rows.parts(), vectors, masks), n)
        group = open_group(path, draws, n)
    else:
        group = rows_group(draws, rows, *vectors, masks=masks)
    return extend(post, {GROUP: group})


def _parts(
    draws: Draws, pieces: Iterator[tuple[slice, Any]], vectors: tuple[PerRow, ...], masks: int
) -> Iterator[tuple[slice, Float[np.ndarray, "C S some"]]]:
    """Log-likelihoods of blocks of rows, given blocks of the matrix and their positions."""
    for place, matrix in pieces:
        for piece in blocks(matrix.shape[0], draws.size, STEP):
            numbers = slice(place.start + piece.start, place.start + piece.stop)
            values = row_log_likelihoods(draws, matrix[piece], *(part[numbers] for part in vectors), masks=masks)
            yield numbers, values.reshape(*draws.shape, -1)


def sampled_rows(post: Any, draws: Draws, X: Any, y: Any) -> tuple[NewRows, tuple[PerRow, ...]]:
    """The checked rows of the posterior, with responses, weights and any offsets."""
    X, y = complete_rows(X, draws.feature_names, draws.facts, y)
    y = response_in(X, draws.feature_names, draws.facts, y)
    for name, value in (("X", X), ("y", y)):
        if value is None:
            raise TypeError(f"{name}: expected what was sampled, got none.")
    rows = match_rows(X, draws)
    check_rows(post, rows.design.shape[0])
    target, constant = observed_response(post, draws, rows.design, y), stored_constants(post)
    weight = constant["row_weight"].values if "row_weight" in constant else np.ones(len(target))
    return rows, tuple(part for part in (target, weight, stored_offset(post)) if part is not None)


def stored_response(post: Any, draws: Draws) -> PerRow:
    """Responses of the rows of the posterior, (n,) or (n, 2), coded as by :func:`.code_response`."""
    binary = draws.model.loss.binary
    return read_response(read_group(post, "observed_data"), stored_constants(post), binary=binary)


def observed_response(post: Any, draws: Draws, design: Design, y: Any) -> PerRow:
    """Responses of the rows, (n,) or (n, 2); raise ValueError unless they are those of the posterior."""
    target = stored_response(post, draws)
    came = code_response(draws.model.loss, draws.classes, design, y)
    differ = len(target) if came.shape != target.shape else int(np.sum(~np.isclose(came, target, rtol=1e-6)))
    if differ:
        raise ValueError(
            f"y: expected what was sampled, got {differ} other values of {len(target)}; give the rows in the same "
            "order. For new rows use bd.elpd or bd.predict."
        )
    return target


def row_log_likelihoods(
    draws: Draws, X: Any, target: PerRow, weight: PerRow, offset: PerRow | None = None, *, masks: int = MASKS
) -> Float[np.ndarray, "S n"]:
    """Log-likelihoods of checked rows: ``X`` (n, p), responses (n,) or (n, 2), weights and offsets (n,)."""
    if target.ndim == 2:
        trials = row_log_likelihoods(draws, *single_trials(X, target, weight, offset), masks=masks)
        choices = log_binomial(target.sum(axis=1), target[:, 0])
        return np.asarray(trials.reshape(draws.size, 2, -1).sum(axis=1) + draws.C[:, None] * weight * choices)
    if draws.model.loss.multiclass:
        values = _of_classes(draws, X, target, masks)
    elif draws.marginalised or not draws.model.noise.has_rate:
        values = _marginal(draws, X, target, offset)
    else:
        loss = require(draws.model.loss, Sloped, "a log-likelihood over masks", "write the slope of the loss")
        require(loss, Simulated, "a log-likelihood", "write the constant of its density")
        values = expectation(draws, X, LogLikelihood(draws, target), masks=masks, offset=offset).T
    return values * weight


def check_size(draws: int, n: int) -> None:
    """Raise ValueError if one number per draw and streamed row would exceed the limit."""
    if draws * n > MOST:
        raise ValueError(
            f"log_likelihood: expected at most {MOST:,} numbers, one for each draw and row, of rows that are not in "
            f"memory, got {draws:,} draws of {n:,} rows; use bd.elpd(post, X, y) of rows held out, which keeps one "
            "number a row, bd.log_likelihood(post, X, y, path=…), which writes to a file, fewer draws, or fewer rows."
        )


def rows_group(
    draws: Draws, rows: NewRows, target: PerRow, weight: PerRow, offset: PerRow | None = None, *, masks: int = MASKS
) -> xr.Dataset:
    """Log-likelihoods of rows; raise ValueError if the group for streamed rows would exceed the limit."""
    import xarray as xr

    if rows.matrix is None:
        check_size(draws.size, rows.design.shape[0])
    vectors = (target, weight) if offset is None else (target, weight, offset)
    values = np.concatenate(rows.each(partial(row_log_likelihoods, draws, masks=masks), *vectors), axis=1)
    coords = {**draws.steps, "obs_id": np.arange(values.shape[1])}
    return xr.Dataset({"y": (("chain", "draw", "obs_id"), values.reshape(*draws.shape, -1))}, coords=coords)


def _of_classes(draws: Draws, X: Any, code: PerRow, masks: int) -> Float[np.ndarray, "S n"]:
    """Log-likelihood of class numbers (n,), for a model of many classes."""
    if not draws.marginalised:
        return class_log_likelihood(draws, X, code, masks)
    loss, (_, K, p), values = draws.model.loss, draws.weight.shape, np.empty((draws.size, X.shape[0]))
    first, second = np.triu_indices(K)
    rate = np.zeros(p) if draws.fixed_rate is None else draws.fixed_rate
    for rows in blocks(X.shape[0], p + K * K):
        moments = ScoreMoments(as_design(X[rows]), draws.model.noise, rate[:, None], draws.model.fit_intercept)
        y, cov = code[rows].astype(int), np.zeros((rows.stop - rows.start, K, K))
        for s in range(draws.size):
            class_weight = draws.weight[s].T.astype(np.float64)
            mean = moments.mean(np.vstack([class_weight, draws.intercept[s]]))
            if moments.has_variance:
                pairs = moments.covariance(class_weight[:, first] * class_weight[:, second])
                cov[:, first, second] = cov[:, second, first] = pairs
            values[s, rows] = -draws.C[s] * loss.value(y, mean, cov)
    return values


def _marginal(draws: Draws, X: Any, target: PerRow, offset: PerRow | None) -> Float[np.ndarray, "S n"]:
    """``−C φ(y_i, m_i, v_i)``: the noise is averaged inside the loss."""
    require(draws.model.loss, Simulated, "a log-likelihood", "write the constant of its density")
    values = np.empty((draws.size, X.shape[0]))
    for rows in blocks(X.shape[0], min(draws.size, X.shape[1])):
        design = as_design(X[rows])
        for part in blocks(draws.size, max(design.shape)):
            mean, var = draws.moments(design, part)
            mean = mean if offset is None else mean + offset[rows, None]
            y = np.broadcast_to(target[rows, None], mean.shape)
            loss = draws.loss_of(part)
            logs = loss.log_base_measure(y) - loss.value(y, mean, var)
            terms = loss.log_constant(draws.C[part]) + draws.C[part] * logs
            values[part, rows] = terms.T
    return values


def warn_of_pseudo_likelihood(draws: Draws, weighted: bool) -> None:
    """Warn if the scores are not log predictive densities; ``weighted`` if rows had weights."""
    reason = pseudo_likelihood(draws, weighted)
    if reason:
        warn(
            f"{reason}, so these are scores of a pseudo-likelihood: compare them only between models with the same "
            f"loss and C (here {draws.model.loss!r}, C = {draws.model.C:g}), never across losses.",
            PseudoLikelihoodWarning,
        )


def pseudo_likelihood(draws: Draws, weighted: bool) -> str:
    """Reason why the scores are not log predictive densities; empty if they are."""
    loss = draws.model.loss
    if not loss.normalised:
        return f"{loss!r} is no likelihood"
    classes = loss.binary or loss.multiclass
    if draws.model.C != 1 and (classes or loss.largest_count is not None):
        return f"C = {draws.model.C:g} raises the likelihood to a power"
    if weighted:
        return "the row weights raise likelihoods to powers"
    has_noise = not draws.model.noise.has_rate or (draws.fixed_rate is not None and bool(np.any(draws.fixed_rate > 0)))
    if draws.marginalised and has_noise:
        return "the noise is averaged inside the loss"
    return ""
