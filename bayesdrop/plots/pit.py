"""Probability integral transforms of rows that are left out, against a uniform law."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import Float
from .._validation import check_number, check_seed, takes_seed
from ..posterior.leave_one_out import left_out_weights
from .replicated import read_replicated
from .style import BLUE, GREY, LIGHT_GREY, finished, new_axes, shortened

__all__ = ["loo_pit"]

_SIMULATED = 2000  # uniform samples by which the band is calibrated
_POINTS = 100  # places at which the distribution functions are compared


@takes_seed
def loo_pit(post: Any, *, probability: float | int = 0.9, seed: Any = 0, ax: Any = None) -> Any:
    """Draw how far the leave-one-out probability integral transforms of the rows are from a uniform law.

    The transform of a row is the probability, under the posterior without that row, of a response below the observed
    one. Under a right model they are uniform. The plot shows their distribution function minus that of a uniform law. A
    line above 0 on the left and below 0 on the right says that the predictions are too narrow, the reverse that they
    are too wide, and a line above 0 everywhere that the responses are smaller than predicted.

    Parameters
    ----------
    post : InferenceData or DataTree
        Posterior with the groups ``posterior_predictive``, from :func:`bayesdrop.posterior_predictive`, and
        ``log_likelihood``, from :func:`bayesdrop.log_likelihood`; not of three classes or more, which have no order.
    probability : float, default=0.9
        Probability that the whole line of a right model is within the band.
    seed : int, default=0
        Seed of the random part of the transforms of counts and classes, and of the band.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    TypeError, ValueError
        If ``post`` lacks one of the groups, or its responses have no order.

    See Also
    --------
    ppc, bayesdrop.loo

    Notes
    -----
    The posterior without a row is that with it, by Pareto-smoothed importance weights. Counts and classes have steps in
    their distribution functions: their transforms are randomised, ``P(ỹ < y) + u P(ỹ = y)`` with ``u`` uniform on
    (0, 1), which makes them uniform under a right model. The transforms of two classes say little beyond their
    frequency; :func:`reliability_curve` says more. The band is that of Säilynoja, Bürkner & Vehtari (2022), whose
    probability is that of the whole line; the transforms are taken for independent, as there.

    References
    ----------
    Gelfand, Dey & Chang (1992), Model determination using predictive distributions with implementation via
    sampling-based methods, Bayesian Statistics 4. Czado, Gneiting & Held (2009), Predictive model assessment for count
    data, Biometrics 65. Säilynoja, Bürkner & Vehtari (2022), Graphical test for discrete uniformity and its
    applications in goodness-of-fit evaluation and multiple sample comparison, Statistics and Computing 32,
    doi:10.1007/s11222-022-10090-6.

    Examples
    --------
    >>> import xarray as xr
    >>> import bayesdrop as bd
    >>> rng, dims = np.random.default_rng(0), ("chain", "draw", "obs_id")
    >>> y = rng.normal(size=50)
    >>> groups = {"posterior": xr.Dataset({"mu": (dims[:2], np.zeros((2, 200)))}),
    ...           "observed_data": xr.Dataset({"y": ("obs_id", y)}),
    ...           "posterior_predictive": xr.Dataset({"y": (dims, rng.normal(size=(2, 200, 50)))}),
    ...           "log_likelihood": xr.Dataset({"y": (dims, np.broadcast_to(-y**2 / 2, (2, 200, 50)))})}
    >>> loo_pit(bd.groups.assemble(groups)).get_xlabel()
    'Probability of a smaller y, each row left out'
    """
    probability = check_number(probability, "probability", above=0, below=1)
    found, generator = read_replicated(post), np.random.default_rng(check_seed(seed))
    if found.labels is not None and len(found.labels) > 2:
        raise ValueError(
            f"post: {len(found.labels)} classes have no order, so that nothing is below an observed one; take "
            "bd.plots.ppc, or bd.plots.reliability_curve of one class."
        )
    weight = left_out_weights(post)
    below = np.sum(weight * (found.drawn < found.observed), axis=0)
    equal = np.sum(weight * (found.drawn == found.observed), axis=0)
    pit = np.sort(np.clip(below + generator.random(len(below)) * equal, 0.0, 1.0))
    z = np.linspace(0, 1, _POINTS + 1)[1:-1]
    low, high = _band(len(pit), z, probability, generator)
    ax = new_axes(ax, 6.0, 3.8)
    x = np.concatenate([[0.0], z, [1.0]])
    edges = [np.concatenate([[0.0], part - z, [0.0]]) for part in (low, high)]
    ax.fill_between(
        x, *edges, color=LIGHT_GREY, linewidth=0, label=f"a right model, {100 * probability:g} % of whole lines"
    )
    ax.axhline(0, color=GREY, linewidth=0.9)
    steps = np.arange(len(pit) + 1) / len(pit)
    place = np.concatenate([[0.0], np.repeat(pit, 2), [1.0]])
    ax.plot(place, np.repeat(steps, 2) - place, color=BLUE, linewidth=1.4, label=f"{len(pit):,} rows")
    ax.set_xlim(0, 1)
    name = found.name if found.labels is None else f"class of {found.name}"
    ax.set(
        xlabel=shortened(f"Probability of a smaller {name}, each row left out", 64),
        ylabel="Share of the rows minus uniform",
    )
    return finished(ax, 2)


def _band(
    n: int, z: Float[np.ndarray, " g"], probability: float, generator: np.random.Generator
) -> tuple[Float[np.ndarray, " g"], Float[np.ndarray, " g"]]:
    """Ends, at ``z``, of a band that holds the whole distribution function of ``n`` uniform numbers that often.

    Examples
    --------
    >>> low, high = _band(100, np.array([0.5]), 0.95, np.random.default_rng(0))
    >>> bool(0.38 < low[0] < 0.42), bool(0.58 < high[0] < 0.62)
    (True, True)
    """
    from scipy.stats import binom

    # Each number falls into one cell between the places, so that counts below them are sums of multinomial ones.
    cells = generator.multinomial(n, np.diff(z, prepend=0.0, append=1.0), size=_SIMULATED)
    counts = np.cumsum(cells, axis=1)[:, :-1]
    rarest = 2 * np.minimum(binom.cdf(counts, n, z), binom.sf(counts - 1, n, z)).min(axis=1)
    level = np.quantile(rarest, 1 - probability)
    return binom.ppf(level / 2, n, z) / n, binom.ppf(1 - level / 2, n, z) / n
