r"""Distribution of the largest of many R-hats if the chains agree, and limits from it.

Chains are split into ``M`` pieces of ``n`` draws, and draws replaced by the normal scores of their ranks. R-hat is then
(Gelman & Rubin 1992; split and ranked as by Vehtari, Gelman, Simpson, Carpenter & Bürkner 2021)

    R̂² = (n − 1)/n + B/(nW),    B = n Var z̄_m,  W the mean variance within pieces.

If all pieces have one law and the draws of one are worth ``n_e`` independent ones, their means vary by ``W/n_e``, and
``F = (n_e/n) B/W`` is the ratio of an analysis of variance:

    R̂² − 1 = F/n_e − 1/n,    F ~ F(M − 1, M(n_e − 1)).

What is reported is the larger of two: that of the scores, and that of the scores of distances from the median. The two
are uncorrelated, so that of ``p`` numbers none exceeds ``r`` with probability ``∏_j P(F ≤ n_ej(r² − 1 + 1/n))²`` if the
numbers are independent, and with a larger one if they are not (Šidák 1967; Royen 2014).

The ESS that is reported is small where chains disagree, and would excuse them. So what is measured here is
``τ = n/n_e`` by autocovariances about each piece's own mean, summed by Geyer's (1992) initial monotone sequence; what
they lack because that mean is estimated, ``τW/n``, is added. A sum of ``T`` lags has a relative variance of
``2(2T + 1)/(Mn)`` (Priestley 1981, section 6.2; Sokal 1997), which leaves F with ``Mn/(2T + 1)`` degrees of freedom in
its denominator. Numbers whose draws were not kept have batch means (:mod:`bayesdrop.sampling.run.summary`), and F is
that of their analysis of variance, exactly if batches are independent.

Shapes: C chains of S draws, p numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import fdtr, fdtri, ndtri

from ..._typing import Float
from ..._validation import check_count, check_number, check_numbers, shown
from .mixing import LIMITS

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["draws_to_agree", "largest_r_hat", "limit_of_draws", "limit_of_summary", "r_hat_limits"]

# Effective draws of a piece from which on more of them change no bit, and from 1e290 on leave double precision.
_ENOUGH = 1e20


def largest_r_hat(ess: object, *, chains: int, draws: int, probability: float = 0.99) -> float:
    """Compute a quantile of the largest R-hat of many numbers if all chains agree.

    Parameters
    ----------
    ess : float or array (p,)
        Bulk effective sample size of each number, of all chains.
    chains, draws : int
        Chains, at least 2, and draws of each, at least 4.
    probability : float, default=0.99
        Between 0 and 1; 0.5 gives the median of the largest R-hat.

    Returns
    -------
    float
        The quantile. It grows with the number of quantities and with the probability, and falls as effective sample
        sizes grow, which are taken as known; :mod:`bayesdrop.posterior.diagnostics.largest_r_hat` says how R-hat is
        judged by effective sample sizes from the same draws.

    Raises
    ------
    ValueError
        If an argument is out of range; effective sample sizes are above 2 for each half of a chain.

    See Also
    --------
    diagnose

    References
    ----------
    Gelman & Rubin (1992); Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021).

    Examples
    --------
    Five thousand weights, each of which is worth 1,000 independent draws:

    >>> round(largest_r_hat(np.full(5000, 1000.0), chains=4, draws=1000), 3)
    1.022
    >>> round(largest_r_hat(1000.0, chains=4, draws=1000), 3)
    1.011
    """
    pieces, length = 2 * check_count(chains, "chains", 2), check_count(draws, "draws", 4) // 2
    probability = check_number(probability, "probability", above=0, below=1)
    advice = "the law is one of draws that are worth some independent ones in each half of a chain."
    each = np.ravel(check_numbers(ess, "ess", above=2 * pieces, advice=advice)) / pieces
    if not each.size:
        raise ValueError(f"ess: expected at least one effective sample size, got {shown(ess)}.")
    each = np.minimum(each, _ENOUGH)
    freedom = pieces * (each - 1)
    # At the least of the numbers' own limits none is safer than wanted; at the greatest none is less safe.
    own = _limit(each, freedom, pieces, length, _tail(each.size, probability))
    low, high = float(own.min()), float(own.max())
    while high - low > 1e-12:
        middle = (low + high) / 2
        below = np.sum(2 * np.log(fdtr(pieces - 1, freedom, each * (middle**2 - 1 + 1 / length))))
        low, high = (middle, high) if below < np.log(probability) else (low, middle)
    return high


def draws_to_agree(ess: Float[np.ndarray, " p"], chains: int, draws: int, r_hat: float) -> int:
    """Draws of each chain from which on agreeing chains are expected to have no R-hat above ``r_hat``, to two figures.

    Examples
    --------
    >>> draws_to_agree(np.full(5000, 1000.0), 4, 700, 1.01)
    1200
    """
    # Of fewer there is no law, and they are what needs more draws in any case.
    now = largest_r_hat(np.maximum(ess, 4 * chains + 1), chains=chains, draws=draws, probability=0.5)
    # Effective draws grow with draws, and R̂² − 1 falls as they grow.
    wanted = draws * (now**2 - 1) / (r_hat**2 - 1)
    unit = 10 ** max(int(np.log10(max(wanted, 1))) - 1, 0)
    return int(np.ceil(wanted / unit)) * unit


def limit_of_draws(
    draws: Float[np.ndarray, "C S p"], count: int, probability: float = 0.99, at_once: int = 256
) -> Float[np.ndarray, " p"]:
    """R-hat that each of some numbers may have among ``count`` of them, all of which keep to theirs with a probability.

    Parameters
    ----------
    draws : array (C, S, p)
        Draws of those that are to be judged, none constant.
    count : int
        Numbers that there are in all.
    probability : float
        That no number of chains that agree exceeds its limit.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> limit_of_draws(generator.normal(size=(4, 200, 2)), 1000).round(2)
    array([1.03, 1.02])
    """
    tail, found = _tail(count, probability), np.empty(draws.shape[2])
    for start in range(0, draws.shape[2], at_once):
        some = np.asarray(draws[:, :, start : start + at_once], dtype=np.float64)
        found[start : start + at_once] = _limit_of_some(np.moveaxis(some, 2, 0), tail)
    return found


def limit_of_summary(
    r_hat: Float[np.ndarray, " p"],
    ess: Float[np.ndarray, " p"],
    chains: int,
    draws: int,
    batches: int,
    count: int,
    probability: float = 0.99,
) -> Float[np.ndarray, " p"]:
    """:func:`limit_of_draws` of numbers of which R-hat and the effective sample size of batch means are known.

    With ``g`` the share of the sum of squares of draws that is between the ``M`` halves, which R-hat tells, and ``a``
    batches of each of ``C`` chains,

        F = (aC − M)/(M − 1) · g / ((aC − 1)/ESS − g).
    """
    pieces, length = 2 * chains, draws / 2
    ratio = length * (r_hat**2 - 1) + 1  # B/W
    share = 1 / (1 + pieces * (length - 1) / ((pieces - 1) * ratio))
    freedom = np.full(len(r_hat), float(batches * chains - pieces))
    within = np.maximum((batches * chains - 1) / ess - share, np.finfo(float).tiny)
    each = freedom / (pieces - 1) * share / within * length / ratio  # F = n_e/n · B/W
    return _limit(each, freedom, pieces, length, _tail(count, probability))


def r_hat_limits(posterior: xr.Dataset, statistics: Mapping[str, xr.Dataset], r_hat: float, ess: float) -> xr.Dataset:
    """R-hat that each number of a posterior may have: ``r_hat``, or more where chains that agree have more.

    The second is for posteriors of 500 numbers and more, and needs an effective sample size that can be told from
    the draws: ``ess``, and 50 of each half of a chain (Vehtari et al. 2021), of bulk and tail. Numbers that have fewer
    keep to ``r_hat``.

    Parameters
    ----------
    posterior : xarray.Dataset
        Variables whose draws were kept, on ``chain`` and ``draw``.
    statistics : mapping
        Datasets ``r_hat``, ``ess_bulk`` and ``ess_tail``, in the first two also of variables that were not kept.
    """
    from ...sampling.run.summary import batches_of

    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    count = sum(int(part.notnull().sum()) for part in statistics["r_hat"].values())
    limits = {}
    for name, part in statistics["r_hat"].items():
        kinds = [statistics[kind][name].values for kind in ("ess_bulk", "ess_tail") if name in statistics[kind]]
        size = np.minimum.reduce(kinds)
        asked = np.asarray((part.values > r_hat) & (size >= max(ess, 100 * chains)) & (count >= LIMITS.many))
        limit = np.full(part.shape, float(r_hat))
        if asked.any() and name in posterior:
            values = posterior[name].transpose("chain", "draw", *part.dims).values
            limit[asked] = np.fmax(r_hat, limit_of_draws(values[:, :, asked], count))
        elif asked.any():
            known = part.values[asked], size[asked]
            limit[asked] = np.fmax(r_hat, limit_of_summary(*known, chains, draws, batches_of(draws), count))
        limits[name] = part.copy(data=limit)
    return statistics["r_hat"].assign(limits)


def _tail(count: int, probability: float) -> float:
    """Probability that each of two tests of each number exceeds its limit, so that all keep to theirs."""
    return float(-np.expm1(np.log(probability) / (2 * count)))


def _limit(
    each: Float[np.ndarray, " p"], freedom: Float[np.ndarray, " p"], pieces: int, length: float, tail: float
) -> Float[np.ndarray, " p"]:
    """R-hat that is exceeded with probability ``tail``, by the effective draws of a piece."""
    # The reciprocal of F has its degrees exchanged, and a lower tail that does not round to 1.
    ratio = 1 / fdtri(freedom, pieces - 1, tail)
    return np.sqrt(1 + ratio / each - 1 / length)


def _limit_of_some(draws: Float[np.ndarray, "p C S"], tail: float) -> Float[np.ndarray, " p"]:
    half = draws.shape[2] // 2
    parts = np.concatenate([draws[:, :, :half], draws[:, :, -half:]], axis=1)
    away = np.abs(parts - np.median(parts, axis=(1, 2), keepdims=True))
    limits, over = [], []
    for values in (parts, away):
        scores = _normal_scores(values)
        pieces, length = scores.shape[1:]
        spread = scores.mean(axis=2).var(axis=1, ddof=1) / scores.var(axis=2, ddof=1).mean(axis=1)
        times, lags = _autocorrelation_time(scores)
        limits.append(_limit(length / times, pieces * length / (2 * lags + 1), pieces, length, tail))
        over.append(np.sqrt(spread + (length - 1) / length) > limits[-1])
    limit, beyond = np.array(limits), np.array(over)
    # R-hat is the larger of two: what exceeds its limit decides, and if nothing does, neither does the larger one.
    return np.where(beyond.any(axis=0), np.where(beyond, limit, np.inf).min(axis=0), limit.max(axis=0))


def _normal_scores(values: Float[np.ndarray, "p M n"]) -> Float[np.ndarray, "p M n"]:
    """Normal quantiles of ranks over all pieces (Blom 1958)."""
    from scipy.stats import rankdata

    flat = values.reshape(len(values), -1)
    return ndtri((rankdata(flat, axis=1) - 0.375) / (flat.shape[1] + 0.25)).reshape(values.shape)


def _autocorrelation_time(
    scores: Float[np.ndarray, "p M n"],
    rounds: int = 4,
) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"]]:
    """``τ`` of pieces that agree, and the lags that were added up.

    The correction for an estimated mean is its own fixed point, and shrinks to a tenth of its error each round.
    """
    _, pieces, length = scores.shape
    away = scores - scores.mean(axis=2, keepdims=True)
    size = 1 << (2 * length - 1).bit_length()
    spectrum = np.mean(np.abs(np.fft.rfft(away, size, axis=2)) ** 2, axis=1)
    covariance = np.fft.irfft(spectrum, size, axis=1)[:, :length] / length
    within = covariance[:, :1] * length / (length - 1)
    pairs = (length - 1) // 2
    times, lags = np.zeros((len(scores), 1)), np.zeros(len(scores))
    for _ in range(rounds):
        lacking = within * times / length
        correlation = 1 - (within - covariance) / (covariance[:, :1] + lacking)
        correlation[:, 0] = 1.0
        sums = correlation[:, : 2 * pairs].reshape(-1, pairs, 2).sum(axis=2)
        positive = np.logical_and.accumulate(sums > 0, axis=1)
        total = np.sum(np.where(positive, np.minimum.accumulate(sums, axis=1), 0.0), axis=1)
        lags = np.maximum(2.0 * positive.sum(axis=1) - 1, 0.0)
        # Draws that repel each other are not believed to be worth more than this many (Vehtari et al. 2021).
        times = np.maximum(2 * total - 1, 1 / np.log10(pieces * length))[:, None]
    return times[:, 0], lags
