"""What to do about chains that did not mix, by what is known of the data and of the sampler."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["columns_advice", "more_draws", "shorter_steps"]

# Ratio of the standard deviations of two columns from which on a prior of one scale makes chains slow.
_SCALE_LIMIT = 100.0
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
    if ratio > _SCALE_LIMIT:
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
    other = " or another method, such as method=bd.Gibbs()," if method else ""
    return f"Raise draws and tune{',' if other else ''}{other} before trusting intervals and tails."


def shorter_steps(attrs: Mapping[str, Any], stats: xr.Dataset) -> tuple[float, str]:
    """Acceptance rate below which the steps of a sampler are too long, and what to do about it."""
    method = str(attrs.get("method", ""))
    if method.startswith("HMC("):
        steps = int(stats["n_steps"].max()) if "n_steps" in stats else 1
        more = f"Raise tune, or take more leapfrog steps, method=bd.HMC(n_leapfrog_steps={2 * steps})"
        return 0.5, f"{more}; there were {steps}."
    if method.startswith("NUTS("):
        return 0.5, "Raise tune, or target_accept of bd.NUTS()."
    return 0.1, "Raise tune, take smaller steps, or use another method."
