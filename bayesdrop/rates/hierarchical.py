r"""One rate per feature, pooled towards the mean of its group.

    η_d | μ_j, s_j ~ Beta(μ_j s_j, (1 − μ_j) s_j),      μ_j ~ Beta,      s_j ~ Gamma

for every feature ``d`` of group ``j``. The strength ``s_j`` counts pseudo-observations: given the masks, the
posterior mean of the rate of a feature that occurs ``n_d`` times weighs its own share of drops by ``n_d`` and the
group's mean by ``s_j``. As ``s_j → ∞`` the group shares one rate (:class:`PerGroup`); at ``μ = ½, s = 2`` the rates are
independent and flat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._validation import check_groups, check_instance, group_index
from ..priors import Beta, Gamma
from ..priors.rate_prior import BetaLaw
from .base import Hierarchy, RateMap

__all__ = ["Hierarchical"]


class _Unknown:
    """Placeholder for the unknown priors of the rates, which raises an error if its numbers are requested."""

    relative = False

    def law(self, occurrences: Any) -> BetaLaw:
        raise ValueError(
            "rates: bd.Hierarchical learns the Beta priors of the rates along with them, which takes bd.sample with "
            "bd.Gibbs(); a point fit, bd.variational and bd.HMC() take bd.PerGroup(groups) or bd.PerFeature()."
        )


@dataclass(frozen=True)
class Hierarchical:
    """One learnt rate per feature, with partial pooling within groups.

    ``bd.sample`` stores ``rate`` by feature, and ``group_rate`` (``μ_j``) and ``group_strength`` (``s_j``) by group.

    Parameters
    ----------
    groups : sequence of length p, or mapping, optional
        As in :class:`PerGroup`.
    mean_prior : Beta, optional
        Prior of the mean rate of each group.
    strength_prior : Gamma, optional
        Prior of the strength of each group in pseudo-observations, ``A + B``. The default, with mean 20 and 95 %
        between 2.4 and 56, pools weakly to moderately, and gives almost no weight to the U-shaped priors below
        ``s = 2``.

    See Also
    --------
    PerGroup, sample

    Examples
    --------
    >>> rates = Hierarchical(["body", "body", "blood"])
    >>> rates.bind(["age", "weight", "iron"]).hierarchy.names
    ['body', 'blood']
    """

    groups: Any = None
    mean_prior: Beta = field(default_factory=Beta)
    strength_prior: Gamma = field(default_factory=lambda: Gamma(2.0, 10.0))

    def __post_init__(self) -> None:
        for name, kind, example in (
            ("mean_prior", Beta, "bd.Beta(1, 1)"),
            ("strength_prior", Gamma, "bd.Gamma(2, 10)"),
        ):
            check_instance(getattr(self, name), name, kind, f"a prior such as {example}")
        if self.groups is not None:
            check_groups(self.groups)
        if self.mean_prior.relative:
            raise ValueError(
                f"mean_prior: expected a strength in pseudo-observations, got {self.mean_prior!r}; a relative strength "
                "is that of one rate, and this is the mean of a group's."
            )

    def bind(self, feature_names: Sequence[str]) -> RateMap:
        """Map onto named columns."""
        p = len(feature_names)
        index, names = group_index(self.groups, feature_names)
        hierarchy = Hierarchy(index, names, self.mean_prior, self.strength_prior)
        self.mean_prior.law(np.zeros(len(names)))
        return RateMap(np.arange(p), np.full(p, 0.5), list(feature_names), "feature", _Unknown(), None, hierarchy)
