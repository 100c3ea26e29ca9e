"""The baselines have scikit-learn's manners."""

import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from bayesdrop.baselines import FDROP, NBSVM, ExplicitCorruption, MCFExponential, MCFLogistic, MCFQuadratic

WEIGHTS = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]


def _expected_failures(estimator):
    """Checks that ask for scores equal to seven digits of two fits to differently written data, or give no counts."""
    reasons = {
        FDROP: "fits agree in the objective to tol, not in the scores to seven digits",
        ExplicitCorruption: "a row twice is corrupted twice, a row of weight two once",
    }
    if isinstance(estimator, NBSVM) and estimator.loss == "log_loss":
        return {"check_decision_proba_consistency": "its features are below 0, though NBSVM says that it takes counts"}
    return {check: reasons[type(estimator)] for check in WEIGHTS if type(estimator) in reasons}


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
    expected_failed_checks=_expected_failures,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.slow_cases(
    *("FDROP(C=0.01)-check_estimator_sparse", "FDROP(C=0.01)-check_sample_weight_equivalence", "NBSVM(loss="),
    *("FDROP(C=0.01)-check_classifiers", "MCFExponential", "MCFQuadratic", "Ridge"),
)
def test_scikit_learn_conformance(estimator, check):
    check(estimator)
