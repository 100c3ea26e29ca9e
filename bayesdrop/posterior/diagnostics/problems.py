"""Problems of a posterior that R-hat and effective sample sizes do not show.

Chains that are copies of each other agree perfectly, and draws that never move have no R-hat at all. An approximation
may mix well and be of another posterior; how far it is away stands in the attributes that a sampler, or
:func:`bayesdrop.reweight`, left behind. What to do about chains that did not mix depends on the data and on the
sampler.
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
from .repeats import common_multiple, constant_entries, draw_hashes, shifted_copies

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
    """What is wrong, and what to do."""

    text: str
    advice: str


_STILL = (
    "These are no draws of a posterior. Check what was stored; if a sampler made them, sample again with another seed, "
    "more tune, or another method."
)
_COPIES = (
    "Run each chain with a seed of its own, and store each draw once: copies agree with each other whatever they are, "
    "and count twice."
)


def chain_problems(posterior: xr.Dataset, all_drawn: bool = True, listed: int = 5) -> list[Problem]:
    """Chains and coordinates that never move, and draws that are stored more than once.

    Parameters
    ----------
    posterior : xarray.Dataset
        Variables on ``chain`` and ``draw``, all finite.
    all_drawn : bool
        False if some variables may have been held fixed.
    listed : int
        Coordinates that a message lists.
    """
    values = [part.transpose("chain", "draw", ...).values for part in posterior.values()]
    hashes, count = draw_hashes(values), posterior.sizes["chain"]
    labels = posterior["chain"].values if "chain" in posterior.coords else range(count)
    names = [str(label) for label in labels]
    still = [c for c in range(count) if np.all(hashes[c] == hashes[c, 0])]
    moving = [c for c in range(count) if c not in still]
    copies: dict[int, list[int]] = {}
    for c in moving:
        copies.setdefault(next(d for d in moving if np.array_equal(hashes[c], hashes[d])), []).append(c)

    def chains(numbers: Iterable[int]) -> str:
        return f"chain {', '.join(names[c] for c in numbers)}"

    faults = []
    if still:
        which = f"{chains(still)} never moves" if moving else "no chain ever moves"
        faults.append((f"{which}: all draws of a chain are the same", _STILL))
    if moving:
        subset = posterior.isel(chain=moving)
        for (variable, where), entries in constant_entries(subset, all_drawn).items():
            more = f" and {len(entries) - listed} more" if len(entries) > listed else ""
            what = f"{variable} of {', '.join(entries[:listed])}{more}" if any(entries) else variable
            part = f" in {chains(moving[c] for c in where)}" if len(where) < len(moving) else ""
            faults.append((f"{what} never moves{part}: all its draws are the same", _STILL))
    faults += [
        (f"{chains(same[1:])} has the same draws as chain {names[first]}", _COPIES)
        for first, same in copies.items()
        if len(same) > 1
    ]
    if any(part.dtype.kind == "f" for part in values):  # whole numbers coincide
        different = list(copies)
        times = {c: common_multiple(hashes[c]) for c in different}
        for number in sorted({number for number in times.values() if number > 1}):
            which = chains(c for c in different if times[c] == number)
            faults.append((f"every draw of {which} is stored {number} times", _COPIES))
        for one, other, shift in shifted_copies(hashes[different]):
            source, copy = names[different[one]], names[different[other]]
            whose = "its own draws" if one == other else f"draws of chain {source}"
            when = f"{abs(shift)} draws {'later' if shift > 0 else 'earlier'}"
            faults.append((f"chain {copy} repeats {whose} {when}", _COPIES))
    return [Problem(*fault) for fault in faults]


def approximation_words(attrs: Mapping[str, Any], size: int) -> str:
    """What a sampler approximates and how well, or what reweighting made of it; empty if it is exact.

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
        total, bound = float(attrs["approximation_total"]), float(attrs["approximation_bound"])
        shown, limit = compared_texts(total, LIMITS.nats, ".2g")
        text += f", that of all rows by {shown} nats (standard deviation over draws"
        # Where few rows could be examined, the text says what is unknown.
        wide = bound > 1.2 * total and bound > LIMITS.nats
        text += f", at most {compared_texts(bound, LIMITS.nats, '.2g')[0]})" if wide else ")"
        text += f"; wanted: at most {limit}"
    if "approximation_pareto_k" in attrs:
        k, limit = compared_texts(float(attrs["approximation_pareto_k"]), LIMITS.error_k, ".2f")
        text += f". Pareto k {k}; wanted: at most {limit}"
    return text


def has_own_model(attrs: Mapping[str, Any]) -> bool:
    """Whether a posterior is of this package, which draws every entry of every variable."""
    return attrs.get("inference_library") == "bayesdrop" or stored_model(attrs) is not None


def has_gibbs(attrs: Mapping[str, Any]) -> bool:
    """Whether ``bd.Gibbs()`` takes the model of a posterior: its loss, or that of its classes, has auxiliary variables.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from bayesdrop.description import attributes
    >>> has_gibbs(attributes(bd.Model())), has_gibbs(attributes(bd.Model(bd.Poisson())))
    (True, False)
    """
    model = stored_model(attrs)
    return model is None or model.loss.multiclass or isinstance(model.loss, Augmented)


def draw_the_masks(attrs: Mapping[str, Any]) -> str:
    """Which sampler is exact where masks were integrated."""
    if has_gibbs(attrs):
        return "sample with bd.Gibbs(), which draws the masks."
    return (
        "take bd.NegativeBinomial(dispersion) with a large dispersion, which is near this loss and whose masks "
        "bd.Gibbs() draws."
    )


def approximation_problem(attrs: Mapping[str, Any], size: int) -> Problem | None:
    """What is wrong with how masks were integrated, or with the weights that were to mend it; None if nothing is.

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
    total, bound = float(attrs["approximation_total"]), float(attrs["approximation_bound"])
    k = float(attrs.get("approximation_pareto_k", np.nan))
    if bound <= LIMITS.nats and not k > LIMITS.error_k:
        return None
    (shown, nats), (most, _) = (compared_texts(value, LIMITS.nats, ".2g") for value in (total, bound))
    text = f"the log-likelihood with masks integrated is off by {shown} nats (standard deviation over draws"
    if not attrs["approximation_resolved"] and total > LIMITS.nats:
        text += f"; from some rows, which say no more than that it is below {most}"
    elif total <= LIMITS.nats < bound:
        text += f", and perhaps by {most}"
    text += ")"
    wrong = [f"above {nats}"] if bound > LIMITS.nats else []
    if k > LIMITS.error_k:
        shown, limit = compared_texts(k, LIMITS.error_k, ".2f")
        wrong.append(f"{'and ' * bool(wrong)}with a Pareto k of {shown}, above {limit}")
    advice = (
        f"{exact[0].upper()}{exact[1:]}" if k > LIMITS.mean_k else f"Correct it by bd.reweight(post, X, y), or {exact}"
    )
    return Problem(f"{text}, {' '.join(wrong)}: this is another posterior", advice)


# Densities that there are several samplers of.
_CHOICE_OF_METHOD = ("noising", "marginalised")


def columns_advice(attrs: Mapping[str, Any]) -> str:
    """What to do first where the columns of the matrix are likely to be the cause; empty if they are not."""
    if "unscaled" in attrs:
        names = json.loads(str(attrs["unscaled"]))
        shown = ", ".join(map(str, names[:5])) + (" …" if len(names) > 5 else "")
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
    """What to do about too few effective draws, by the method that made them."""
    method = str(attrs.get("method", ""))
    if attrs.get("inference_method", "mcmc") != "mcmc" or attrs.get("target", "noising") not in _CHOICE_OF_METHOD:
        method = ""
    if method.startswith("Gibbs"):
        first = "Raise draws and tune, or bd.Gibbs(sweeps_per_draw=...), before trusting intervals and tails"
        if "rate" in posterior and posterior["rate"].isel(chain=0, draw=0).size > 1:
            return f"{first}; share rates by bd.PerGroup or bd.Shared if that does not help."
        return f"{first}."
    other = " or another method, such as method=bd.Gibbs()," if method and has_gibbs(attrs) else ""
    return f"Raise draws and tune{',' if other else ''}{other} before trusting intervals and tails."


def shorter_steps(attrs: Mapping[str, Any], stats: xr.Dataset) -> tuple[float, str]:
    """Acceptance rate below which the steps of a sampler are too long, and what to do about it."""
    method = str(attrs.get("method", ""))
    if method.startswith("HMC("):
        steps = int(stats["n_steps"].max()) if "n_steps" in stats else 1
        more = f"Raise tune, or use more leapfrog steps, method=bd.HMC(n_leapfrog_steps={2 * steps})"
        return 0.5, f"{more}; there were {steps}."
    if method.startswith("NUTS("):
        return 0.5, "Raise tune, or target_accept of bd.NUTS()."
    return 0.1, "Raise tune, take smaller steps, or use another method."
