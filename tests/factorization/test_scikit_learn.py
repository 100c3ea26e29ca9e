"""scikit-learn's manners: its own checks, dtypes, names, storage of the input."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import bayesdrop as bd

MF = bd.DropoutMatrixFactorization


@parametrize_with_checks(
    [
        MF(),
        MF(2, adaptive=False, retain=0.5),
        MF(solver="deterministic", tol=1e-4),
        MF(solver="deterministic", missing="nan", tol=1e-4),
        MF(solver="stochastic", max_iter=2000, retain=0.8, random_state=0),
        MF(centre=True),
    ]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.slow_cases("stochastic')", "adaptive=False", "centre=True", "solver='deterministic',tol")
def test_scikit_learn_conformance(estimator, check):
    check(estimator)
