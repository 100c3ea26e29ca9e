r"""Spike-and-slab prior: each weight is exactly zero, or drawn from a normal slab.

    γ_d ~ Bernoulli(π_d),     w_d = 0 if γ_d = 0,     w_d ~ N(0, (σ u_d)²) if γ_d = 1

``π`` is known, for all features or each of them, or one number for all features with a Beta prior; ``σ`` is known or
learnt (Mitchell & Beauchamp 1988; George & McCulloch 1997). The features of a group share an indicator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .._typing import AnyArray, Float
from .._validation import check_choice, check_instance, check_number, check_numbers, listed, shown
from .base import ScaleMixture
from .beta import Beta
from .by_name import DEFAULT, check_by_name, of_columns, variables_of
from .inclusion_law import InclusionLaw
from .normal import Normal

__all__ = ["SpikeSlab"]


@dataclass(frozen=True)
class SpikeSlab(ScaleMixture):
    """Spike-and-slab prior: a feature is in the model or not, and the data say how probable its inclusion is.

    ``bd.sample`` draws which features are in by ``bd.Gibbs()``; other samplers and point fits do not accept it. The
    model states the dropout rates: ``rates=bd.Fixed(0.0)`` for features without noise, ``bd.Fixed(0.3)``, or learnt
    ones given inclusion, ``bd.PerFeature(bd.Beta(1, 3))``. An included feature that is nearly always dropped is hardly
    different from an excluded one, so the prior of the rates should have little mass near 1. With dropped entries there
    are neither groups nor heredity, and the intercept has a flat prior.

    Under ``bd.Softmax()``, for features without noise, each class has its indicators and weights; all classes share a
    learnt inclusion probability and a learnt slab scale. ``include``, ``groups`` and ``heredity`` hold in each class.
    Probabilities depend on differences between the weights of classes, so an effect of one class may appear as one of
    the others with the opposite sign; ``inclusion_in_any_class`` of ``bd.weights_table``, whether any class has the
    feature, does not depend on which. There are no random terms.

    Parameters
    ----------
    inclusion : Beta, float, array of shape (p,) or mapping from name to float, default=Beta(1, 1)
        Prior inclusion probability, in [0, 1]: known, for all features or for each (by name as for ``bd.Normal``), or
        learnt for all features together under a Beta prior.
    expected_size : float, optional
        Instead of ``inclusion``, prior mean of the number of features (or groups) in the model, besides those of
        ``include``, per class: the learnt probability has the prior ``Beta(1, (m − size)/size)`` for ``m`` free
        features or groups (Ley & Steel 2009).
    slab : Normal, default=Normal(1.0)
        Prior of the included weights: normal with mean 0 and a known scale, or one learnt scale. By default in units of
        the response's standard deviation if its scale is learnt.
    include : sequence of str or int, default=()
        Features that are always in: names of columns or terms of the formula, or positions.
    groups : "terms", sequence of sequences of names or mapping from term to names, optional
        Features that enter together, under one indicator: the columns of each term of a formula, or each of the given
        groups, which a mapping names as a formula would, ``{"a": ["a"], "a:b": ["ab1", "ab2"]}``. Other features enter
        alone.
    heredity : "strong", "weak" or None, default=None
        Whether an interaction such as ``a:b`` may be in the model without its parents: if ``"strong"`` it needs all of
        them, if ``"weak"`` one. The parents are the largest other terms whose variables are among its own: ``a`` and
        ``b``, or for ``a:b:c`` its pairs. ``inclusion`` is the probability given that the parents are in, so that
        ``expected_size`` is the mean size without heredity, and the mean with it is smaller. Needs the terms, by
        ``groups``.

    Raises
    ------
    ValueError
        If a probability is outside [0, 1], a name is unknown, groups overlap, the slab has a mean or groups, or
        ``include`` has an interaction without its parents.

    See Also
    --------
    credible_sets, Normal, Horseshoe

    References
    ----------
    - Mitchell & Beauchamp (1988), Bayesian variable selection in linear regression, JASA 83.
    - Chipman (1996), Bayesian variable selection with related predictors, Canadian J. Statistics 24.
    - Ley & Steel (2009), On the effect of prior assumptions in Bayesian model averaging, J. Applied Econometrics 24.

    Examples
    --------
    >>> prior = SpikeSlab(0.25, slab=Normal(2.0), include=["age"]).of_columns(["age", "size"])
    >>> prior.law(2).is_forced.tolist(), prior.law(2).probability.tolist()
    ([True, False], [0.25, 0.25])
    >>> SpikeSlab(expected_size=2).law(10).b
    4.0

    The interaction of columns 0 and 1, column 2, needs both: the probabilities of the models with it and without it.

    >>> prior = SpikeSlab(0.3, groups={"a": [0], "b": [1], "a:b": [2]}, heredity="strong")
    >>> models = np.array([[True, True, True], [True, True, False], [True, False, True]])
    >>> np.exp(prior.law(3).log_density(models)).round(3).tolist()
    [0.027, 0.063, 0.0]
    """

    inclusion: Any = None
    expected_size: float | None = field(default=None, kw_only=True)
    slab: Any = field(default_factory=lambda: Normal(1.0, of_response=True), kw_only=True)
    include: Sequence[Any] = field(default=(), kw_only=True)
    groups: Any = field(default=None, kw_only=True)
    heredity: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        inclusion = self.inclusion
        if isinstance(inclusion, Beta):
            if np.ndim(inclusion.a) or np.ndim(inclusion.b) or inclusion.relative:
                raise ValueError(
                    f"SpikeSlab inclusion: expected one a and one b, as in bd.Beta(1, 1), got {shown(inclusion)}."
                )
        elif isinstance(inclusion, Mapping):
            check_by_name(inclusion, "SpikeSlab inclusion", _check_probability)
        elif inclusion is not None and _check_probability(inclusion, "SpikeSlab inclusion").ndim > 1:
            raise ValueError(f"SpikeSlab inclusion: expected one number or one per feature, got {shown(inclusion)}.")
        if self.expected_size is not None:
            check_number(self.expected_size, "SpikeSlab expected_size", above=0)
            if inclusion is not None:
                raise ValueError("SpikeSlab expected_size: expected it or inclusion, got both; leave one out.")
        check_instance(self.slab, "SpikeSlab slab", Normal, "a normal prior such as bd.Normal(1.0)")
        if np.any(self.slab.mean) or isinstance(self.slab.mean, Mapping) or self.slab.groups is not None:
            raise ValueError(
                f"SpikeSlab slab: expected a normal prior with mean 0 and without groups, got {shown(self.slab)}."
            )
        object.__setattr__(self, "include", _names(self.include, "SpikeSlab include"))
        groups: Any = self.groups
        named = isinstance(groups, Mapping)
        check_choice(self.heredity, "SpikeSlab heredity", ("strong", "weak", None))
        is_terms = isinstance(groups, str) and groups == "terms"
        if self.heredity is not None and not (named or is_terms):
            raise ValueError(
                'SpikeSlab heredity: expected groups="terms" or a mapping from terms to columns, which say what the '
                f"parents of an interaction are, got groups={shown(groups)}."
            )
        if groups is None or is_terms:
            return
        if isinstance(groups, str | bytes) or not np.iterable(groups):
            raise TypeError(f'SpikeSlab groups: expected "terms" or lists of names, got {shown(groups)}.')
        items: Any = self.groups.items() if named else enumerate(groups)
        by_key = {key: _names(one, "SpikeSlab groups") for key, one in items}
        groups = tuple(by_key.values())
        object.__setattr__(self, "groups", by_key if named else groups)
        names = [name for one in groups for name in one]
        repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if not all(groups):
            raise ValueError("SpikeSlab groups: expected at least one name in each group, got an empty one.")
        if repeated:
            raise ValueError(f"SpikeSlab groups: {shown(repeated)} is in two groups; put each feature in one at most.")

    @property
    def has_mean(self) -> bool:
        """See :class:`bayesdrop.priors.WeightPrior`."""
        return bool(self.slab.has_mean)

    @property
    def relative(self) -> bool:  # type: ignore[override]  # as its slab is
        """True if the slab is relative; see :class:`bayesdrop.priors.WeightPrior`."""
        return bool(self.slab.relative)

    def of_columns(self, names: Sequence[str], terms: Sequence[str] | None = None) -> SpikeSlab:
        """Replace names by positions; see :class:`bayesdrop.priors.WeightPrior`."""
        inclusion, groups = self.inclusion, self.groups
        if isinstance(inclusion, Mapping):
            inclusion = of_columns(inclusion, names, terms, "SpikeSlab inclusion", None)
        if isinstance(groups, str):
            if terms is None:
                raise ValueError(
                    'SpikeSlab groups: "terms" are those of a formula, and there is none; give lists of names.'
                )
            groups = {term: [d for d in range(len(names)) if terms[d] == term] for term in dict.fromkeys(terms)}
        elif isinstance(groups, Mapping):
            groups = {key: _positions(one, names, terms, "SpikeSlab groups") for key, one in groups.items()}
        elif groups is not None:
            groups = [_positions(one, names, terms, "SpikeSlab groups") for one in groups]
        return replace(
            self, inclusion=inclusion, slab=self.slab.of_columns(names, terms), groups=groups,
            include=tuple(_positions(self.include, names, terms, "SpikeSlab include")),
        )  # fmt: skip

    def absolute(self, spread: np.ndarray) -> SpikeSlab:
        """See :class:`bayesdrop.priors.WeightPrior`."""
        return replace(self, slab=self.slab.absolute(spread))

    def of_responses(self, spread: float) -> SpikeSlab:
        """See :class:`bayesdrop.priors.WeightPrior`."""
        return replace(self, slab=self.slab.of_responses(spread))

    def in_units(self, unit: float) -> SpikeSlab:
        """See :class:`bayesdrop.priors.WeightPrior`."""
        return replace(self, slab=self.slab.in_units(unit))

    def check(self, n_features: int) -> None:
        """See :class:`bayesdrop.priors.WeightPrior`."""
        self.slab.check(n_features)
        self.law(n_features)

    def law(self, n_features: int) -> InclusionLaw:
        """Prior of the indicators of ``n_features`` features."""
        groups: Any = () if self.groups is None else self.groups
        keys, groups = (list(groups), list(groups.values())) if isinstance(groups, Mapping) else ([], groups)
        for what, places in (("include", self.include), ("groups", [d for one in groups for d in one])):
            for place in places:
                if not isinstance(place, int | np.integer) or not 0 <= place < n_features:
                    raise ValueError(
                        f"SpikeSlab {what}: expected positions below {n_features}, for the names of the columns are "
                        f"not known here, got {place!r}; use bd.sample, which takes names."
                    )
        unit = np.full(n_features, -1)
        for number, one in enumerate(groups):
            unit[list(one)] = number
        alone = unit < 0
        unit[alone] = len(groups) + np.arange(alone.sum())
        is_forced, a, b = np.zeros(len(groups) + int(alone.sum()), dtype=bool), 1.0, 1.0
        is_forced[unit[list(self.include)]] = True
        free = int(np.sum(~is_forced))
        if self.expected_size is not None:
            if free and self.expected_size >= free:
                raise ValueError(
                    f"SpikeSlab expected_size: expected a number below {free}, the features that may be left out, got "
                    f"{self.expected_size:g}."
                )
            b = (free - self.expected_size) / self.expected_size
        elif isinstance(self.inclusion, Beta):
            a, b = float(self.inclusion.a), float(self.inclusion.b)
        elif self.inclusion is not None:
            given = np.asarray(self.inclusion, dtype=np.float64)
            if given.ndim and given.shape != (n_features,):
                raise ValueError(
                    f"SpikeSlab inclusion: expected one number or {n_features} of them (one per feature), got shape "
                    f"{given.shape}."
                )
            # Features of a group share a probability.
            probability = np.zeros(len(is_forced))
            probability[unit] = given
            if np.any(probability[unit] != given):
                raise ValueError("SpikeSlab inclusion: expected one probability for the features of a group.")
            return self._inherited(keys, InclusionLaw(unit, is_forced | (probability == 1), probability, a, b))
        return self._inherited(keys, InclusionLaw(unit, is_forced, None, a, b))

    def _inherited(self, terms: list[str], law: InclusionLaw) -> InclusionLaw:
        """Add heredity to ``law``, whose first units are these terms."""
        if self.heredity is None:
            return law
        variables = [variables_of(term) for term in terms]
        parents = np.zeros((len(law.is_forced),) * 2, dtype=bool)
        for child, own in enumerate(variables):
            smaller = [j for j, one in enumerate(variables) if one < own]
            parents[child, [j for j in smaller if not any(variables[j] < variables[k] for k in smaller)]] = True
        count = parents.sum(axis=1)
        law = law._replace(parents=parents, least=count if self.heredity == "strong" else np.minimum(count, 1))
        lonely = law.is_forced & ~law.may_be_in(law.is_forced)
        if np.any(lonely):
            raise ValueError(
                f"SpikeSlab include: expected the parents of {terms[int(np.argmax(lonely))]!r} too, which it needs by "
                f'heredity="{self.heredity}".'
            )
        return law

    def precision(self, n_features: int) -> np.ndarray:
        """Raise ValueError: weights may be exactly zero; see :class:`bayesdrop.priors.WeightPrior`."""
        raise ValueError(
            "weight_prior: bd.SpikeSlab draws which features are in the model, which bd.sample does by bd.Gibbs(); a "
            "point fit takes bd.Normal(...) or bd.Laplace(...), whose weights may be zero, and bd.variational "
            "bd.Normal(...)."
        )

    def first_precision(self, n_features: int) -> np.ndarray:
        """Precisions of the slab; see :class:`bayesdrop.priors.WeightPrior`."""
        return np.asarray(self.slab.first_precision(n_features))

    def constants(self, n_features: int) -> dict[str, Any]:
        """Constants of the slab and of the indicators; see :class:`bayesdrop.priors.WeightPrior`."""
        law, stored = self.law(n_features), dict(self.slab.constants(n_features))
        if law.probability is not None:
            return stored | {"prior_inclusion": ("feature", law.probability[law.unit])}
        return stored | {"inclusion_prior_a": ((), law.a), "inclusion_prior_b": ((), law.b)}

    def init(self, key: Any, chains: int, p: int, dtype: Any) -> tuple[()]:
        """No latent scales of single weights; see :class:`bayesdrop.priors.WeightPrior`."""
        return ()

    @staticmethod
    def sample_precision(key: Any, weight: Float[AnyArray, "C p"], aux: Any) -> tuple[Float[AnyArray, "C p"], Any]:
        """Raise TypeError: indicators are drawn instead; see :class:`bayesdrop.priors.WeightPrior`."""
        raise TypeError("SpikeSlab: indicators are drawn with the data, and no precision of a weight; use bd.Gibbs().")

    @staticmethod
    def record(aux: Any) -> dict[str, Float[AnyArray, " C"]]:
        """Nothing; see :class:`bayesdrop.priors.WeightPrior`."""
        return {}

    @staticmethod
    def log_scale_density(precision: Float[AnyArray, "C p"], aux: Any) -> Float[AnyArray, " C"]:
        """Zero; see :class:`bayesdrop.priors.WeightPrior`."""
        return 0 * precision.sum(axis=1)

    def sample_weight(
        self, generator: np.random.Generator, draws: int, n_features: int
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Weights (draws, p), and the indicators as ``included``; see :class:`bayesdrop.priors.WeightPrior`."""
        weight, scales = self.slab.sample_weight(generator, draws, n_features)
        found = self.sample_indicators(generator, (draws,), n_features)
        return weight * found["included"], found | scales

    def sample_indicators(
        self, generator: np.random.Generator, size: tuple[int, ...], n_features: int
    ) -> dict[str, np.ndarray]:
        """``included`` (..., p), ``model_size`` (...) and, if it is learnt, ``inclusion_prior`` (draws,).

        ``size`` is (draws,), or (draws, K) for K classes, which share the inclusion probability.
        """
        law = self.law(n_features).of_classes(math.prod(size[1:]))
        units, learnt = law.sample(generator, size[0])
        included = units[:, law.unit].reshape(*size, n_features)
        found = {"included": included.astype(np.int8), "model_size": included.sum(axis=-1)}
        return found if learnt is None else found | {"inclusion_prior": learnt}

    def log_density(self, weight: Float[AnyArray, "S *classes p"]) -> Float[AnyArray, " S"]:
        """Log density (S,) of weights (S, p), or of classes (S, K, p), with an atom at 0.

        Raise TypeError if a scale is learnt.
        """
        weight = np.asarray(weight, dtype=np.float64)
        law = self.law(weight.shape[-1]).of_classes(math.prod(weight.shape[1:-1]))
        if not self.slab.gaussian:
            raise TypeError("SpikeSlab: with a learnt scale the density of the weights has no closed form.")
        precision = self.slab.precision(weight.shape[-1])
        normal = 0.5 * (np.log(precision) - np.log(2 * np.pi) - precision * weight * weight)
        is_in = (weight != 0).reshape(len(weight), -1)
        units = is_in.astype(float) @ (law.unit[:, None] == np.arange(len(law.is_forced))) > 0
        each = np.where(is_in, normal.reshape(is_in.shape), 0)
        return np.asarray(each.sum(axis=1) + law.log_density(units | law.is_forced))


def _check_probability(value: Any, name: str) -> Float[np.ndarray, ...]:
    """Return probabilities, or raise an error that starts with ``name``."""
    return np.asarray(check_numbers(value, name, "probabilities in [0, 1]", least=0, most=1))


def _names(names: Any, what: str) -> tuple[Any, ...]:
    """Return names or positions of columns as a tuple, or raise an error that starts with ``what``."""
    found = tuple(names) if np.iterable(names) and not isinstance(names, str | bytes) else None
    if found is None or not all(isinstance(one, str | int | np.integer) for one in found):
        raise TypeError(f"{what}: expected names or positions in a list, got {shown(names)}.")
    return found


def _positions(chosen: Sequence[Any], names: Sequence[str], terms: Sequence[str] | None, what: str) -> list[int]:
    """Positions of columns given by name, term or position."""
    found: list[int] = []
    for one in chosen:
        if isinstance(one, str):
            if one == DEFAULT:  # which stands for the other columns where numbers are given by name
                raise ValueError(f"{what}: 'default' names no column; the columns are {listed(names)}.")
            marked = of_columns({one: 1.0}, names, terms, what, 0.0)
            found += np.flatnonzero(marked).tolist()
        else:
            found.append(one)
    return found
