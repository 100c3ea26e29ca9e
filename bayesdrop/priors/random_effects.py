"""Effects of the levels of random terms, ``(1 | site)`` and ``(0 + x | site)``, as weights of columns that come last.

    score_i = wᵀx̃_i + b + Σ_t z_it u_{t, level(i)},      u_tl ~ N(0, σ_t²),      σ_t ~ HalfNormal or HalfCauchy

with ``z`` 1 or the variable of the slope. The effects of a correlated term, ``(x | site)``, are normal with these
scales and a correlation matrix under an LKJ prior (:mod:`.correlation`). Their columns, one for each level, have no
noise (:class:`bayesdrop.rates.LeadingRates`); the features before them keep noise and prior, which may be a mixture
with a scale for each weight. Each term has a scale of its own, learnt or known (Gelman & Hill 2007, chapters 11 to 13).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from .._typing import AnyArray, Float
from .._validation import check_instance, check_number
from .base import LearntScale, NonCentred, NormalLaw, check_per_feature, selecting
from .correlation import pairs_of, sample_lkj, symmetric
from .normal import Normal, with_scale
from .scale_prior import ScalePrior

__all__ = ["MOST_EFFECTS", "RandomEffects"]

MOST_EFFECTS = 4
"""Maximum number of correlated effects of a level."""


@dataclass(frozen=True)
class RandomEffects(NormalLaw):
    """Prior of the weights of features, and a normal prior of the effects of random terms, whose columns come last.

    ``bd.fit`` and ``bd.sample`` make it from a formula.

    Parameters
    ----------
    features : Normal, SpikeSlab, Laplace, Horseshoe or a NonCentred prior
        Prior of the weights of the features. A mixture with a scale for each weight, such as ``bd.Laplace`` and
        ``bd.Horseshoe``, is sampled by ``bd.HMC()`` and ``bd.NUTS()``, with features without noise and one score per
        row; priors of your own follow :class:`bayesdrop.priors.base.NonCentred`.
    terms : sequence of str
        Terms, such as ``1|site`` and ``x|site``.
    levels : sequence of sequences of str
        Levels of each term.
    scale : sequence of HalfNormal, HalfCauchy or float
        Standard deviation of the effects of each term, known or learnt; learnt ones have priors of one kind.
    correlated : sequence of sequences of str, default=()
        Terms whose effects of a level are correlated, two to four each, such as ``["1|site", "x|site"]``.
    eta : float, default=2.0
        Parameter of the LKJ prior of their correlation matrices, above 0; 1 is flat, larger numbers favour small
        correlations.

    Raises
    ------
    ValueError
        If ``features`` is another prior, scales have priors of two kinds, or correlated terms do not match.

    Examples
    --------
    >>> from bayesdrop.priors import HalfNormal
    >>> prior = RandomEffects(Normal(2.0), ["1|site"], [["north", "south"]], [HalfNormal(1.0)])
    >>> found = prior.learnt_scale(3)
    >>> found.names, found.scale(np.array([0.5])).tolist()
    (['1|site'], [2.0, 0.5, 0.5])
    """

    features: Any
    terms: Sequence[str]
    levels: Sequence[Sequence[str]]
    scale: Sequence[Any]
    correlated: Sequence[Sequence[str]] = ()
    eta: float = 2.0

    def __post_init__(self) -> None:
        check_number(self.eta, "RandomEffects eta", above=0)
        levels, every = dict(zip(self.terms, self.levels, strict=True)), [t for terms in self.correlated for t in terms]
        if len(set(every)) < len(every) or any(
            not 2 <= len(terms) <= MOST_EFFECTS or len({tuple(levels.get(term, [term])) for term in terms}) > 1
            for terms in self.correlated
        ):
            raise ValueError(
                f"correlated: expected two to {MOST_EFFECTS} terms of the same levels each, among {list(self.terms)}, "
                f"got {list(map(list, self.correlated))}."
            )
        if not isinstance(self.normal, Normal | NonCentred):
            raise ValueError(
                "weight_prior: with random terms the features need a normal prior, or a mixture whose scales follow "
                f"from normal variables (bayesdrop.priors.base.NonCentred), got {self.features!r}; take "
                "bd.Normal(...), bd.SpikeSlab(...), bd.Laplace(...) or bd.Horseshoe(...)."
            )
        if self.correlated and selecting(self):
            raise ValueError(
                f"formula: the effects of ({next(iter(self.pairs()))}) are correlated, which bd.Gibbs() does not draw, "
                "and bd.SpikeSlab needs it; write the term with ||, as in (x || site)."
            )
        for term, scale in zip(self.terms, self.scale, strict=True):
            if not isinstance(scale, ScalePrior):
                check_instance(scale, f"random_scale[{term!r}]", int | float, "a number or bd.HalfNormal(...)")
                check_per_feature(scale, f"random_scale[{term!r}] scale", above=0)
        kinds = {type(prior).__name__ for prior in [*self._learnt.values(), *self._of_features]}
        if len(kinds) > 1:
            raise ValueError(
                f"random_scale: expected priors of one kind for all scales that are learnt, got {sorted(kinds)}; take "
                "bd.HalfNormal or bd.HalfCauchy for all, that of the weights included."
            )

    @property
    def normal(self) -> Any:
        """Normal prior of the features, or of those whose weights are not zero; or :attr:`mixture`."""
        return self.features if selecting(self) is None else self.features.slab

    @property
    def mixture(self) -> Any:
        """Prior of the features if each weight has a scale of its own (:class:`.base.NonCentred`); else None."""
        return None if isinstance(self.normal, Normal) else self.features

    @property
    def effects(self) -> RandomEffects:
        """Prior of the effects alone, without features."""
        return replace(self, features=Normal(1.0))

    @property
    def non_centred(self) -> bool:
        """True if only ``bd.HMC()`` and ``bd.NUTS()`` can draw: effects are correlated, or features have a mixture."""
        return bool(self.correlated) or self.mixture is not None

    @property
    def size(self) -> int:
        """Number of effects."""
        return sum(map(len, self.levels))

    @property
    def gaussian(self) -> bool:
        """True if all scales are known."""
        return self.features.gaussian and not (self._learnt or self.correlated)

    @property
    def has_mean(self) -> bool:
        """True if all scales have a mean; see :class:`bayesdrop.priors.WeightPrior`."""
        return self.features.has_mean and not self.terms_without_mean

    @property
    def terms_without_mean(self) -> list[str]:
        """Terms whose learnt scale has no mean."""
        return [term for term, prior in self._learnt.items() if not prior.has_mean]

    @property
    def relative(self) -> bool:
        """True if the prior of the features is relative; effects are in units of the score."""
        return bool(self.features.relative)

    @property
    def learnt_terms(self) -> list[str]:
        """Terms whose scale is learnt, in order: the last groups of :meth:`learnt_scale`."""
        return list(self._learnt)

    def dims(self) -> list[str]:
        """Dim of the effects of each term in a posterior: ``site|level``."""
        return [f"{term.rpartition('|')[2]}|level" for term in self.terms]

    def blocks(self, n_features: int) -> list[np.ndarray]:
        """Columns of the effects of each correlated term: an int array (k, levels) each."""
        begin = n_features - self.size + np.cumsum([0, *map(len, self.levels)])
        places = {t: np.arange(a, b) for t, a, b in zip(self.terms, begin[:-1], begin[1:], strict=True)}
        return [np.array([places[term] for term in terms]) for terms in self.correlated]

    def pairs(self) -> dict[str, list[str]]:
        """Pairs of effects of each correlated term, by the term: ``{"1+x|site": ["1,x"]}``."""
        pairs = {}
        for terms in self.correlated:
            effects, group = [term.rpartition("|")[0] for term in terms], terms[0].rpartition("|")[2]
            pairs[f"{'+'.join(effects)}|{group}"] = [",".join(pair) for pair in combinations(effects, 2)]
        return pairs

    def correlations(self, pairs: Float[np.ndarray, "*draws c"]) -> list[Float[np.ndarray, "*draws k k"]]:
        """Correlation matrix of each correlated term, from the concatenated entries above their diagonals."""
        sizes = [len(terms) for terms in self.correlated]
        ends = np.cumsum([k * (k - 1) // 2 for k in sizes])[:-1]
        return [symmetric(part, k) for part, k in zip(np.split(pairs, ends, axis=-1), sizes, strict=True)]

    @property
    def _learnt(self) -> dict[str, Any]:
        """Priors of the scales that are learnt, by term."""
        both = zip(self.terms, self.scale, strict=True)
        return {term: scale for term, scale in both if isinstance(scale, ScalePrior)}

    @property
    def _of_features(self) -> list[Any]:
        return [] if self.normal.gaussian or self.mixture is not None else [self.normal.scale]

    def of_columns(self, names: Sequence[str], terms: Sequence[str] | None = None) -> RandomEffects:
        """Replace numbers given by name of the features; see :class:`bayesdrop.priors.WeightPrior`."""
        p = len(names) - self.size
        return replace(self, features=self.features.of_columns(names[:p], None if terms is None else terms[:p]))

    def absolute(self, spread: np.ndarray) -> RandomEffects:
        """Convert relative scales to absolute ones; see :class:`bayesdrop.priors.WeightPrior`."""
        return replace(self, features=self.features.absolute(spread[: len(spread) - self.size]))

    def of_responses(self, spread: float) -> RandomEffects:
        """See :class:`bayesdrop.priors.WeightPrior`: the scales of effects are in units of the response itself."""
        return replace(self, features=self.features.of_responses(spread))

    def in_units(self, unit: float) -> RandomEffects:
        """See :class:`bayesdrop.priors.WeightPrior`."""
        scale = [one.in_units(unit) if isinstance(one, ScalePrior) else one / unit for one in self.scale]
        return replace(self, features=self.features.in_units(unit), scale=scale)

    def check(self, n_features: int) -> None:
        """See :class:`bayesdrop.priors.WeightPrior`."""
        self.features.check(n_features - self.size)

    def learnt_scale(self, n_features: int) -> LearntScale | None:
        """See :class:`bayesdrop.priors.WeightPrior`: groups of the features first, then the terms.

        The unit of a feature under a mixture is a scale of typical size.
        """
        if not (self._learnt or self._of_features):
            return None
        p, learnt = n_features - self.size, list(self._learnt)
        before = self.normal.learnt_scale(p)
        groups = [] if before is None else before.names or ["features"]
        names = groups + learnt
        index = np.full(p, len(names)) if before is None else before.index
        unit = self.normal.first_precision(p) ** -0.5 if before is None else before.unit
        for term, levels, scale in zip(self.terms, self.levels, self.scale, strict=True):
            free = term in learnt
            index = np.append(index, np.full(len(levels), len(groups) + learnt.index(term) if free else len(names)))
            unit = np.append(unit, np.full(len(levels), 1.0 if free else float(scale)))
        laws = ([] if before is None else [before.law]) + [prior.law(1) for prior in self._learnt.values()]
        return LearntScale(index, names, unit, type(laws[0])(*map(np.concatenate, zip(*laws, strict=True))))

    def precision(self, n_features: int) -> np.ndarray:
        """Diagonal of the prior precision, (p,); raise ValueError if a scale is learnt."""
        if self.mixture is not None:
            raise ValueError(
                "weight_prior: with random terms a point fit takes bd.Normal(...) with a number for its scale, got "
                f"{self.features!r}, which bd.sample draws."
            )
        if self.correlated:
            raise ValueError(
                f"formula: the effects of ({next(iter(self.pairs()))}) are correlated, which bd.sample draws; for a "
                "point fit write the term with ||, as in (x || site), and numbers for random_scale."
            )
        if self._learnt:
            term = next(iter(self._learnt))
            raise ValueError(
                f"random_scale: the scale of {term!r} is learnt together with the effects, which bd.sample does; a "
                f"point fit takes a number, as in random_scale={{{term!r}: 0.5}}, such as the posterior mean of "
                f"{term + '|scale'!r}."
            )
        if selecting(self):
            self.features.precision(n_features - self.size)
        return self.known_scales(n_features) ** -2.0

    def first_precision(self, n_features: int) -> np.ndarray:
        """See :class:`bayesdrop.priors.WeightPrior`."""
        known = self.learnt_scale(n_features) is None
        return self.known_scales(n_features) ** -2.0 if known else super().first_precision(n_features)

    def known_scales(self, n_features: int) -> np.ndarray:
        """Standard deviations (p,) if none is learnt; typical scales under a mixture."""
        scales = [np.full(len(levels), float(s)) for levels, s in zip(self.levels, self.scale, strict=True)]
        return np.concatenate([self.normal.first_precision(n_features - self.size) ** -0.5, *scales])

    def location(self, n_features: int) -> np.ndarray | None:
        """See :class:`bayesdrop.priors.WeightPrior`: effects have mean 0."""
        location: np.ndarray | None = self.features.location(n_features - self.size)
        return None if location is None else np.append(location, np.zeros(self.size))

    def constants(self, n_features: int) -> dict[str, Any]:
        """See :class:`bayesdrop.priors.WeightPrior`: those of the features, and each term's scale or its prior."""
        # Pad to the full length of each dim; a posterior keeps only the part of the features.
        more = {"feature": self.size, ("weight_group",): len(self._learnt)}
        stored: dict[str, Any] = {
            name: (dims, np.append(value, np.zeros(more[dims], value.dtype)) if dims in more else value)
            for name, (dims, value) in self.features.constants(n_features - self.size).items()
        }
        for term, scale in zip(self.terms, self.scale, strict=True):
            if isinstance(scale, ScalePrior):
                constants = scale.constants(1).items()
                stored |= {name.replace("weight_scale", f"{term}|scale"): ((), value[0]) for name, value in constants}
            else:
                stored[f"{term}|scale"] = ((), float(scale))
        return stored | {f"{name}|correlation_eta": ((), float(self.eta)) for name in self.pairs()}

    def sample_weight(
        self, generator: np.random.Generator, draws: int, n_features: int
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Weights (draws, p), learnt scales as ``weight_scale``, correlations of pairs as ``correlation`` and what a
        mixture records; see :class:`bayesdrop.priors.WeightPrior`.
        """
        if self.mixture is not None:
            weight, recorded = self.features.sample_weight(generator, draws, n_features - self.size)
            effects, more = self.effects.sample_weight(generator, draws, self.size)
            return np.concatenate([weight, effects], axis=1), {**recorded, **more}
        learnt = self.learnt_scale(n_features)
        normal, location = generator.normal(size=(draws, n_features)), self.location(n_features)
        location = np.zeros(n_features) if location is None else location
        pairs = []
        for block in self.blocks(n_features):
            root = sample_lkj(generator, draws, len(block), self.eta)
            normal[:, block] = root @ normal[:, block]
            pairs.append(pairs_of(root @ root.swapaxes(1, 2)))
        more = {"correlation": np.concatenate(pairs, axis=1)} if pairs else {}
        if selecting(self):
            more = self.features.sample_indicators(generator, (draws,), n_features - self.size)
            more["included"] = np.pad(more["included"], ((0, 0), (0, self.size)), constant_values=1)
            normal *= more["included"]
        if learnt is None:
            return location + normal * self.known_scales(n_features), more
        before = [prior.sample(generator, draws, learnt.groups - len(self._learnt)) for prior in self._of_features]
        scale = np.concatenate([*before, *(p.sample(generator, draws, 1) for p in self._learnt.values())], axis=1)
        return location + normal * learnt.scale(scale), {"weight_scale": scale, **more}

    def log_density(self, weight: Float[AnyArray, "*batch p"]) -> Float[AnyArray, "*batch"]:
        """Log density up to a constant: weights (..., p) to (...); raise TypeError if a scale is learnt."""
        if self.correlated or self.learnt_scale(weight.shape[-1]) is not None:
            raise TypeError(
                "RandomEffects: with a learnt scale or correlation the density of the effects has no closed form; "
                "state it given these."
            )
        known, p = self.known_scales(weight.shape[-1]), weight.shape[-1] - self.size
        if selecting(self) or self.mixture is not None:
            effects: Float[AnyArray, "*batch"] = Normal(known[p:]).log_density(weight[..., p:])
            return self.features.log_density(weight[..., :p]) + effects
        return with_scale(self, known).log_density(weight)
