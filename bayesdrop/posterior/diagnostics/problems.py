"""Find problems of a posterior that R-hat and effective sample sizes do not show, with advice, for ``bd.diagnose``.

Chains that are copies of each other agree perfectly, and constant draws have no R-hat. An approximation may mix well
but have another posterior; its error is in the attributes of the sampler or of :func:`bayesdrop.reweight`. Advice on
chains that did not mix depends on the data and on the sampler.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..._display import compared_texts
from ...description import stored_model
from ...losses.protocols import Augmented
from .mixing import LIMITS, largest_k

if TYPE_CHECKING:
    import xarray as xr

__all__ = [
    "Problem",
    "approximation_problem",
    "draw_the_masks",
    "has_gibbs",
    "has_own_model",
    "approximation_words",
    "chain_problems",
    "columns_advice",
    "more_draws",
    "shorter_steps",
]


class Problem(NamedTuple):
    """A problem of the draws, and advice about it."""

    text: str
    advice: str


_STILL = (
    "These are not draws of a posterior. Check what was stored; if a sampler made them, sample again with another "
    "seed, more tune, or another method."
)
_COPIES = "Run each chain with a seed of its own: copies of a chain always agree with each other, and count twice."


def chain_problems(posterior: xr.Dataset, all_drawn: bool = True) -> list[Problem]:
    """Constant chains and coordinates, and chains with the same draws.

    Parameters
    ----------
    posterior : xarray.Dataset
        Variables on ``chain`` and ``draw``, all finite.
    all_drawn : bool
        False if some variables may have been held fixed.
    """
    values = [part.transpose("chain", "draw", ...).values for part in posterior.values()]
    count, listed = posterior.sizes["chain"], LIMITS.listed
    names = [str(label) for label in (posterior["chain"].values if "chain" in posterior.coords else range(count))]
    still = [c for c in range(count) if all(np.all(part[c] == part[c, :1]) for part in values)]
    moving = [c for c in range(count) if c not in still]
    copies: dict[int, list[int]] = {}
    for c in moving:
        first = next(d for d in moving if all(np.array_equal(part[c], part[d]) for part in values))
        copies.setdefault(first, []).append(c)

    def chains(numbers: Iterable[int]) -> str:
        return f"chain {', '.join(names[c] for c in numbers)}"

    faults = []
    if still:
        which = f"{chains(still)} never moves" if moving else "no chain ever moves"
        faults.append((f"{which}: all draws of a chain are the same", _STILL))
    if moving:
        subset = posterior.isel(chain=moving)
        for (variable, where), entries in _constant_entries(subset, all_drawn).items():
            more = f" and {len(entries) - listed} more" if len(entries) > listed else ""
            what = f"{variable} of {', '.join(entries[:listed])}{more}" if any(entries) else variable
            part = f" in {chains(moving[c] for c in where)}" if len(where) < len(moving) else ""
            faults.append((f"{what} never moves{part}: all its draws are the same", _STILL))
    faults += [
        (f"{chains(same[1:])} has the same draws as chain {names[first]}", _COPIES)
        for first, same in copies.items()
        if len(same) > 1
    ]
    return [Problem(*fault) for fault in faults]


def _constant_entries(posterior: xr.Dataset, all_drawn: bool) -> dict[tuple[str, tuple[int, ...]], list[str]]:
    """Entries that are constant in some otherwise moving chains, as ``{("weight", (0, 1)): ["age"]}``.

    Parameters
    ----------
    posterior : xarray.Dataset
        Variables on ``chain`` and ``draw``.
    all_drawn : bool
        Whether every entry was drawn. If not, a variable may be fixed, and entries may be constantly 0 or 1, as in a
        correlation matrix.
    """
    entries: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for name, part in posterior.items():
        array = part.transpose("chain", "draw", ...)
        if array.dtype.kind != "f":
            continue
        values = array.values.reshape(*array.shape[:2], -1)
        still = np.all(values == values[:, :1], axis=1)  # (C, k)
        same = np.all(still & (values[:, 0] == values[0, 0]), axis=0)
        if not all_drawn:
            still[:, same & (np.all(same) | np.isin(values[0, 0], (0.0, 1.0)))] = False
        for entry in np.flatnonzero(still.any(axis=0)):
            place = np.unravel_index(entry, array.shape[2:]) if array.ndim > 2 else ()
            label = ", ".join(str(array[dim].values[j]) for dim, j in zip(array.dims[2:], place, strict=True))
            entries.setdefault((str(name), tuple(np.flatnonzero(still[:, entry]).tolist())), []).append(label)
    return entries


def approximation_words(attrs: Mapping[str, Any], size: int) -> str:
    """Describe the approximation of a sampler and its error, or the reweighting; empty if the sampler is exact.

    Parameters
    ----------
    attrs : mapping
        Attributes of a posterior.
    size : int
        Draws of all chains.
    """
    if "reweight_pareto_k" in attrs:
        of = int(attrs.get("reweight_draws", size))
        beyond = float(attrs.get("reweight_beyond", 0))
        k, limit = compared_texts(float(attrs["reweight_pareto_k"]), largest_k(size), ".2f")
        return (
            "masks were integrated as if scores were normal, and the draws reweighted to the sum over all masks: "
            f"Pareto k {k}, wanted: at most {limit}; "
            f"{float(attrs['reweight_effective_draws']):,.0f} effective draws of {of:,}; "
            f"{100 * beyond:.0f} % of the weight on draws that were added to the sampler's"
        )
    if "approximation" not in attrs:
        return ""
    text = str(attrs["approximation"])
    if "approximation_error" in attrs:
        error = float(attrs["approximation_error"])
        text += f". A row's log-likelihood is off by {error:.2g} (root mean square, at these draws)"
    else:
        text += "; by how much that is off is not known"
    if "approximation_total" in attrs:
        text += f", that of all rows by {_error_text(attrs)}; wanted: at most {LIMITS.nats:g}"
    if "approximation_pareto_k" in attrs:
        k, limit = compared_texts(float(attrs["approximation_pareto_k"]), LIMITS.error_k, ".2f")
        text += f". Pareto k {k}; wanted: at most {limit}"
    return text


def _error_text(attrs: Mapping[str, Any]) -> str:
    """Error of the log-likelihood, with its bound unless the error is clearly above the limit."""
    total, bound = float(attrs["approximation_total"]), float(attrs["approximation_bound"])
    (shown, _), (bound_text, _) = (compared_texts(value, LIMITS.nats, ".2g") for value in (total, bound))
    is_wide = bound > LIMITS.nats and bound > min(LIMITS.wide * total, max(total, LIMITS.nats))
    return f"{shown} nats (standard deviation over draws{f', at most {bound_text}' * is_wide})"


def has_own_model(attrs: Mapping[str, Any]) -> bool:
    """Whether this package sampled the posterior, so that every entry of every variable is drawn."""
    return attrs.get("inference_library") == "bayesdrop" or stored_model(attrs) is not None


def has_gibbs(attrs: Mapping[str, Any]) -> bool:
    """Whether ``bd.Gibbs()`` can sample the model of a posterior: auxiliary variables, and no correlated effects.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from bayesdrop.description import attributes
    >>> has_gibbs(attributes(bd.Model())), has_gibbs(attributes(bd.Model(bd.Poisson())))
    (True, False)
    """
    model = stored_model(attrs)
    augmented = model is None or model.loss.multiclass or isinstance(model.loss, Augmented)
    return augmented and not _is_non_centred(attrs)


def _is_non_centred(attrs: Mapping[str, Any]) -> bool:
    """Whether only HMC and NUTS draw the random terms of a posterior."""
    return bool(getattr(getattr(stored_model(attrs), "weight_prior", None), "non_centred", False))


def draw_the_masks(attrs: Mapping[str, Any]) -> str:
    """Name the sampler that is exact for a model whose masks were integrated."""
    if has_gibbs(attrs):
        return "sample with bd.Gibbs(), which draws the masks."
    return (
        "take bd.NegativeBinomial(dispersion) with a large dispersion, which is near this loss and whose masks "
        "bd.Gibbs() draws."
    )


def approximation_problem(attrs: Mapping[str, Any], size: int) -> Problem | None:
    """Return the problem of integrated masks, or of the weights that correct them; None without a problem.

    Parameters
    ----------
    attrs : mapping
        Attributes of a posterior.
    size : int
        Draws of all chains.
    """
    exact = draw_the_masks(attrs)
    if "reweight_pareto_k" in attrs:
        k = float(attrs["reweight_pareto_k"])
        if k > largest_k(size):
            shown, limit = compared_texts(k, largest_k(size), ".2f")
            return Problem(
                f"the importance weights have a Pareto k of {shown}, above {limit}: a few draws decide",
                f"The approximation is too far away to be reweighted; {exact}",
            )
        return None
    if attrs.get("inference_method") == "variational":
        return Problem(
            "these are draws of a mean field: its intervals are too narrow, and weights of features that may be "
            "dropped are shrunk towards 0",
            "Draw from the posterior by bd.sample before trusting intervals and effects.",
        )
    if "approximation_total" not in attrs:
        return None
    bound, k = float(attrs["approximation_bound"]), float(attrs.get("approximation_pareto_k", np.nan))
    if bound <= LIMITS.nats and not k > LIMITS.error_k:
        return None
    text = f"the log-likelihood with masks integrated is off by {_error_text(attrs)}"
    wrong = [f"above {LIMITS.nats:g}"] if bound > LIMITS.nats else []
    if k > LIMITS.error_k:
        shown, limit = compared_texts(k, LIMITS.error_k, ".2f")
        wrong.append(f"{'and ' * bool(wrong)}with a Pareto k of {shown}, above {limit}")
    advice = (
        f"{exact[0].upper()}{exact[1:]}" if k > LIMITS.mean_k else f"Correct it by bd.reweight(post, X, y), or {exact}"
    )
    return Problem(f"{text}, {' '.join(wrong)}: this is another posterior", advice)


# Targets with more than one sampler.
_CHOICE_OF_METHOD = ("noising", "marginalised")


def columns_advice(attrs: Mapping[str, Any]) -> str:
    """Advise on the columns of the matrix if they are the likely cause; empty otherwise."""
    if "unscaled" in attrs:
        names = json.loads(str(attrs["unscaled"]))
        shown = ", ".join(map(str, names[: LIMITS.listed])) + (" …" if len(names) > LIMITS.listed else "")
        return (
            f"Columns that are never zero and of one sign are dropped to 0 ({shown}): centre their noise by "
            'bd.Dropout(centre="mean"), or subtract their means.'
        )
    ratio = float(attrs.get("scale_ratio", 1.0))
    if ratio > LIMITS.scale_ratio:
        return (
            f"The standard deviations of the columns differ by a factor of {ratio:.0e}: take a prior that follows "
            "them, weight_prior=bd.Normal(1.0, relative=True), or standardise X."
        )
    return ""


def more_draws(attrs: Mapping[str, Any], posterior: xr.Dataset) -> str:
    """Advise on too few effective draws, by the method that made them."""
    method = str(attrs.get("method", ""))
    if attrs.get("inference_method", "mcmc") != "mcmc" or attrs.get("target", "noising") not in _CHOICE_OF_METHOD:
        method = ""
    if method.startswith("Gibbs"):
        first = "Raise draws and tune, or bd.Gibbs(sweeps_per_draw=...), before trusting intervals and tails"
        if "rate" in posterior and "included" not in posterior and posterior["rate"].isel(chain=0, draw=0).size > 1:
            return f"{first}; share rates by bd.PerGroup or bd.Shared if that does not help."
        return f"{first}."
    other = "bd.Gibbs()" if has_gibbs(attrs) else "bd.NUTS()" if _is_non_centred(attrs) else ""
    if not method or not other or f"bd.{method}".startswith(other[:-1]):
        return "Raise draws and tune before trusting intervals and tails."
    return f"Raise draws and tune, or another method, such as method={other}, before trusting intervals and tails."


def shorter_steps(attrs: Mapping[str, Any], stats: xr.Dataset) -> tuple[float, str]:
    """Acceptance rate below which the steps of a sampler are too long, and what to do about it."""
    method = str(attrs.get("method", ""))
    if method.startswith("HMC("):
        steps = int(stats["n_steps"].max()) if "n_steps" in stats else 1
        more = f"Raise tune, or use more leapfrog steps, method=bd.HMC(n_leapfrog_steps={2 * steps})"
        return LIMITS.acceptance, f"{more}; there were {steps}."
    if method.startswith("NUTS("):
        return LIMITS.acceptance, "Raise tune, or target_accept of bd.NUTS()."
    return LIMITS.other_acceptance, "Raise tune, take smaller steps, or use another method."
