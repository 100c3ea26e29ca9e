"""scikit-learn's own checks of every public estimator with its default parameters; none is expected to fail."""

import inspect
import re

import pytest
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.linear_model import LogisticRegression
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
            own = {"rates", "expectation"} if section == "Parameters" and kinds is linear else set()
            differing = {name: list(found) for name, found in said.items() if len(set(found.values())) > 1}
            assert set(differing) <= own, differing
