"""Diagnose the chains of a posterior, in words, with advice on each problem: ``bd.diagnose``.

R-hat and effective sample sizes are those of Vehtari et al. (2021), E-BFMI that of Betancourt (2016).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._display import Shown, compared_texts
from ...warnings import ApproximationWarning, IncompleteWarning, MixingWarning, warn
from ..arviz_groups.constants import read_rate_prior
from ..arviz_groups.groups import dataset, group_names, read_attributes
from ..draws.draws import read_group
from .inclusion import inclusion_problems, without_indicators
from .mixing import LIMITS, Extreme, extreme_of, mixing, r_hat_limits
from .problems import (
    Problem,
    approximation_problem,
    approximation_words,
    chain_problems,
    columns_advice,
    has_gibbs,
    has_own_model,
    more_draws,
    shorter_steps,
)
from .response_spread import spread_problem
from .small_scales import small_scale_problems

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Diagnosis", "diagnose", "diagnose_groups", "warn_of_run"]


@dataclass(frozen=True, repr=False)
class Diagnosis(Shown):
    """Diagnosis of the chains of a posterior; ``print`` shows it in words.

    Attributes
    ----------
    chains, draws : int
        Number of chains, and of draws per chain.
    r_hat, ess_bulk, ess_tail : Extreme or None
        Largest R-hat and smallest effective sample sizes, each with its variable; None with too few chains or draws, or
        if nothing varies.
    divergences, acceptance_rate, e_bfmi : int, float, float or None
        Divergent trajectories, mean acceptance rate and smallest energy fraction, where the sampler records them.
    n_rates : int
        Number of free rates.
    undetermined : list of str
        Rates that the data do not determine: their 90 % interval is at least nine tenths as wide as the prior's.
    complete : bool
        False if the run ended before it had the requested number of draws.
    problems : list of Problem
        Problems of the chains, with remedies; not undetermined rates. Exact draws of learnt scales, whose small values
        are compared with the prior, have one with probability 1e-4.
    approximation : str
        What the sampler approximates and how accurately, or the result of ``bd.reweight``; empty if exact.
    r_hat_limit, r_hat_words : float, str
        Limit for the largest R-hat, 1.01 or more for hundreds of numbers (``bd.largest_r_hat``), and the reason.

    See Also
    --------
    diagnose

    Examples
    --------
    >>> Diagnosis(4, 1000, Extreme(1.002, "rate of age"), None, None).ok
    True
    """

    chains: int
    draws: int
    r_hat: Extreme | None
    ess_bulk: Extreme | None
    ess_tail: Extreme | None
    divergences: int | None = None
    acceptance_rate: float | None = None
    e_bfmi: float | None = None
    n_rates: int = 0
    undetermined: list[str] = field(default_factory=list)
    complete: bool = True
    problems: list[Problem] = field(default_factory=list)
    approximation: str = ""
    r_hat_limit: float = LIMITS.r_hat
    r_hat_words: str = ""

    @property
    def ok(self) -> bool:
        """True if there is no problem."""
        return not self.problems

    @property
    def advice(self) -> str:
        """All problems with their advice, without repetition; empty if there is none."""
        return " ".join(self._sentences())

    def _sentences(self) -> list[str]:
        texts: dict[str, list[str]] = {}
        for problem in self.problems:
            texts.setdefault(problem.advice, []).append(problem.text)
        return [f"{'; '.join(faults)}. {advice}" for advice, faults in texts.items()]

    def __repr__(self) -> str:
        count = len(self.problems)
        summary = f"{count} problem{'s' * (count != 1)}" if count else "no problems"
        return f"<Diagnosis: {self.chains} chains of {self.draws} draws, {summary}>"

    def __str__(self) -> str:
        lines = [f"{self.chains} chain{'s' * (self.chains != 1)} of {self.draws:,} draw{'s' * (self.draws != 1)}"]
        lines[0] += "" if self.complete else ", ended early"
        if self.r_hat is not None:
            value, limit = compared_texts(self.r_hat.value, self.r_hat_limit)
            limit += f", {self.r_hat_words}" if self.r_hat_words else ""
            lines.append(f"largest R-hat {value} ({self.r_hat.name}); wanted: at most {limit}")
        for kind, size in (("bulk", self.ess_bulk), ("tail", self.ess_tail)):
            if size is not None:
                value, limit = compared_texts(size.value, LIMITS.ess, ",.0f")
                lines.append(f"smallest {kind} effective sample size {value} ({size.name}); wanted: at least {limit}")
        if self.divergences is not None:
            lines.append(f"divergent trajectories: {self.divergences}")
        if self.acceptance_rate is not None:
            lines.append(f"acceptance rate {self.acceptance_rate:.2f}")
        if self.e_bfmi is not None:
            value, limit = compared_texts(self.e_bfmi, LIMITS.energy, ".2f")
            lines.append(f"smallest E-BFMI {value}; wanted: at least {limit}")
        if self.n_rates:
            lines.append(self._determined())
        if self.approximation:
            lines.append(self.approximation)
        if self.ok:
            lines.append("No problem was found with these draws.")
        lines += [f"Problem: {sentence}" for sentence in self._sentences()]
        return "\n".join(lines)

    def _determined(self) -> str:
        count, several = len(self.undetermined), self.n_rates > 1
        if not count:
            few = "the rate is narrower than its prior"
            return f"all {self.n_rates} rates are narrower than their priors" if several else few
        listed = LIMITS.listed
        named = ", ".join(self.undetermined[:listed]) + (f" and {count - listed} more" if count > listed else "")
        return (
            f"the data do not determine {count} of {self.n_rates} rate{'s' * several}: 90 % intervals hardly "
            f"narrower than the prior's ({named}); {'share rates by bd.PerGroup or bd.Shared, or ' * several}"
            f"give {'them' if several else 'it'} a prior"
        )


def diagnose(post: Any) -> Diagnosis:
    """Diagnose the chains of a posterior: mixing, divergences, small scales, and which rates the data determine.

    Parameters
    ----------
    post : InferenceData or DataTree
        What ``bd.sample`` returned, or :func:`bayesdrop.groups.load` read. Only the group ``posterior`` is needed.

    Returns
    -------
    Diagnosis
        ``print`` shows it in words; ``problems`` lists each problem with its remedy.

    Raises
    ------
    TypeError, ValueError
        If ``post`` is not a posterior.

    See Also
    --------
    sample, largest_r_hat, MixingWarning

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), An improved R-hat, Bayesian Analysis 16.

    Examples
    --------
    >>> import xarray as xr
    >>> import bayesdrop as bd
    >>> draws = np.random.default_rng(0).normal(size=(4, 1000, 2))
    >>> posterior = xr.Dataset({"weight": (("chain", "draw", "feature"), draws)}, coords={"feature": ["age", "size"]})
    >>> print(diagnose(bd.groups.assemble({"posterior": posterior})))
    4 chains of 1,000 draws
    largest R-hat 1.00... (weight of ...); wanted: at most 1.01
    smallest bulk effective sample size ... (weight of ...); wanted: at least 400
    smallest tail effective sample size ... (weight of ...); wanted: at least 400
    No problem was found with these draws.
    """
    posterior = read_group(post, "posterior")
    groups = {"posterior": posterior}
    more = ("sample_stats", "constant_data")
    groups |= {name: dataset(post, name) for name in group_names(post) if name in more}
    attrs = read_attributes(post)
    if attrs.get("inference_method") == "projection":
        raise ValueError(
            "post: these draws are projections, whose chains tell nothing new; diagnose the posterior that "
            "bd.project took."
        )
    return diagnose_groups(groups, attrs)


def diagnose_groups(groups: Mapping[str, xr.Dataset], attrs: Mapping[str, Any]) -> Diagnosis:
    """:func:`diagnose` of datasets that are not assembled yet."""
    posterior = groups["posterior"]
    missing = [dim for dim in ("chain", "draw") if dim not in posterior.sizes]
    if missing or not posterior.data_vars:
        raise ValueError(f"post: expected variables on chain and draw in the posterior, got {dict(posterior.sizes)}.")
    # Deterministic copies of the data, say, have no draws.
    posterior = posterior[[name for name, part in posterior.items() if {"chain", "draw"} <= set(part.dims)]]
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    more = columns_advice(attrs) or more_draws(attrs, posterior)
    problems: list[Problem] = []
    complete = bool(attrs.get("complete", 1))
    if not complete:
        text = f"the run ended early, after {draws} draws of each chain"
        problems.append(Problem(text, "Run it to its end."))
    broken = [str(name) for name, part in posterior.items() if not np.all(np.isfinite(part.values))]
    if broken:
        text = f"draws of {', '.join(broken)} are not finite"
        problems.append(Problem(text, "Bring the features to a common scale, lower C, or sample in double precision."))
    selects = "included" in posterior
    if selects:
        problems.extend(inclusion_problems(posterior, more))
        posterior = without_indicators(posterior)
    if draws >= LIMITS.draws and not broken and not attrs.get("reweighted"):
        problems.extend(chain_problems(posterior, has_own_model(attrs) and not selects))
        problems.extend(small_scale_problems(posterior, attrs, more))
    r_hat, bulk, tail, limit, words = _mixing_extremes(posterior, bool(broken), problems, more)
    stats = groups.get("sample_stats")
    sampled = (None, None, None) if stats is None else _from_stats(stats, draws, problems, attrs)
    # Rates of features that are excluded have their prior.
    rates, undetermined = (0, []) if selects else _undetermined(posterior, groups.get("constant_data"))
    wrong = approximation_problem(attrs, chains * draws)
    problems += [problem for problem in (wrong, spread_problem(attrs)) if problem is not None]
    return Diagnosis(
        chains, draws, r_hat, bulk, tail, *sampled, rates, undetermined, complete, problems,
        approximation_words(attrs, chains * draws), limit, words,
    )  # fmt: skip


def _mixing_extremes(
    posterior: xr.Dataset, broken: bool, problems: list[Problem], more: str
) -> tuple[Extreme | None, Extreme | None, Extreme | None, float, str]:
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    if draws < LIMITS.draws:
        text = f"draws: {draws} draw{'s' * (draws != 1)} of each chain are too few for any diagnostic"
        problems.append(Problem(text, "Take hundreds."))
        return None, None, None, LIMITS.r_hat, ""
    if chains < 2:
        text = "chains: one chain cannot show whether it has converged (R-hat)"
        problems.append(Problem(text, "Run at least 2, better 4."))
    if broken:
        return None, None, None, LIMITS.r_hat, ""
    statistics = mixing(posterior)
    r_hat = extreme_of(statistics["r_hat"], np.nanargmax) if chains > 1 else None
    bulk, tail = (extreme_of(statistics[kind], np.nanargmin) for kind in ("ess_bulk", "ess_tail"))
    limit, words = LIMITS.r_hat, ""
    if r_hat is not None and r_hat.value > LIMITS.r_hat:
        limits = r_hat_limits(posterior, statistics)
        limit, words = _limit_with_reason(r_hat, limits, statistics)
        excess = extreme_of(statistics["r_hat"].where(statistics["r_hat"] > limits), np.nanargmax)
        if excess is not None:
            above, why = _limit_with_reason(excess, limits, statistics)
            value, bound = compared_texts(excess.value, above)
            text = f"{'the largest' if excess == r_hat else 'an'} R-hat is {value} ({excess.name}), above {bound}"
            problems.append(Problem(f"{text}{f', {why}' if why else ''}: the chains disagree", more))
    smallest_size = min((size for size in (bulk, tail) if size is not None), default=None)
    if smallest_size is not None and smallest_size.value < LIMITS.ess:
        value, bound = compared_texts(smallest_size.value, LIMITS.ess, ".0f")
        problems.append(
            Problem(f"the smallest effective sample size is {value} ({smallest_size.name}), below {bound}", more)
        )
    return r_hat, bulk, tail, limit, words


def _limit_with_reason(r_hat: Extreme, limits: xr.Dataset, statistics: Mapping[str, xr.Dataset]) -> tuple[float, str]:
    """Limit of R-hat, and its explanation if it is above 1.01."""
    limit = extreme_of(limits.where(statistics["r_hat"] == r_hat.value), np.nanargmin)
    if limit is None or limit.value <= LIMITS.r_hat:
        return LIMITS.r_hat, ""
    count = sum(int(part.notnull().sum()) for part in statistics["r_hat"].values())
    return limit.value, f"as chains that agree may have in one of {count:,} numbers"


def _from_stats(
    stats: xr.Dataset, draws: int, problems: list[Problem], attrs: Mapping[str, Any]
) -> tuple[int | None, float | None, float | None]:
    divergences = acceptance = energy = None
    limit, shorter = shorter_steps(attrs, stats)
    if "diverging" in stats:
        divergences = int(stats["diverging"].sum())
        if divergences:
            count = f"{divergences} of {stats['diverging'].size} trajectories"
            other = " bd.Gibbs() has no trajectories." if has_gibbs(attrs) else ""
            problems.append(Problem(f"{count} diverged, so parts of the posterior may be missing", f"{shorter}{other}"))
    if "acceptance_rate" in stats:
        acceptance = float(np.nanmean(stats["acceptance_rate"].values))
        if acceptance < limit:
            problems.append(Problem(f"only {100 * acceptance:.0f} % of the moves were accepted", shorter))
    if "energy" in stats and draws >= LIMITS.draws:
        values = stats["energy"].transpose("chain", "draw").values.astype(float)
        spread = values.var(axis=1, ddof=1)
        steps = np.mean(np.diff(values, axis=1) ** 2, axis=1)
        if np.any(spread > 0):
            energy = float(np.min(steps[spread > 0] / spread[spread > 0]))
            if energy < LIMITS.energy:
                value, bound = compared_texts(energy, LIMITS.energy, ".2f")
                text = f"the smallest E-BFMI is {value}, below {bound}: energies are explored slowly"
                problems.append(Problem(text, "Raise tune and draws, or bring the features to a common scale."))
    return divergences, acceptance, energy


def _undetermined(posterior: xr.Dataset, constant: xr.Dataset | None) -> tuple[int, list[str]]:
    """Number of free rates, and the names of those whose posterior is hardly narrower than the prior."""
    if constant is None or "rate" not in posterior:
        return 0, []
    rate = posterior["rate"].transpose("chain", "draw", ...)
    names = [str(name) for name in rate[rate.dims[-1]].values]
    law = read_rate_prior(constant, names)
    if law is None:
        return 0, []
    tails = np.array([(1 - LIMITS.probability) / 2, (1 + LIMITS.probability) / 2])
    low, high = np.quantile(rate.values.astype(float), tails, axis=(0, 1))
    prior = law.quantile(tails[1]) - law.quantile(tails[0])
    wide = high - low >= LIMITS.narrower * prior
    return wide.size, [name for name, is_wide in zip(names, wide, strict=True) if is_wide]


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
        Attributes of the groups.
    draws : int
        Requested number of draws per chain.
    max_seconds : float, optional
        Time limit of the run.
    resumable : bool
        Whether the same call continues the run.

    Warns
    -----
    IncompleteWarning
        If the run ended before it had the requested draws.
    ApproximationWarning
        If normal scores were assumed, and the error is too large.
    MixingWarning
        If an R-hat or an effective sample size is beyond its limit, or there is another problem with the chains.
    """
    chains, draws_made = (groups["posterior"].sizes[dim] for dim in ("chain", "draw"))
    if not attrs["complete"]:
        reason = "interrupted" if attrs["stopped"] == "interrupted" else f"max_seconds: {max_seconds:g} s were used up"
        further = "; call again with the same arguments to go on" if resumable else ""
        warn(
            f"{reason}: {draws_made} of {draws} draws of each chain were made{further}. The attribute `complete` is 0.",
            IncompleteWarning,
        )
    wrong = approximation_problem(attrs, chains * draws_made)
    if wrong is not None:
        warn(f"{wrong.text}. {wrong.advice}", ApproximationWarning)
    # An early end and an approximation have had separate warnings.
    run_attrs = {name: value for name, value in attrs.items() if not name.startswith(("approximation", "reweight_"))}
    advice = diagnose_groups(groups, run_attrs | {"complete": 1}).advice
    if advice:
        warn(advice, MixingWarning)
