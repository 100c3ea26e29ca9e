"""Curves: what they show, on what axes, and what they refuse."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.stats import binomtest

import bayesdrop as bd
from bayesdrop import plots
from bayesdrop.description import attributes


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 9))
    score = X @ np.array([2.0, -1.5, 1.0, 0.5, 0.3, 0.0, 0.0, 0.0, 0.0])
    return X, np.where(score + rng.logistic(size=240) > 0, "yes", "no"), np.digitize(score, [-1.0, 1.0])


def series(ax):
    """Points of each errorbar by its label."""
    return {bars.get_label(): bars.lines[0].get_xydata() for bars in ax.containers}


def bars(ax, j=0):
    """Lower and upper ends of the bars of a series."""
    ends = np.array([segment[:, 1] for segment in ax.containers[j].lines[2][0].get_segments()])
    return ends.min(axis=1), ends.max(axis=1)


def texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def told_apart(lines):
    styles = [(line.get_color(), line.get_marker(), line.get_linestyle()) for line in lines]
    return all(len({style[part] for style in styles}) == len(styles) for part in range(3))


def test_path_draws_scores_and_weights(problem):
    X, y, _ = problem
    path = bd.RatePath(bd.DropoutLogisticRegression(), [0.6, 0.0, 0.3], cv=3).fit(X, y)
    above, below = plots.rate_path(path, top=3)
    order = [1, 2, 0]
    np.testing.assert_array_equal(
        above.containers[0].lines[0].get_xydata(), np.column_stack([[0.0, 0.3, 0.6], path.scores_[order]])
    )
    low, high = bars(above)
    np.testing.assert_allclose(high - low, 2 * path.score_errors_[order])
    assert above.get_ylabel() == "Accuracy"
    assert f"best rate, {path.best_rate_:.3g}" in texts(above)
    weight = path.coefs_[order, 0]
    named = {line.get_label(): line for line in below.lines if line.get_label().startswith("x")}
    assert set(named) == {f"x{d}" for d in np.argsort(-np.abs(weight).max(axis=0))[:3]}
    for name, line in named.items():
        np.testing.assert_array_equal(line.get_ydata(), weight[:, int(name[1:])])
    assert told_apart(named.values())
    assert texts(below) == [*sorted(named, key=lambda name: -weight[-1, int(name[1:])]), "6 others"]


def test_path_of_many_classes_and_of_a_regression(problem):
    X, _, many = problem
    path = bd.RatePath(bd.DropoutSVC(C=0.1), [0.0, 0.5]).fit(X, many)
    above, below = plots.rate_path(path, top=2)
    assert texts(above)[-1] == "on training rows"
    assert "norm over the classes" in below.get_ylabel()
    norm = np.sqrt((path.coefs_**2).sum(axis=1))
    line = next(line for line in below.lines if line.get_label() == "x0")
    np.testing.assert_allclose(line.get_ydata(), norm[:, 0])
    _, below = plots.rate_path(path, label=2)
    line = next(line for line in below.lines if line.get_label() == "x0")
    np.testing.assert_array_equal(line.get_ydata(), path.coefs_[:, 2, 0])
    with pytest.raises(ValueError, match=r"expected one of the classes \[0, 1, 2\], got 7"):
        plots.rate_path(path, label=7)
    regression = bd.RatePath(bd.DropoutRidge(), [0.0, 0.5]).fit(X, X[:, 0] + X[:, 1])
    assert plots.rate_path(regression)[0].get_ylabel() == "R²"
    with pytest.raises(ValueError, match="a regression has no classes"):
        plots.rate_path(regression, label=1)


def test_reliability_by_hand():
    chance = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.9, 1.0, 0.0])
    y = np.array([0, 1, 0, 1, 1, 1, 1, 0])
    ax = plots.reliability_curve(y, chance, bins=4, probability=0.8)
    points = ax.containers[0].lines[0].get_xydata()
    # 1/2 belongs to the bin that it opens, 1 to the last one
    np.testing.assert_allclose(points, [[0.1, 1 / 3], [0.35, 1 / 2], [0.5, 1], [0.95, 1]])
    expected = [binomtest(k, n).proportion_ci(0.8, "wilson") for k, n in ((1, 3), (1, 2), (1, 1), (2, 2))]
    low, high = bars(ax)
    np.testing.assert_allclose(low, [interval.low for interval in expected])
    np.testing.assert_allclose(high, [interval.high for interval in expected])
    assert texts(ax)[-1] == f"Brier score {np.mean((y - chance) ** 2):.3f}"
    histogram = ax.child_axes[0]
    assert histogram.patches[0].get_data().values.tolist() == [3, 2, 1, 2]
    assert histogram.get_xlabel() == "Predicted probability of 1"


def test_reliability_of_several_models(problem):
    X, y, _ = problem
    models = {rate: bd.DropoutLogisticRegression(rate).fit(X[::2], y[::2]) for rate in (0.0, 0.7)}
    ax = plots.reliability_curve(y[1::2], {f"rate {r}": m.predict_proba(X[1::2]) for r, m in models.items()})
    shown = series(ax)
    assert [label.split(":")[0] for label in shown] == ["rate 0.0", "rate 0.7"]
    assert told_apart([container.lines[0] for container in ax.containers])
    assert len(ax.child_axes[0].patches) == 2
    alone = plots.reliability_curve(y[1::2], models[0.7].predict_proba(X[1::2])[:, 1])
    np.testing.assert_array_equal(next(iter(series(alone).values())), list(shown.values())[1])


def posterior(n, chance, draws=400):
    """A posterior whose simulated responses come with the given chances."""
    rng = np.random.default_rng(3)
    simulated = np.where(rng.random((2, draws, n)) < chance, 1, -1).astype(np.int8)
    data = xr.Dataset({"y": (("chain", "draw", "obs_id"), simulated)}, coords={"chain": [0, 1]})
    return bd.groups.assemble({"posterior_predictive": data})


@pytest.mark.parametrize("positive", ["yes", "no"])
def test_predictive_band_is_where_the_model_expects_the_frequencies(positive):
    rng = np.random.default_rng(4)
    chance = np.repeat([0.25, 0.75], 200)
    y = np.where(rng.random(400) < chance, "yes", "no")
    both = np.column_stack([1 - chance, chance])
    ax = plots.reliability_curve(y, both, bins=2, positive=positive, predictive=posterior(400, chance))
    band = ax.collections[0].get_paths()[0].vertices
    for share in (0.25, 0.75):
        ends = band[np.isclose(band[:, 0], share), 1]
        half = 1.645 * np.sqrt(0.25 * 0.75 / 200)
        # quantiles of 800 draws of a frequency out of 200: within a fifth of the half-width
        np.testing.assert_allclose([ends.min(), ends.max()], [share - half, share + half], atol=half / 5)
    assert "posterior predictive, 90 %" in texts(ax)


def predicted(*classes, mean=(0.2, 0.6)):
    """The result of ``bd.predict`` of a point fit to classes."""
    return bd.Prediction(np.array(mean), None, None, None, 0.9, None, np.array(classes))


def test_reliability_takes_predictions_of_a_posterior():
    draws = xr.Dataset(
        {"weight": (("chain", "draw", "feature"), [[[2.0], [1.0]]]), "intercept": (("chain", "draw"), [[0.0, 0.0]])},
        coords={"feature": ["x0"]},
    )
    post = bd.groups.assemble({"posterior": draws}, attributes(bd.Model(rates=bd.Fixed(0.0)), ["no", "yes"]))
    predicted = bd.predict(post, [[-1.0], [1.0]])
    points = next(iter(series(plots.reliability_curve(["no", "yes"], predicted)).values()))
    np.testing.assert_allclose(points, np.column_stack([predicted.mean, [0, 1]]))
    flipped = next(iter(series(plots.reliability_curve(["no", "yes"], predicted, positive="no")).values()))
    np.testing.assert_allclose(flipped[::-1], np.column_stack([1 - predicted.mean, [1, 0]]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1, 2], [0.1, 0.2, 0.3]), "expected two classes, got 3"),
        (([0, 1], [0.1, 0.2, 0.3]), r"expected 2 probabilities, one for each label of y, got shape \(3,\)"),
        (([0, 1], {"a": [0.1, 1.3]}), r"probabilities\['a'\]: expected numbers in \[0, 1\], got from 0.1 to 1.3"),
        ((["no", "no"], [0.1, 0.2]), "every row is 'no'"),
        (([0, 1], {}), "from one to 7 models, got 0"),
        (
            ([True, False], predicted("no", "yes")),
            r"probabilities of 'True', got a prediction of the classes \['no', 'yes'",
        ),
    ],
)
def test_reliability_says_what_does_not_fit(arguments, message):
    with pytest.raises(ValueError, match=message):
        plots.reliability_curve(*arguments)


@pytest.mark.slow
@pytest.mark.parametrize("classes", [["no", "yes"], ["yes", "no"], [1, 2], [2, 1], [False, True], [1, 0], [-1, 1]])
def test_reliability_of_a_prediction_is_that_of_its_classes(classes):
    """A formula such as ``ill['no'] ~ age`` models the label that sorts first; a band has the same classes."""
    rng = np.random.default_rng(5)
    chance = np.repeat([0.1, 0.4], 200)
    event, drawn = rng.random(400) < chance, rng.random((1, 100, 400)) < chance
    y = np.array(classes)[event.astype(int)]
    group = xr.Dataset({"y": (("chain", "draw", "obs_id"), drawn.astype(np.int8))})
    simulated = bd.groups.assemble({"posterior_predictive": group}, attributes(bd.Model(), classes))
    named = bd.groups.assemble({"posterior_predictive": group.assign_coords({"class": [str(one) for one in classes]})})
    for positive in (None, *classes):
        for predictive in (simulated, named):
            ax = plots.reliability_curve(
                y, predicted(*classes, mean=chance), positive=positive, bins=10, predictive=predictive
            )
            swapped = (max(classes) if positive is None else positive) == classes[0]
            place = np.sort([0.9, 0.6] if swapped else [0.1, 0.4])
            points = ax.containers[0].lines[0].get_xydata()
            np.testing.assert_allclose(points[:, 0], place)
            np.testing.assert_allclose(points[:, 1], place, atol=0.1)
            np.testing.assert_allclose(
                np.unique(ax.collections[0].get_paths()[0].vertices[:, 1]).mean(), place.mean(), atol=0.05
            )
    # Labels that no model has seen as such: 0 is the class beside 1.
    if classes == [-1, 1]:
        ax = plots.reliability_curve(event.astype(int), predicted(-1, 1, mean=chance), positive=0)
        np.testing.assert_allclose(ax.containers[0].lines[0].get_xydata()[:, 0], [0.6, 0.9])


def test_reliability_of_one_of_many_classes():
    mean = np.tile([0.1, 0.2, 0.7], (2, 1))
    ax = plots.reliability_curve(["c", "b"], predicted("a", "b", "c", mean=mean), positive="b")
    np.testing.assert_allclose(ax.containers[0].lines[0].get_xydata(), [[0.2, 0.5]])


@pytest.mark.slow
def test_reliability_of_rows_of_one_class():
    both = np.tile([0.9, 0.1], (3, 1))
    for y, positive, place in [
        (["no"] * 3, "yes", 0.1), (["yes"] * 3, "no", 0.9), ([0] * 3, 0, 0.9), ([0] * 3, None, 0.1),
        ([2] * 3, 1, 0.9), ([False] * 3, False, 0.9), ([True] * 3, None, 0.1),
    ]:  # fmt: skip
        ax = plots.reliability_curve(y, both, positive=positive)
        np.testing.assert_allclose(ax.containers[0].lines[0].get_xydata()[0, 0], place)
    ax = plots.reliability_curve(["no"] * 3, predicted("no", "yes", mean=both[:, 1]), positive="no")
    np.testing.assert_allclose(ax.containers[0].lines[0].get_xydata(), [[0.9, 1.0]])
    ax = plots.reliability_curve(["no"] * 3, both[:, 0], positive="no")
    np.testing.assert_allclose(ax.containers[0].lines[0].get_xydata(), [[0.9, 1.0]])
    with pytest.raises(ValueError, match="every row of y is 'no', so that the order of the two columns is unknown"):
        plots.reliability_curve(["no"] * 3, both, positive="no")


def test_reliability_says_which_option_does_not_fit():
    with pytest.raises(ValueError, match="predictive: expected 2 rows, those of y, got 3"):
        plots.reliability_curve([0, 1], [0.1, 0.2], predictive=posterior(3, 0.5))
    with pytest.raises(ValueError, match="expected a group 'posterior_predictive'"):
        plots.reliability_curve([0, 1], [0.1, 0.2], predictive=bd.groups.assemble({"posterior": xr.Dataset()}))


def test_deletion_means_and_standard_errors(problem):
    X, y, _ = problem
    models = {"plain": bd.DropoutLogisticRegression(0.0).fit(X, y), "half": bd.DropoutSVC(0.5).fit(X, y)}
    ax = plots.deletion_robustness(models, X, y, rates=[0.6, 0.0], repeats=4, seed=5)
    seeds = np.random.SeedSequence(5).generate_state(4)
    for j, (name, model) in enumerate(models.items()):
        scores = [bd.deletion_scorer(0.6, seed=int(s))(model, X, y) for s in seeds]
        points = series(ax)[name]
        np.testing.assert_allclose(points, [[0.0, model.score(X, y)], [0.6, np.mean(scores)]])
        low, high = bars(ax, j)
        np.testing.assert_allclose(high - low, [0, 2 * np.std(scores, ddof=1) / 2], atol=1e-12)
    assert told_apart([container.lines[0] for container in ax.containers])
    constant = next(line for line in ax.lines if "largest" in line.get_label())
    np.testing.assert_allclose(constant.get_ydata(), max(np.mean(y == "yes"), np.mean(y == "no")))


def test_deletion_says_what_does_not_fit(problem):
    X, y, _ = problem
    model = bd.DropoutLogisticRegression(0.3).fit(X, y)
    with pytest.raises(ValueError, match='expected scoring="accuracy" with it'):
        plots.deletion_robustness(model, X, y, error=True, scoring="roc_auc")


def test_given_axes_are_used_and_other_scores_named(problem):
    X, y, _ = problem
    model = bd.DropoutLogisticRegression(0.3).fit(X, y)
    figure, axes = plt.subplots(1, 2)
    ax = plots.deletion_robustness(model, X, y, rates=[0.0, 0.5], repeats=2, scoring="roc_auc", ax=axes[0])
    assert ax is axes[0]
    assert ax.get_ylabel() == "Roc auc"
    assert texts(ax) == ["DropoutLogisticRegression"]
    assert plots.reliability_curve(y, model.predict_proba(X), ax=axes[1]) is axes[1]
    own = plt.figure()
    path = bd.RatePath(bd.DropoutSVC(), [0.0, 0.5]).fit(X, y)
    assert plots.rate_path(path, figure=own)[1].figure is own


def test_a_forest_of_weights_shows_the_largest_with_their_intervals():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 50))
    y = X[:, 3] - X[:, 7] + rng.normal(size=80) > 0
    table = bd.weights_table(bd.fit(bd.Model(rates=bd.Fixed(0.0)), X, y))
    ax = bd.plots.weights_forest(table)
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert set(labels[:2]) == {"x3", "x7"}
    assert labels[-1] == "⋮ 10 more, smaller"
    lines = ax.collections[0].get_segments()
    order = np.argsort(-np.abs(table["weight"].to_numpy()))
    np.testing.assert_allclose([line[:, 0] for line in lines], table[["low", "high"]].to_numpy()[order[:40]])
    assert "90 %: Laplace" in ax.get_legend().get_texts()[0].get_text()
    many = bd.fit(bd.Model(bd.Softmax(), rates=bd.Fixed(0.2)), X[:, :2], np.arange(80) % 3)
    ax = bd.plots.weights_forest(bd.weights_table(many), top=4)
    assert "x0 (0)" in [label.get_text() for label in ax.get_yticklabels()]
    assert not ax.collections
    ax = bd.plots.weights_forest(bd.marginal_effects(many, X[:, :2]))
    assert ax.get_xlabel().startswith("Average marginal effect")
    with pytest.raises(TypeError, match="table: expected what bd.weights_table"):
        bd.plots.weights_forest([1.0])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([100001.0, 100002.0], ["100001", "100002"]),
        ([1 / 3, 2.0], ["0.3333", "2"]),
        ([0.1, np.nextafter(0.1, 1)], ["0.10000000000000001", "0.10000000000000002"]),
        (["a" * 40 + "1", "a" * 40 + "2"], ["a" * 40 + "1", "a" * 40 + "2"]),
    ],
)
def test_lines_of_effects_are_told_apart_by_their_names(values, expected):
    table = pd.DataFrame({"x": [0.0, 1.0] * 2, "inc": np.repeat(values, 2), "prediction": 0.5})
    assert texts(plots.effects(table)) == [f"inc = {value}" for value in expected]
