"""scikit-learn's own checks of every public estimator, with its default parameters and with others.

By default one estimator of each way to fit is checked; the rest is slow, and so are those that choose rates and C at
every fit; machines under noise are those of a search. None is expected to fail, but where missing entries are taken:
probabilities there average over the masks of each row, so that they need not rise with the score.
"""

import inspect
import re

import pytest
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

import bayesdrop as bd
from bayesdrop import estimators


def _made(kind):
    return kind(LogisticRegression(), 0.1) if kind is bd.baselines.ExplicitCorruption else kind()


def _estimators():
    """All that are exported and can be made without an estimator or a formula of the user's."""
    names = [getattr(module, name) for module in (bd, bd.baselines) for name in module.__all__]
    kinds = [kind for kind in names if inspect.isclass(kind) and issubclass(kind, BaseEstimator)]
    return [_made(kind) for kind in kinds if kind not in {bd.RatePath, getattr(bd, "FormulaTransformer", None)}]


B, MF, LEARNT = bd.baselines, bd.DropoutMatrixFactorization, bd.PerFeature()
SEARCH = {"rates": (0.3, bd.PerFeature()), "Cs": (0.5, 1.0), "cv": 2}
UNALIKE = {"check_decision_proba_consistency": "probabilities average over masks"}
COUNTS = {"check_decision_proba_consistency": "its features are negative, whatever the tag positive_only says"}


FOLDS = dict.fromkeys(
    [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")],
    "a row of weight 2 leaves as a whole, from folds and from the rows of a calibration, and the row twice does not",
)


def exempt(estimator):
    """What an estimator need not satisfy, by the name of the check, and why."""
    found = UNALIKE if getattr(estimator, "missing", None) else COUNTS if isinstance(estimator, B.NBSVM) else {}
    chooses = type(estimator) in CHOOSING and estimator.rates is None
    chooses |= type(estimator) is bd.DropoutSVCCV and estimator.Cs is None
    return found | (FOLDS if chooses else {})


CHOOSING = {bd.DropoutSVC, bd.DropoutLogisticRegression}
SKIPPED = "ignore::sklearn.exceptions.SkipTestWarning"


def stops_early(test):
    """On the few rows of the checks some fits stop early, and all candidates of a search may be alike."""
    for name in ("sklearn.exceptions.ConvergenceWarning", "bayesdrop.SelectionWarning"):
        test = pytest.mark.filterwarnings(f"ignore::{name}")(test)
    return pytest.mark.filterwarnings(SKIPPED)(test)


@pytest.mark.filterwarnings(SKIPPED)
@pytest.mark.slow_cases(
    *("FDROP(C=0.01)-check_estimator_sparse", "FDROP(C=0.01)-check_sample_weight_equivalence"),
    "FDROP(C=0.01)-check_classifiers",
)
@parametrize_with_checks(
    [
        *(bd.DropoutSVC(0.0, C=1.0), bd.DropoutLogisticRegression(LEARNT, C=1.0), bd.DropoutPoissonRegressor()),
        *(B.MCFLogistic(), B.FDROP(C=0.01), B.NBSVM(), B.ExplicitCorruption(LogisticRegression(), 0.1)),
        *(MF(), MF(solver="deterministic", missing="nan", tol=1e-4)),
    ],
    expected_failed_checks=exempt,
)
def test_one_of_each_way_to_fit(estimator, check):
    """Without a warning."""
    check(estimator)


@stops_early
@pytest.mark.slow_cases("check_estimator_sparse")
@parametrize_with_checks(
    [
        bd.DropoutLogisticRegression(0.2, missing="nan"),
        bd.DropoutLogisticRegression(expected_deletion=0.2, C=1.0),
        bd.DropoutSVCCV((0.3,), Cs=(0.5, 1.0), cv=2),
        bd.LatentDropoutLogisticRegression(0.05, n_hidden=3, n_init=1, random_state=0),
    ],
    expected_failed_checks=exempt,
)
def test_missing_entries_searches_and_hidden_layers(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings(SKIPPED)
@parametrize_with_checks(
    [
        *(bd.DropoutLogisticRegression(bd.PerFeature()), bd.DropoutPoissonRegressor(bd.PerFeature())),
        *(bd.DropoutNegativeBinomialRegressor(dispersion=2.0), bd.DropoutQuantileRegressor()),
        *(B.MCFQuadratic(), B.MCFExponential(), B.NBSVM(loss="log_loss"), B.ExplicitCorruption(Ridge(), 0.1)),
        *(MF(2, adaptive=False, retain=0.5), MF(solver="deterministic", tol=1e-4), MF(centre=True)),
        MF(solver="stochastic", max_iter=2000, retain=0.8, random_state=0),
    ],
    expected_failed_checks=exempt,
)
def test_other_settings(estimator, check):
    check(estimator)


@pytest.mark.slow
@stops_early
@parametrize_with_checks(
    [
        *_estimators(),
        bd.DropoutRidge(0.2, missing="nan"),
        *(bd.DropoutLogisticRegressionCV(**SEARCH), bd.DropoutSVCCV(**SEARCH)),
        bd.LatentDropoutSVC(0.05, n_hidden=3, n_init=1, random_state=0),
    ],
    expected_failed_checks=exempt,
)
def test_every_estimator_conforms(estimator, check):
    check(estimator)


def test_every_estimator_is_checked():
    checked = {type(one).__name__ for one in _estimators()}
    assert {name for name in bd.__all__ if name.startswith(("Dropout", "Latent")) and name != "Dropout"} <= checked


def described(kind, section):
    """Entries of a section of a docstring: what each name is, but where that is as in another estimator."""
    text = re.search(rf"^{section}\n-+\n(.*?)(?=\n\n|\Z)", inspect.getdoc(kind), re.MULTILINE | re.DOTALL)[1]
    entries = [entry.partition("\n") for entry in re.split(r"\n(?=\S)", text)]
    return {head.partition(" : ")[0]: (head, body) for head, _, body in entries if not body.strip().startswith("As in")}


@pytest.mark.parametrize("section", ["Parameters", "Attributes"])
def test_one_thing_has_one_description(section):
    """Docstrings are written out; what is the same for classifiers, or for regressions, is said in the same words."""
    linear = [getattr(estimators, name) for name in estimators.__all__]
    chosen = [getattr(bd, f"{kind.__name__}CV") for kind in linear if hasattr(bd, f"{kind.__name__}CV")]
    for kinds in (linear, chosen):
        for label in (is_classifier, is_regressor):
            said = {}
            for kind in (kind for kind in kinds if label(kind())):
                for name, entry in described(kind, section).items():
                    said.setdefault(name, {})[kind.__name__] = entry
            own = {"rates", "expectation", "C"} if section == "Parameters" and kinds is linear else set()
            differing = {name: list(found) for name, found in said.items() if len(set(found.values())) > 1}
            assert set(differing) <= own, differing
