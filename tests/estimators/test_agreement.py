"""What classifiers predict is what they call most probable, and what their scores say."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

import bayesdrop as bd
from bayesdrop.estimators.classes import agreeing

RNG = np.random.default_rng(0)
WORDS = (RNG.random((240, 6)) < 0.4) * RNG.lognormal(size=(240, 6))
SCORE = WORDS @ [4.0, -3.0, 2.0, -2.0, 0.0, 0.0]
TWO = SCORE + RNG.logistic(size=240) > np.median(SCORE)
THREE = np.digitize(SCORE + RNG.logistic(size=240), np.quantile(SCORE, [0.3, 0.6]))
MODELS = {
    "logistic": bd.DropoutLogisticRegression(),
    "logistic, given rate": bd.DropoutLogisticRegression(0.1, C=100.0),
    "logistic, large rate": bd.DropoutLogisticRegression(0.9, C=100.0),
    "one against the rest": bd.DropoutLogisticRegression(0.3, multiclass="one_vs_rest"),
    "weighted classes": bd.DropoutLogisticRegression(class_weight="balanced"),
    "machine": bd.DropoutSVC(),
    "machine, given rate": bd.DropoutSVC(0.3),
    "machine, steep": bd.DropoutSVC(0.3, C=1e3),
    "search": bd.DropoutLogisticRegressionCV(Cs=(0.1, 1.0), cv=3),
    "search of machines": bd.DropoutSVCCV(Cs=(0.1, 1.0), cv=3),
    "latent": bd.LatentDropoutLogisticRegression(0.3, n_hidden=2, n_init=1, max_iter=20, random_state=0),
    "latent machine": bd.LatentDropoutSVC(0.3, n_hidden=2, n_init=1, max_iter=20, C=50.0, random_state=0),
    "words": bd.baselines.NBSVM(loss="log_loss", C=100.0),
}


@pytest.mark.slow_cases("machine")
@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::bayesdrop.AccuracyWarning")
def test_predictions_probabilities_and_scores_agree(name, y):
    """Far from the boundary and next to it: on the rows, and on segments between rows of different classes."""
    model = MODELS[name].fit(WORDS, y)
    share = np.linspace(0, 1, 41)[:, None]
    X = np.concatenate([WORDS, *(share * WORDS[i] + (1 - share) * WORDS[-1 - i] for i in range(20))])
    score, chance, label = model.decision_function(X), model.predict_proba(X), model.predict(X)
    by_score = score.argmax(axis=1) if score.ndim > 1 else (score > 0).astype(int)
    np.testing.assert_array_equal(model.classes_[chance.argmax(axis=1)], label)
    np.testing.assert_array_equal(model.classes_[by_score], label)
    np.testing.assert_allclose(chance.sum(axis=1), 1.0, rtol=1e-9)
    assert np.all(np.isfinite(score) | (name == "logistic"))


def test_probabilities_are_moved_to_the_nearest_that_agree():
    """The Euclidean projection, by its own conditions, of probabilities of any number of classes."""
    chance = RNG.dirichlet(np.ones(5), size=400)
    chosen = RNG.integers(0, 5, size=400)
    found = agreeing(chance, chosen)
    rows = np.arange(400)
    np.testing.assert_array_equal(found.argmax(axis=1), chosen)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    for k in rows:
        moved = np.abs(found[k] - chance[k]) > 1e-12
        others = moved & (np.arange(5) != chosen[k])
        # Those that come down come down to the level of the chosen one, and none that is below it moves.
        np.testing.assert_allclose(found[k][others], found[k][chosen[k]], rtol=1e-12)
        assert np.all(chance[k][others] > found[k][others])
    same = chance.argmax(axis=1) == chosen
    np.testing.assert_array_equal(found[same], chance[same])
    np.testing.assert_array_equal(agreeing(np.array([[0.5, 0.5]]), np.array([1])).argmax(axis=1), [1])


def test_averages_are_moved_next_to_the_boundary_alone():
    X, y = load_iris(return_X_y=True)
    model = bd.DropoutLogisticRegression(0.3, multiclass="one_vs_rest").fit(X, y)
    fit = [bd.fit(bd.Model(rates=bd.Fixed(0.3)), X, y == k) for k in range(3)]
    plain = np.column_stack([one.predict(X).mean for one in fit])
    plain = plain / plain.sum(axis=1, keepdims=True)
    found = model.predict_proba(X)
    same = plain.argmax(axis=1) == model.predict(X)
    assert same.mean() > 0.9
    np.testing.assert_allclose(found[same], plain[same], atol=1e-3)
