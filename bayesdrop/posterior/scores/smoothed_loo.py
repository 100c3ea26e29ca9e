"""Compute ArviZ's leave-one-out scores, in blocks of rows if the log likelihood is large or in a file.

The scores of rows are independent given the relative efficiency of the draws, which is computed once, as in ArviZ. So
scores, their sum and their Pareto k equal those for all rows at once. A group ``log_likelihood`` that would fill memory
is kept in a file. It is netCDF, as ArviZ writes groups, and is written some rows at a time under another name, so that
there is a whole one or none. What is read from it is read when it is needed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._arviz import arviz
from ..._memory import BLOCK
from ..._netcdf import checked_file, new_netcdf, reading
from ..._progress import uninterrupted
from ..._typing import Float, Int
from ..arviz_groups.groups import assemble, dataset, extend
from ..draws.draws import Draws

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["open_group", "smoothed_loo", "with_refits", "write_group", "GROUP", "STEP"]


def smoothed_loo(post: Any) -> Any:
    """Pointwise result of ``arviz.loo`` for the group ``log_likelihood``.

    Raises
    ------
    ValueError
        If the file of the group cannot be read.
    """
    likelihoods = dataset(post, GROUP)
    values = likelihoods[next(iter(likelihoods.data_vars))]
    others = [dim for dim in values.dims if dim not in ("chain", "draw")]
    count = values.sizes["chain"] * values.sizes["draw"]
    if len(others) != 1 or values.size <= STEP:
        return arviz().loo(_smoothable(post), pointwise=True)
    dim, step, attrs = others[0], max(STEP // count, 1), dict(getattr(post, "attrs", {}))
    posterior, parts = dataset(post, "posterior"), []
    efficiency = _relative_efficiency(posterior)
    for start in range(0, values.sizes[dim], step):
        try:
            block = likelihoods[[values.name]].isel({dim: slice(start, start + step)}).load()
        except (OSError, RuntimeError) as error:  # HDF5's errors for a damaged or missing file
            raise ValueError(
                f"post: the log likelihoods of rows {start} on cannot be read ({str(error)[:200]}); write the file "
                "again by bd.log_likelihood(post, X, y, path=…)."
            ) from error
        block_tree = assemble({"posterior": posterior, GROUP: block}, attrs)
        parts.append(arviz().loo(_smoothable(block_tree), pointwise=True, reff=efficiency))
    return _joined(parts, str(dim))


def _relative_efficiency(posterior: Any) -> float:
    """Mean effective sample size of all variables divided by the number of draws; 1 for a single chain."""
    if posterior.sizes["chain"] == 1:
        return 1.0
    sizes_of = arviz().ess(posterior, method="mean")
    table = sizes_of.to_dataset() if hasattr(sizes_of, "to_dataset") else sizes_of
    sizes = np.hstack([np.ravel(table[name].values) for name in table.data_vars])
    return float(sizes.mean() / (posterior.sizes["chain"] * posterior.sizes["draw"]))


def _joined(parts: list[Any], dim: str) -> Any:
    """Join the results of blocks of rows."""
    import xarray as xr

    def concat(name: str) -> Any:
        return xr.concat([_part(part, name) for part in parts], dim)

    warning = any(bool(part.warning) for part in parts)
    p = float(sum(_part(part, "p") for part in parts))
    return _with_rows(parts[0], concat("elpd_i"), concat("pareto_k"), p, warning)


def with_refits(result: Any, rows: Int[np.ndarray, " m"], scores: Float[np.ndarray, " m"]) -> Any:
    """Replace the scores of rows with a large Pareto k by scores under posteriors without them.

    Parameters
    ----------
    result : arviz.ELPDData
        Pointwise result of :func:`smoothed_loo`.
    rows : int array (m,)
        Rows without which the model was sampled again.
    scores : array (m,)
        Log predictive densities of these rows.
    """
    elpd_i, k = _part(result, "elpd_i").copy(deep=True), _part(result, "pareto_k").copy(deep=True)
    p = float(_part(result, "p") + np.sum(elpd_i.values[rows] - scores))
    elpd_i.values[rows], k.values[rows] = scores, 0.0
    return _with_rows(result, elpd_i, k.assign_attrs(refitted=rows.tolist()), p, warning=False)


# ArviZ before 1.0 has a series with these names, later ones a dataclass.
_NAMES = {"elpd": "elpd_loo", "p": "p_loo", "elpd_i": "loo_i"}


def _part(result: Any, name: str) -> Any:
    return getattr(result, _NAMES.get(name, name) if hasattr(result, "loo_i") else name)


def _with_rows(first: Any, scores: Any, k: Any, p: float, warning: bool) -> Any:
    """Result with the scores of all rows and their summaries; ``first`` is the result for some rows."""

    def error(values: Float[np.ndarray, " rows"], ddof: int) -> float:
        return float(np.sqrt(values.size * np.var(values, ddof=ddof)))

    scores_of_rows = _part(first, "elpd_i").values
    # ArviZ has changed between the two variances.
    ddof = int(scores_of_rows.size > 1 and not np.isclose(error(scores_of_rows, 0), float(first.se), rtol=1e-9))
    whole = {
        "elpd": float(np.sum(scores.values)),
        "se": error(scores.values, ddof),
        "p": p,
        "n_data_points": int(scores.size),
        "warning": warning,
        "elpd_i": scores,
        "pareto_k": k,
    }
    if not hasattr(first, "loo_i"):
        return dataclasses.replace(first, **whole)
    values = {_NAMES.get(name, name): value for name, value in whole.items()}
    return type(first)(data=[values.get(name, first[name]) for name in first.index], index=list(first.index))


def _smoothable(post: Any) -> Any:
    """Spread the log-likelihoods of a row by 1e-9 if they are equal in all draws.

    Without noise a row far from the boundary, on its side, has likelihoods that round to 1. Its importance weights are
    then equal, and no Pareto distribution fits them: ArviZ returns NaN, or raises an error. The spread, by normal
    quantiles in a scattered order, has a small Pareto k and changes the score by less than 1e-9.
    """
    from scipy.special import ndtri

    likelihoods = dataset(post, "log_likelihood")
    values = likelihoods[next(iter(likelihoods.data_vars))].transpose("chain", "draw", ...)
    same = 1e-8  # largest spread of equal log-likelihoods
    flat = (values.max(("chain", "draw")) - values.min(("chain", "draw"))) < same
    if not bool(flat.any()):
        return post
    count = values.sizes["chain"] * values.sizes["draw"]
    spread = 1e-9 * ndtri((np.argsort(np.sin(np.arange(1.0, count + 1))) + 0.5) / count)
    spread = spread.reshape(values.shape[:2] + (1,) * (values.ndim - 2))
    return extend(post, {"log_likelihood": likelihoods.assign({values.name: values + flat.values * spread})})


GROUP = "log_likelihood"
STEP = 8 * BLOCK
"""Maximum number of entries to compute, write or read at a time: 64 MB."""

_MARK = "bayesdrop_log_likelihood"
_DIMS = ("chain", "draw", "obs_id")


def write_group(path: Any, draws: Draws, parts: Iterator[tuple[slice, Float[np.ndarray, "C S rows"]]], n: int) -> None:
    """Write the values of all rows in blocks; on failure write no file.

    Parameters
    ----------
    path : path
        File, which is replaced.
    draws : Draws
        Draws of the log likelihoods.
    parts : iterator of (slice, array (C, S, rows))
        Rows, and their values.
    n : int
        Number of rows.
    """
    chains, steps = draws.shape
    with new_netcdf(path) as (file, check):
        with uninterrupted():
            group = file.create_group(GROUP)
            group.dimensions = {"chain": chains, "draw": steps, "obs_id": n}
            for name, values in (*draws.steps.items(), ("obs_id", np.arange(n))):
                group.create_variable(name, (name,), data=np.asarray(values))
            rows = min(max(BLOCK // (8 * chains * steps), 1), n)
            likelihoods = group.create_variable("y", _DIMS, dtype=np.float64, chunks=(chains, steps, rows))
            group.attrs[_MARK] = _sum(draws)
        for place, values in parts:
            with uninterrupted():
                likelihoods[:, :, place] = values
            check()


def open_group(path: Any, draws: Draws, n: int) -> xr.Dataset:
    """Open the group in a file of :func:`write_group`; values are read when needed.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is truncated, is of another kind, or belongs to other draws or rows.
    """
    import xarray as xr

    writer = "bd.log_likelihood(post, X, y, path=…)"
    with reading(path, "log likelihoods", writer, f"write it again by {writer}") as file, checked_file(file):
        group = xr.open_dataset(file, group=GROUP, engine="h5netcdf", cache=False)
    came = {name: int(size) for name, size in group.sizes.items()}
    expected = dict(zip(_DIMS, (*draws.shape, n), strict=True))
    if came != expected or group.attrs.get(_MARK) != _sum(draws):
        group.close()
        raise ValueError(
            f"path: expected the log likelihoods of this posterior, {expected}, got {came}"
            f"{' of other draws' * (came == expected)} in {str(file)!r}; write them by "
            "bd.log_likelihood(post, X, y, path=…)."
        )
    return group


def _sum(draws: Draws) -> float:
    """Checksum that identifies draws."""
    return float(draws.weight.sum(dtype=np.float64) + draws.intercept.sum(dtype=np.float64))
