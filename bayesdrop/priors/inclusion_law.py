r"""Prior of the indicators of a spike-and-slab prior, with heredity: a unit may require its parents.

    γ_d ~ Bernoulli(π_d) if the parents of d are in,     γ_d = 0 otherwise

The parents of an interaction are the largest terms with a subset of its variables. Strong heredity requires all of
them, weak heredity one (Chipman 1996). The probability of a set that heredity allows is the product, over the units
that may be in, of ``π`` or ``1 − π``. These probabilities sum to 1 over the allowed sets, and ``π`` is the probability
of a unit without parents. With ``π ~ Beta(a, b)``, ``k`` free units in and ``r`` that may be in, the set has the
probability ``B(a + k, b + r − k)/B(a, b)``. Each class has its indicators; all classes share a learnt ``π``.

Shapes: ``S`` draws, ``m`` units, which are single features or groups of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import betaln, logit, xlog1py, xlogy

from .._typing import Bool, Float, Int

__all__ = ["InclusionLaw"]


class InclusionLaw(NamedTuple):
    """Prior of the indicators of ``m`` units.

    Attributes
    ----------
    unit : int array (p,)
        Unit of each feature.
    is_forced : bool array (m,)
        Units that are always in the model.
    probability : array (m,) or None
        Known inclusion probabilities; None if one probability for all units is learnt.
    a, b : float
        Shapes of the Beta prior of the learnt probability.
    parents : bool array (m, m), optional
        Mask of the parents in the row of each unit; None without heredity.
    least : int array (m,), optional
        Minimum number of included parents of each unit.
    """

    unit: Int[np.ndarray, " p"]
    is_forced: Bool[np.ndarray, " m"]
    probability: Float[np.ndarray, " m"] | None
    a: float
    b: float
    parents: Bool[np.ndarray, "m m"] | None = None
    least: Int[np.ndarray, " m"] | None = None

    @property
    def is_learnt(self) -> bool:
        """True if the inclusion probability is learnt."""
        return self.probability is None

    def of_classes(self, count: int) -> InclusionLaw:
        """Law of the indicators of ``count`` classes, one class after another, with one inclusion probability.

        Examples
        --------
        >>> law = InclusionLaw(np.array([0, 1]), np.array([True, False]), None, 1.0, 1.0).of_classes(2)
        >>> law.unit.tolist(), np.exp(law.log_density(np.array([[True, True, True, False]]))).round(3).tolist()
        ([0, 1, 2, 3], [0.167])
        """
        size = len(self.is_forced)
        return self._replace(
            unit=(self.unit + size * np.arange(count)[:, None]).ravel(),
            is_forced=np.tile(self.is_forced, count),
            probability=None if self.probability is None else np.tile(self.probability, count),
            parents=None if self.parents is None else np.kron(np.eye(count, dtype=bool), self.parents),
            least=None if self.least is None else np.tile(self.least, count),
        )

    def may_be_in(self, included: Bool[np.ndarray, "*S m"]) -> Bool[np.ndarray, "*S m"]:
        """Mask of the units whose parents are included, and of forced units, (..., m)."""
        if self.parents is None:
            return np.ones(included.shape, dtype=bool)
        return np.asarray(included.astype(np.int64) @ self.parents.T >= self.least)

    def pruned(self, wanted: Bool[np.ndarray, "S m"]) -> Bool[np.ndarray, "S m"]:
        """Remove from sets (S, m) the units whose parents are not included."""
        included = np.broadcast_to(self.is_forced, wanted.shape)
        while True:
            more = (wanted & self.may_be_in(included)) | self.is_forced
            if np.array_equal(more, included):
                return more
            included = more

    def families(self) -> tuple[Int[np.ndarray, " _"], ...]:
        """Each free unit with parents, followed by its free ancestors.

        Examples
        --------
        >>> parents = np.array([[False, False], [True, False]])
        >>> InclusionLaw(np.arange(2), np.zeros(2, dtype=bool), None, 1.0, 1.0, parents, np.array([0, 1])).families()
        (array([1, 0]),)
        """
        if self.parents is None:
            return ()
        reached = self.parents
        while np.any(more := (reached @ self.parents) & ~reached):
            reached = reached | more
        return tuple(
            np.append(child, np.flatnonzero(reached[child] & ~self.is_forced))
            for child in np.flatnonzero(reached.any(axis=1) & ~self.is_forced)
        )

    def log_odds(self, included: Bool[np.ndarray, " m"], of: Int[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        """Prior log odds (k,) of the free units ``of`` given all others, with a learnt probability integrated out.

        They are infinite if an included child requires the unit, and minus infinity if its parents are not included.
        """
        free, is_in = ~self.is_forced, included[of]
        if self.parents is None and self.probability is not None:
            return np.asarray(logit(self.probability[of]))
        others = np.count_nonzero(included & free) - is_in
        if self.parents is None or self.least is None:
            return np.log((self.a + others) / (self.b + np.count_nonzero(free) - 1 - others))
        counts = self.parents @ included.astype(np.int64)
        # Children that are allowed only with the unit.
        children = self.parents[:, of] & (counts[:, None] - is_in == self.least[:, None] - 1)
        if self.probability is None:
            gained = children.sum(axis=0)
            rest = np.sum((counts >= self.least) & free) - gained * is_in - others
            odds = betaln(self.a + others + 1, self.b + rest + gained - 1) - betaln(self.a + others, self.b + rest)
        else:
            out = np.log1p(-np.where(self.is_forced, 0, self.probability))
            odds = logit(self.probability[of]) + out @ children
        odds = np.where(counts[of] >= self.least[of], odds, -np.inf)
        return np.where(np.any(children & included[:, None], axis=0), np.inf, odds)

    def log_density(self, included: Bool[np.ndarray, "S m"]) -> Float[np.ndarray, " S"]:
        """Log probability of indicators (S, m), with a learnt probability integrated out."""
        possible = self.may_be_in(included)
        is_allowed = np.all(possible | ~included, axis=1)
        free, possible = included[:, ~self.is_forced], possible[:, ~self.is_forced]
        if self.probability is None:
            count = free.sum(axis=1)
            both = betaln(self.a + count, self.b + np.maximum(possible.sum(axis=1) - count, 0))
            return np.where(is_allowed, both - betaln(self.a, self.b), -np.inf)
        chance = self.probability[~self.is_forced]
        each = xlogy(free, chance) + xlog1py(possible & ~free, -chance)
        return np.where(is_allowed, each.sum(axis=1), -np.inf)

    def sample(
        self, generator: np.random.Generator, draws: int
    ) -> tuple[Bool[np.ndarray, "S m"], Float[np.ndarray, " S"] | None]:
        """Draw indicators (draws, m), and the learnt probability (draws,) if there is one."""
        chance, learnt = self.probability, None
        if chance is None:
            learnt = generator.beta(self.a, self.b, size=draws)
            chance = learnt[:, None]
        return self.pruned(generator.random((draws, len(self.is_forced))) < chance), learnt

    def sample_chance(
        self, generator: np.random.Generator, included: Bool[np.ndarray, "S m"]
    ) -> Float[np.ndarray, " S"]:
        """Draw the learnt probability given the indicators (S, m)."""
        free = ~self.is_forced
        count, most = included[:, free].sum(axis=1), self.may_be_in(included)[:, free].sum(axis=1)
        return generator.beta(self.a + count, self.b + most - count)
