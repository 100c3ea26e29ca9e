"""Double precision, strict promotion, the exactness that the laws of this folder ask for, and all losses."""

import jax
import numpy as np
import pytest

import bayesdrop.losses
from bayesdrop.distributions import (
    EpsilonInsensitivePseudoLikelihood,
    HingePseudoLikelihood,
    LogisticPseudoLikelihood,
    NormalPseudoLikelihood,
)
from bayesdrop.losses import Loss
from bayesdrop.models import marginalised_dropout

LAW = 1e-10
"""Two statements of one number differ by rounding alone: relative to the largest term that enters either."""


# The published formulas, each as its program states it: of the plain log-likelihood, and of the augmentation bound.
PLAIN = {
    "Hinge": lambda sign, score: HingePseudoLikelihood(score).log_prob((1 + sign) / 2),
    "Logistic": lambda sign, score: LogisticPseudoLikelihood(score).log_prob((1 + sign) / 2),
    "EpsilonInsensitive": lambda y, score: EpsilonInsensitivePseudoLikelihood(score).log_prob(y),
    "Squared": lambda y, score: NormalPseudoLikelihood(score).log_prob(y),
}
BOUND = {
    "Hinge": marginalised_dropout.hinge,
    "Logistic": marginalised_dropout.logistic,
    "EpsilonInsensitive": marginalised_dropout.epsilon_insensitive,
    "Squared": marginalised_dropout.squared,
}


def _losses():
    """Every loss of the package in every form that it has."""
    found = (getattr(bayesdrop.losses, name) for name in bayesdrop.losses.__all__)
    return [
        cls(expectation=bound)
        for cls in found
        if isinstance(cls, type) and cls is not Loss and hasattr(cls, "sample_pseudo")
        for bound in ("augmentation", "gaussian", "taylor")
        if not (bound == "taylor" and cls.kinked)
    ]


LOSSES = _losses()


@pytest.fixture(params=LOSSES, ids=repr)
def loss(request):
    return request.param


@pytest.fixture(scope="session")
def losses():
    """All of them, where one test is about more than one."""
    return LOSSES


@pytest.fixture(scope="session")
def plain():
    """``plain(loss)``: its log-likelihood without noise, ``(y, score)``, by its program."""
    return lambda loss: PLAIN[type(loss).__name__]


@pytest.fixture(scope="session")
def published_bound():
    """``published_bound(loss)``: the augmentation bound, ``(y, mean, var)``, by its program."""
    return lambda loss: BOUND[type(loss).__name__]


@pytest.fixture(autouse=True)
def _exact_arithmetic():
    with jax.enable_x64(True), jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        yield


@pytest.fixture(scope="session")
def same():
    """``same(a, b, *terms)``: equal to the law's accuracy, relative to 1 and to the largest of all that is given."""

    def check(actual, expected, *terms):
        actual, expected = np.asarray(actual), np.asarray(expected)
        size = np.max([1.0, *(np.max(np.abs(np.asarray(term))) for term in (actual, expected, *terms))])
        assert np.all(np.isfinite(actual))
        assert np.all(np.isfinite(expected))
        worst = np.max(np.abs(actual - expected))
        assert worst <= LAW * size, f"differ by {worst:.3g} where the terms are of size {size:.3g}"

    return check
