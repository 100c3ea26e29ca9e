"""Double precision, strict promotion, the exactness that the laws of this folder ask for, and all losses."""

from functools import partial

import jax
import numpy as np
import pytest

import bayesdrop.losses
from bayesdrop.losses.protocols import Augmented
from bayesdrop.models.statements import statements

LAW = 1e-10
"""Two statements of one number differ by rounding alone: relative to the largest term that enters either."""

STATEMENTS = statements()


def _has(cls, form):
    try:
        cls(expectation=form)
    except ValueError:
        return False
    return True


# The programs have no site of a scale.
KNOWN_SCALES = {"Squared": {"variance": 1.0}, "Quantile": {"scale": 1.0}}


def _losses():
    """Every loss of the package in every form that it has, of known scale."""
    found = (getattr(bayesdrop.losses, name) for name in bayesdrop.losses.__all__)
    return [
        cls(**STATEMENTS[cls.__name__].settings, **KNOWN_SCALES.get(cls.__name__, {}), expectation=form)
        for cls in found
        if isinstance(cls, type) and cls.__name__ in STATEMENTS
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


def _part(loss, part):
    statement = STATEMENTS[type(loss).__name__]
    return partial(getattr(statement, part), **statement.settings)


@pytest.fixture(scope="session")
def plain():
    """``plain(loss)``: its log-likelihood without noise, ``(y, score)``, by its program."""
    return lambda loss: _part(loss, "log_likelihood")


@pytest.fixture(scope="session")
def published_bound():
    """``published_bound(loss)``: the augmentation bound, ``(y, mean, var)``, by its program."""
    return lambda loss: _part(loss, "bound")


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

    def check(actual, expected, *terms, accuracy=LAW):
        actual, expected = np.asarray(actual), np.asarray(expected)
        size = np.max([1.0, *(np.max(np.abs(np.asarray(term))) for term in (actual, expected, *terms))])
        assert np.all(np.isfinite(actual))
        assert np.all(np.isfinite(expected))
        worst = np.max(np.abs(actual - expected))
        assert worst <= accuracy * size, f"differ by {worst:.3g} where the terms are of size {size:.3g}"

    return check
