"""Double precision, strict promotion, the exactness that the laws of this folder ask for, and all losses."""

from functools import partial

import jax
import numpy as np
import pytest

import bayesdrop.losses
from bayesdrop.losses import Loss
from bayesdrop.models import logistic, marginalised_dropout, quantile, ridge, svm, svr

LAW = 1e-10
"""Two statements of one number differ by rounding alone: relative to the largest term that enters either."""


# The published formulas, each as its program states it: of the plain log-likelihood, and of the augmentation bound.
PLAIN = {
    "Hinge": svm.log_likelihood,
    "Logistic": logistic.log_likelihood,
    "EpsilonInsensitive": svr.log_likelihood,
    "Quantile": quantile.log_likelihood,
    "Squared": ridge.log_likelihood,
}
BOUND = {
    "Hinge": marginalised_dropout.hinge,
    "Logistic": marginalised_dropout.logistic,
    "EpsilonInsensitive": marginalised_dropout.epsilon_insensitive,
    "Quantile": marginalised_dropout.quantile,
    "Squared": marginalised_dropout.squared,
}
# Settings other than the default, which for a median hides an error of sign.
SETTINGS = {"Quantile": {"tau": 0.8}}


def _losses():
    """Every loss of the package in every form that it has."""
    found = (getattr(bayesdrop.losses, name) for name in bayesdrop.losses.__all__)
    return [
        cls(**SETTINGS.get(cls.__name__, {}), expectation=bound)
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


def _with_settings(formulas, loss):
    name = type(loss).__name__
    return partial(formulas[name], **SETTINGS[name]) if name in SETTINGS else formulas[name]


@pytest.fixture(scope="session")
def plain():
    """``plain(loss)``: its log-likelihood without noise, ``(y, score)``, by its program."""
    return lambda loss: _with_settings(PLAIN, loss)


@pytest.fixture(scope="session")
def published_bound():
    """``published_bound(loss)``: the augmentation bound, ``(y, mean, var)``, by its program."""
    return lambda loss: _with_settings(BOUND, loss)


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
