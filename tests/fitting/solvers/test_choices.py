"""The table of ways down: every row is taken by a fit, and a fit says which."""

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.fitting.solvers.choices import CHOICES, STEPS, Case, Limits, choose

RNG = np.random.default_rng(0)
DENSE = RNG.normal(size=(60, 5))
WIDE = RNG.normal(size=(20, 400))
SPARSE = sparse.random_array((200, 300), density=0.02, rng=RNG, format="csr")


def fitted(loss, X, rate):
    numbers = np.asarray(X.sum(axis=1)).ravel() + RNG.normal(size=X.shape[0])
    y = np.where(numbers > np.median(numbers), 1.0, -1.0) if loss.binary else numbers
    return bd.fit(bd.Model(loss, rates=bd.Fixed(rate)), X, y)


FITS = {
    "Newton, proximal": lambda: bd.fit(
        bd.Model(weight_prior=bd.Laplace(), rates=bd.Fixed(0.3)), DENSE, DENSE[:, 0] > RNG.normal(size=60)
    ),
    "interior points": lambda: fitted(bd.Hinge(), DENSE, 0.0),
    "coordinates": lambda: fitted(bd.Hinge(), SPARSE, 0.0),
    "Newton, diagonal of much noise": lambda: fitted(bd.Hinge(), RNG.normal(size=(500, 210)), 0.7),
    "Newton, Cholesky": lambda: fitted(bd.Logistic(), DENSE, 0.3),
    "Newton, Woodbury": lambda: fitted(bd.Logistic(), WIDE, 0.3),
    "Newton, diagonal": lambda: fitted(bd.Logistic(), SPARSE, 0.3),
}


@pytest.mark.parametrize("name", [row.name for row in CHOICES])
def test_every_row_is_taken(name, tmp_path):
    fit = FITS[name]()
    assert fit.solver == name
    assert fit.status.name == "CONVERGED"
    assert bd.Fit.load(fit.save(tmp_path / "fit.nc") or tmp_path / "fit.nc").solver == name


def test_names_are_apart_and_the_last_row_always_holds():
    assert len({row.name for row in CHOICES}) == len(CHOICES)
    case = Case(1000, 30, False, False, False, False, False, 0.0)
    assert choose(case) is choose(case, rows=STEPS) is CHOICES[-1]


def test_sizes_are_limits():
    case = Case(10_000, 100, False, True, False, True, True, 0.0)
    assert choose(case).name == "interior points"
    assert choose(case, Limits(tall=200)).name == choose(case, Limits(multiplications=1.0)).name == "coordinates"


def test_a_method_that_is_given_is_named():
    X, y = DENSE, np.where(DENSE[:, 0] > 0, 1, -1)
    assert bd.fit(bd.Model(rates=bd.Fixed(0.3)), X, y, method=bd.EM()).solver == "EM"
    assert bd.fit(bd.Model(bd.Softmax(), rates=bd.Fixed(0.3)), X, np.arange(60) % 3).solver == "softmax"
