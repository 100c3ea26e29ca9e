"""Double precision, strict promotion, the exactness that the laws of this folder ask for, and all losses."""

from functools import partial

import jax
import jax.numpy as jnp
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
from bayesdrop.losses.protocols import Augmented
from bayesdrop.models import marginalised_dropout, quantile

LAW = 1e-10
"""Two statements of one number differ by rounding alone: relative to the largest term that enters either."""


TRIALS, DISPERSION = 5, 2.5


def _of(score):
    """NumPy or JAX: quadrature is many times as fast without a device."""
    return score.__array_namespace__()


# The published formulas, each as its program states it: of the plain log-likelihood, and of the augmentation bound.
PLAIN = {
    # Counts up to a term of y alone: a Poisson count from the best of all laws of y on.
    "Poisson": lambda y, s: y * s - _of(s).exp(s) + y - y * _of(s).log(_of(s).where(y == 0, _of(s).ones_like(y), y)),
    "Binomial": lambda y, s, trials: y * s - trials * _of(s).logaddexp(s, 0 * s),
    "NegativeBinomial": lambda y, s, dispersion: y * s - (y + dispersion) * _of(s).logaddexp(s, 0 * s),
    "Hinge": lambda sign, score: HingePseudoLikelihood(score).log_prob((1 + sign) / 2),
    "Logistic": lambda sign, score: LogisticPseudoLikelihood(score).log_prob((1 + sign) / 2),
    "EpsilonInsensitive": lambda y, score: EpsilonInsensitivePseudoLikelihood(score).log_prob(y),
    "Squared": lambda y, score: NormalPseudoLikelihood(score).log_prob(y),
    "Quantile": quantile.log_likelihood,
}
BOUND = {
    "Hinge": marginalised_dropout.hinge,
    "Logistic": marginalised_dropout.logistic,
    "EpsilonInsensitive": marginalised_dropout.epsilon_insensitive,
    "Quantile": marginalised_dropout.quantile,
    "Squared": marginalised_dropout.squared,
    "Binomial": lambda y, m, v, trials: _logistic_count(y, trials, m, v),
    "NegativeBinomial": lambda y, m, v, dispersion: _logistic_count(y, y + dispersion, m, v),
}
# Settings other than the default, which for a median hides an error of sign.
SETTINGS = {"Binomial": {"trials": TRIALS}, "NegativeBinomial": {"dispersion": DISPERSION}, "Quantile": {"tau": 0.8}}


def _logistic_count(y, b, m, v):
    """Jensen's bound with the Polya-Gamma variable profiled out, ``b log 2cosh(r/2) − (y − b/2) m``."""
    half = jnp.sqrt(m * m + v) / 2
    return b * jnp.logaddexp(half, -half) - (y - b / 2) * m


def _has(cls, form):
    try:
        cls(expectation=form)
    except ValueError:
        return False
    return True


def _losses():
    """Every loss of the package in every form that it has."""
    found = (getattr(bayesdrop.losses, name) for name in bayesdrop.losses.__all__)
    return [
        cls(**SETTINGS.get(cls.__name__, {}), expectation=form)
        for cls in found
        if isinstance(cls, type) and cls is not Loss and hasattr(cls, "plain_value_and_slope")
        for form in ("augmentation", "gaussian", "taylor", "exact")
        if _has(cls, form)
    ]


LOSSES = _losses()
AUGMENTED = [loss for loss in LOSSES if isinstance(loss, Augmented)]


def _quick_first(losses):
    """Beyond their first forms losses of counts are the logistic in others, squares the same in all, quantiles tubes.

    Those are slow.
    """
    for loss in losses:
        sibling = type(loss).__name__ in ("Binomial", "NegativeBinomial", "Squared", "Quantile")
        slow = sibling and loss.expectation in ("gaussian", "taylor")
        yield pytest.param(loss, marks=[pytest.mark.slow] * slow, id=repr(loss))


@pytest.fixture(params=_quick_first(LOSSES))
def loss(request):
    return request.param


@pytest.fixture(params=_quick_first(AUGMENTED))
def augmentable(request):
    """Every loss that has auxiliary variables, in every form."""
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
def thorough():
    """Options of XLA for autodiff, whose products of nought and infinity cancel where it optimises, as by default.

    The suite asks it to compile quickly instead.
    """
    return {"xla_backend_optimization_level": 3, "xla_cpu_use_fusion_emitters": True}


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
