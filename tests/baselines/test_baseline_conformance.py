"""The baselines have scikit-learn's manners."""

import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from bayesdrop.baselines import FDROP, NBSVM, ExplicitCorruption, MCFExponential, MCFLogistic, MCFQuadratic


@parametrize_with_checks(
    [
        MCFQuadratic(),
        MCFExponential(),
        MCFLogistic(),
        FDROP(C=0.01),
        NBSVM(),
        NBSVM(loss="log_loss"),
        ExplicitCorruption(LogisticRegression(), 0.1),
        ExplicitCorruption(Ridge(), 0.1),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.slow_cases(
    *("FDROP(C=0.01)-check_estimator_sparse", "FDROP(C=0.01)-check_sample_weight_equivalence", "NBSVM(loss="),
    *("FDROP(C=0.01)-check_classifiers", "MCFExponential", "MCFQuadratic", "Ridge"),
)
def test_scikit_learn_conformance(estimator, check):
    check(estimator)
