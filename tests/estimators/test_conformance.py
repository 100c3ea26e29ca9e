"""scikit-learn's own checks of every public estimator with its default parameters; none is expected to fail."""

import inspect

import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import bayesdrop as bd


def _made(kind):
    return kind(LogisticRegression(), 0.1) if kind is bd.baselines.ExplicitCorruption else kind()


def _estimators():
    """All that are exported and can be made without an estimator or a formula of the user's."""
    names = [getattr(module, name) for module in (bd, bd.baselines) for name in module.__all__]
    kinds = [kind for kind in names if inspect.isclass(kind) and issubclass(kind, BaseEstimator)]
    return [_made(kind) for kind in kinds if kind not in {bd.RatePath, getattr(bd, "FormulaTransformer", None)}]


@pytest.mark.slow
@parametrize_with_checks(_estimators())
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::bayesdrop.SelectionWarning")
def test_every_estimator_conforms(estimator, check):
    check(estimator)


def test_every_estimator_is_checked():
    checked = {type(one).__name__ for one in _estimators()}
    assert {name for name in bd.__all__ if name.startswith(("Dropout", "Latent")) and name != "Dropout"} <= checked
