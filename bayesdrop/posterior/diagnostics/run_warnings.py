"""What a user is warned of when a run is over: that it ended early, is of another posterior, or mixed badly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...warnings import ApproximationWarning, IncompleteWarning, MixingWarning, warn
from .diagnosis import diagnose_groups
from .problems import approximation_problem

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["warn_of_run"]


def warn_of_run(
    groups: Mapping[str, xr.Dataset],
    attrs: Mapping[str, Any],
    draws: int,
    *,
    max_seconds: float | int | None = None,
    resumable: bool = False,
) -> None:
    """Warn of each kind of problem once.

    Parameters
    ----------
    groups : mapping from group name to xarray.Dataset
        As :func:`.arviz_groups.builder.build_groups` returns them.
    attrs : mapping
        Their attributes.
    draws : int
        Draws of each chain that were asked for.
    max_seconds : float, optional
        The time that the run was given.
    resumable : bool
        True if the same call goes on where the run ended.

    Warns
    -----
    IncompleteWarning
        If the run ended before it had what was asked for.
    ApproximationWarning
        If masks were integrated as if scores were normal, and that is another posterior.
    MixingWarning
        If R-hat or an effective sample size says so, or something else is wrong with the chains.
    """
    chains, found = (groups["posterior"].sizes[dim] for dim in ("chain", "draw"))
    if not attrs["complete"]:
        reason = "interrupted" if attrs["stopped"] == "interrupted" else f"max_seconds: {max_seconds:g} s were used up"
        further = "; call again with the same arguments to go on" if resumable else ""
        warn(
            f"{reason}: {found} of {draws} draws of each chain are there{further}. The attribute `complete` is 0.",
            IncompleteWarning,
        )
    wrong = approximation_problem(attrs, chains * found)
    if wrong is not None:
        warn(f"{wrong.text}. {wrong.advice}", ApproximationWarning)
    # An early end and an approximation have had warnings of their own.
    known = {name: value for name, value in attrs.items() if not name.startswith(("approximation", "reweight_"))}
    advice = diagnose_groups(groups, known | {"complete": 1}).advice
    if advice:
        warn(advice, MixingWarning)
