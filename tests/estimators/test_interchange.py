"""``to_sklearn``: scikit-learn's own models with the scores of ours."""

import numpy as np
import pytest
from sklearn.base import is_classifier

import bayesdrop as bd


def rows(classes):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(80, 4)) + [0.0, 0.0, 2.5, 0.0]
    score = X @ [1.0, -1.0, 0.5, 0.0] + generator.normal(size=80)
    return X, score if classes is None else np.array(list("abc"))[np.digitize(score, np.quantile(score, [0.5, 0.8]))]


@pytest.mark.parametrize(
    ("estimator", "classes"),
    [
        (bd.DropoutLogisticRegression(0.3), 2),
        (bd.DropoutLogisticRegression(bd.PerFeature(), noise=bd.Dropout(unbiased=True)), 2),
        (bd.DropoutLogisticRegression(0.2, multiclass="softmax"), 3),
        (bd.DropoutSVC(bd.PerFeature()), 3),
        (bd.DropoutSVC(0.4, corrupted_inputs=True), 2),
        (bd.DropoutLogisticRegressionCV([0.1], Cs=(1.0,), cv=2), 2),
        (bd.DropoutRidge(0.2), None),
        (bd.DropoutSVR(0.2, noise=bd.Dropout(centre="mean")), None),
    ],
)
def test_scores_and_labels_are_the_same(estimator, classes):
    X, y = rows(classes)
    y = np.where(y == "c", "b", y) if classes == 2 else y
    fitted = estimator.fit(X, y)
    plain = fitted.to_sklearn()
    assert type(plain).__module__.startswith("sklearn.")
    assert is_classifier(plain) == (classes is not None)
    if classes is None:
        np.testing.assert_allclose(plain.predict(X), fitted.predict(X))
    else:
        found, expected = plain.decision_function(X), fitted.decision_function(X)
        if getattr(fitted, "multiclass_", None) == "softmax" and classes > 2:  # whose scores are of averages
            dropped = np.zeros(4) if fitted.centre_ is None else fitted.centre_
            expected = (0.8 * X + 0.2 * dropped) @ fitted.coef_.T + fitted.intercept_
        else:
            np.testing.assert_array_equal(plain.predict(X), fitted.predict(X))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("estimator", [bd.DropoutPoissonRegressor(0.1), bd.DropoutQuantileRegressor(0.1)])
def test_no_counterpart(estimator):
    X, y = rows(None)
    with pytest.raises(TypeError, match="no counterpart in scikit-learn"):
        estimator.fit(X - [0, 0, 2.5, 0], np.abs(np.round(y))).to_sklearn()
