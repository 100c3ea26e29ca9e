"""Missing entries and scikit-learn: its own checks, searches and pipelines, and refusals that say what to do."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

import bayesdrop as bd

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)) + [0.0, 5.0, 0.0]
Y = (X[:, 0] + X[:, 1] - 5 > 0).astype(int)
HOLES = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
LINEAR = [
    bd.DropoutLogisticRegression,
    bd.DropoutSVC,
    bd.DropoutSVR,
    bd.DropoutQuantileRegressor,
    bd.DropoutRidge,
    bd.DropoutPoissonRegressor,
    bd.DropoutNegativeBinomialRegressor,
    bd.DropoutLogisticRegressionCV,
    bd.DropoutSVCCV,
    bd.DropoutRidgeCV,
    bd.DropoutSVRCV,
]


@pytest.mark.parametrize("kind", LINEAR)
def test_every_linear_estimator_takes_missing_entries_if_told(kind):
    assert get_tags(kind(missing="nan")).input_tags.allow_nan
    assert not get_tags(kind()).input_tags.allow_nan
    fast = {"Cs": (1.0,), "rates": [0.2]} if "CV" in kind.__name__ else {"rates": 0.2}
    assert np.all(np.isfinite(kind(missing="nan", **fast).fit(HOLES, Y).predict(HOLES)))
    with pytest.raises(ValueError, match='X contains NaN.\nIf these entries are missing, missing="nan" takes them'):
        kind(**fast).fit(HOLES, Y)
    with pytest.raises(ValueError, match="X contains NaN.\n.*SimpleImputer"):
        kind(**fast).fit(X, Y).predict(HOLES)
    infinite = HOLES.copy()
    infinite[0, 0] = np.inf
    with pytest.raises(ValueError, match="X contains infinity"):
        kind(missing="nan", **fast).fit(infinite, Y)
    with pytest.raises(ValueError, match="missing: expected None or \"nan\", got 'zeros'"):
        kind(missing="zeros", **fast).fit(X, Y)


@pytest.mark.slow
def test_searches_pipelines_and_paths():
    model = make_pipeline(StandardScaler(), bd.DropoutLogisticRegression(missing="nan"))
    assert cross_val_score(model, HOLES, Y, cv=3).mean() > 0.75
    search = GridSearchCV(bd.DropoutSVC(missing="nan"), {"rates": [0.0, 0.3]}, cv=3).fit(HOLES, Y)
    assert search.best_score_ > 0.75
    folds = bd.DropoutLogisticRegressionCV([0.0, 0.3], Cs=(0.1, 1.0), cv=3, missing="nan").fit(HOLES, Y)
    assert folds.best_estimator_.missing == "nan"
    scored = bd.DropoutLogisticRegressionCV([0.3], Cs=(1.0,), cv=3, scoring="accuracy", missing="nan").fit(HOLES, Y)
    assert scored.best_score_ > 0.75
    path = bd.RatePath(bd.DropoutSVC(missing="nan"), [0.1, 0.3], cv=3).fit(HOLES, Y)
    assert path.coefs_.shape == (2, 1, 3)


def test_refusals_say_what_to_do():
    with pytest.raises(ValueError, match="missing: .*GaussianNoise.* drops none"):
        bd.Model(noise=bd.GaussianNoise(1.0), missing="nan")
    with pytest.raises(ValueError, match="NaN.\nLatentDropoutSVC takes no missing entries; .*linear estimator"):
        bd.LatentDropoutSVC().fit(HOLES, Y)
    with pytest.raises(ValueError, match="missing: a hidden layer takes no missing entries"):
        bd.sample_latent(bd.Model(missing="nan"), X, Y)
    with pytest.raises(ValueError, match="missing: bd.WeightsBlock takes no missing entries"):
        bd.WeightsBlock(bd.Model(rates=bd.Fixed(0.0), missing="nan"), X, Y)
    with pytest.raises(ValueError, match="has a NaN or infinite entry in its row"):
        bd.DropoutSVC(missing="nan").fit(bd.Blocks([HOLES]), Y)
    da = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match="NaN or infinite entry"):
        bd.fit(bd.Model(missing="nan"), da.from_array(HOLES), Y)
    with pytest.raises(ValueError, match='contains NaN, .*missing="nan" with solver="deterministic"'):
        bd.DropoutMatrixFactorization(2).fit(HOLES)


def test_formulas():
    pytest.importorskip("formulaic")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"age": [20.0, None, 50.0, 60.0], "site": ["n", "s", None, "n"], "dose": [1, 2, 1, 2], "ill": [0, 1, 0, 1]}
    )
    text = "ill ~ age + site + dose:site"
    with pytest.raises(ValueError, match="missing values in .*'age' \\(1 of 4 rows\\), .*or missing=\"nan\""):
        bd.from_formula(text, frame)
    design = bd.from_formula(text, frame, missing="nan")
    gone = np.isnan(design.X)
    by_term = {term: gone[:, [group == term for group in design.groups]] for term in design.groups}
    expected = {"age": [0, 1, 0, 0], "site": [0, 0, 1, 0], "dose:site": [0, 0, 1, 0]}
    for term, rows in expected.items():
        assert np.all(by_term[term] == np.array(rows, bool)[:, None])
    np.testing.assert_array_equal(np.isnan(design.transform(frame[1:3])), gone[1:3])
    lines = bd.from_formula(text, frame, missing="nan", sparse=True)
    np.testing.assert_array_equal(np.nan_to_num(lines.X.toarray()), np.nan_to_num(design.X))
    model = bd.Model(rates=bd.PerGroup(design.groups), missing="nan")
    assert bd.fit(model, design.X, design.y, feature_names=design.feature_names).status.name == "CONVERGED"
    scaled = bd.from_formula("ill ~ scale(age)", frame, missing="nan").X[:, 0]
    np.testing.assert_allclose(scaled, [-1.1208971, np.nan, 0.3202563, 0.8006408], rtol=1e-6)
    with pytest.raises(ValueError, match="every entry of the terms 'age' is missing"):
        bd.from_formula("ill ~ age + dose", frame.assign(age=np.nan), missing="nan")
    with pytest.raises(ValueError, match="missing values in 'site'"):
        bd.from_formula("site ~ age", frame, missing="nan")
