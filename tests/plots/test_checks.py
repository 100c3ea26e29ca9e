"""Plots that check a posterior against its data: what they show, what they name, and what they refuse."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.stats import norm

import bayesdrop as bd
from bayesdrop import plots
from bayesdrop.description import attributes
from bayesdrop.plots.calibration import _uniform_band

DIMS = ("chain", "draw", "obs_id")


def made(y, drawn, loglik=None, *, classes=None, model=None):
    """A posterior with replicated responses, as ``bd.posterior_predictive`` lays it out."""
    chains, draws, n = drawn.shape
    coords = {"chain": np.arange(chains), "draw": np.arange(draws), "obs_id": np.arange(n)}
    named = {} if classes is None else {"class": [str(label) for label in classes]}
    groups = {
        "posterior": xr.Dataset(
            {"weight": ((*DIMS[:2], "feature"), np.zeros((chains, draws, 1)))}, {"feature": ["x0"]}
        ),
        "observed_data": xr.Dataset({"y": ("obs_id", y)}, {"obs_id": np.arange(n), **named}),
        "posterior_predictive": xr.Dataset({"y": (DIMS, drawn)}, {**coords, **named}),
    }
    if loglik is not None:
        groups["log_likelihood"] = xr.Dataset({"y": (DIMS, loglik)}, coords)
    return bd.groups.assemble(groups, attributes(model, classes) if model is not None else {})


@pytest.fixture
def counts():
    rng = np.random.default_rng(0)
    return made(rng.poisson(2, 70), rng.poisson(2, (2, 40, 70)))


@pytest.fixture
def labels():
    rng = np.random.default_rng(1)
    y, drawn = rng.integers(0, 2, 60), rng.integers(0, 2, (2, 40, 60)).astype(np.int8)
    loglik = rng.uniform(-0.71, -0.7, (2, 40, 60))
    return made(y.astype(np.int8), drawn, loglik, classes=["no", "yes"], model=bd.Model(rates=bd.Fixed(0.0)))


def parts(post):
    group = bd.groups.dataset(post, "posterior_predictive")["y"].values
    return bd.groups.dataset(post, "observed_data")["y"].values, group.reshape(-1, group.shape[-1])


def interval_of(container):
    """Middle, lower and upper ends of an errorbar."""
    ends = np.array([segment[:, 1] for segment in container.lines[2][0].get_segments()])
    return container.lines[0].get_ydata(), ends.min(axis=1), ends.max(axis=1)


def test_bars_of_counts(counts):
    y, drawn = parts(counts)
    ax = plots.ppc(counts, probability=0.8)
    bars, points = ax.containers
    size = len(bars)
    np.testing.assert_array_equal([bar.get_height() for bar in bars], np.bincount(y, minlength=size))
    each = np.stack([np.bincount(np.minimum(one, size), minlength=size + 1)[:size] for one in drawn])
    expected = [np.median(each, axis=0), *np.quantile(each, [0.1, 0.9], axis=0)]
    for found, wanted in zip(interval_of(points), expected, strict=True):
        np.testing.assert_allclose(found, wanted)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("y", "Rows")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["observed", "replicated (80 data sets, 80 %)"]


@pytest.mark.slow
def test_panels_of_a_column_add_up(counts):
    y, _ = parts(counts)
    site = pd.Series(np.resize(["n", "s", "w", "e"], 70), name="site")
    panels = plots.ppc(counts, by=site)
    assert [panel.get_title(loc="left") for panel in panels] == [f"site = {level}" for level in "ensw"]
    heights = np.array([[bar.get_height() for bar in panel.containers[0]] for panel in panels])
    np.testing.assert_array_equal(heights.sum(axis=0), np.bincount(y, minlength=heights.shape[1]))
    np.testing.assert_array_equal(heights.sum(axis=1), site.value_counts()[list("ensw")])
    assert [panel.get_xlabel() for panel in panels] == ["", "y", "y", "y"]
    ordered = pd.Series(pd.Categorical(site, ["w", "s", "n", "e", "unused"]), name="site")
    assert plots.ppc(counts, by=ordered)[0].get_title(loc="left") == "site = w"


def test_many_counts_have_intervals():
    rng = np.random.default_rng(0)
    post = made(rng.poisson(200, 50), rng.poisson(200, (1, 30, 50)))
    ax = plots.ppc(post)
    assert len(ax.containers[0]) <= 30
    assert sum(bar.get_height() for bar in ax.containers[0]) == 50
    assert "–" in ax.get_xticklabels()[0].get_text()


def test_shares_of_two_classes(labels):
    y, drawn = parts(labels)
    ward = np.resize(["a", "b", "c"], 60)
    ax = plots.ppc(labels, by=ward)
    bars, points = ax.containers
    assert ax.get_ylabel() == "P(y = yes)"
    for k, level in enumerate("abc"):
        assert bars[k].get_height() == y[ward == level].mean()
        wanted = np.quantile(drawn[:, ward == level].mean(axis=1), [0.5, 0.05, 0.95])
        np.testing.assert_allclose([part[k] for part in interval_of(points)], wanted)
    alone = plots.ppc(labels)
    assert [tick.get_text() for tick in alone.get_xticklabels()] == ["no", "yes"]
    assert [bar.get_height() for bar in alone.containers[0]] == [np.sum(y == 0), np.sum(y == 1)]


def test_densities_are_those_of_so_many_data_sets():
    rng = np.random.default_rng(0)
    post = made(rng.normal(size=400), rng.normal(size=(2, 100, 400)))
    ax = plots.ppc(post, draws=12)
    lines = [line for line in ax.lines if len(line.get_xdata())]
    assert len(lines) == 13
    assert "replicated (12 of 200 data sets)" in [text.get_text() for text in ax.get_legend().get_texts()]
    x, height = lines[-1].get_data()
    assert np.isclose(np.sum(height) * (x[1] - x[0]), 1.0, atol=2e-3)
    kernel = np.mean(norm.pdf(x[:, None], parts(post)[0], _width(parts(post)[0])), axis=1)
    assert np.abs(height - kernel).max() < 5e-3  # of a fine histogram of 256 cells against every kernel
    assert ax.get_ylabel() == "Density"


def _width(y):
    return 0.9 * min(y.std(), np.subtract(*np.quantile(y, [0.75, 0.25])) / 1.34) * len(y) ** -0.2


def test_hanging_bars(counts):
    y, drawn = parts(counts)
    ax = plots.rootogram(counts)
    band, bars = ax.containers
    size = len(bars)
    each = np.stack([np.bincount(np.minimum(one, size), minlength=size + 1)[:size] for one in drawn])
    expected, observed = np.sqrt(each.mean(axis=0)), np.sqrt(np.bincount(y, minlength=size))
    np.testing.assert_allclose([bar.get_y() for bar in bars], expected - observed)
    np.testing.assert_allclose([bar.get_y() + bar.get_height() for bar in bars], expected)
    low = np.quantile(expected - np.sqrt(each), 0.05, axis=0)
    np.testing.assert_allclose([bar.get_y() for bar in band], low)


def test_transforms_of_rows_left_out_are_those_of_the_normal_law():
    """Normal numbers, flat prior of their mean: a row left out has the law N(mean of the others, 1 + 1/(n − 1))."""
    rng, n, draws = np.random.default_rng(0), 25, 20_000
    y = rng.normal(size=n)
    mean = y.mean() + rng.normal(size=(1, draws)) / np.sqrt(n)
    drawn = mean[..., None] + rng.normal(size=(1, draws, n))
    post = made(y, drawn, norm.logpdf(y, mean[..., None]))
    ax = plots.loo_pit(post)
    place = ax.lines[1].get_xdata()[1:-1:2]
    others = (y.sum() - y) / (n - 1)
    exact = np.sort(norm.cdf(y, others, np.sqrt(1 + 1 / (n - 1))))
    # Five standard errors of a share of 20,000 draws, halved for the weights: a false alarm in 10⁴ runs at most.
    assert np.abs(place - exact).max() < 5 * np.sqrt(0.25 / (draws / 2))
    inside = norm.cdf(y, y.mean(), np.sqrt(1 + 1 / n))
    assert np.abs(place - np.sort(inside)).max() > np.abs(place - exact).max()


def test_the_band_holds_whole_lines():
    """Of 2,000 uniform samples 90 % are inside, within five standard errors, two of them of the band's own level."""
    rng, z = np.random.default_rng(1), np.linspace(0, 1, 101)[1:-1]
    low, high = _uniform_band(80, z, 0.9, np.random.default_rng(0))
    share = np.mean(np.sort(rng.random((2000, 80)), axis=1)[:, None, :] <= z[:, None], axis=2)
    inside = np.mean(np.all((share >= low - 1e-12) & (share <= high + 1e-12), axis=1))
    assert abs(inside - 0.9) < 5 * np.sqrt(2 * 0.09 / 2000) + 0.01  # the levels of 80 rows are coarse


@pytest.mark.slow
def test_counts_are_randomised_and_wrong_models_leave_the_uniform_band():
    rng = np.random.default_rng(3)  # a right model leaves the band in one run of ten
    right, wide = (rng.poisson(3, 300), rng.negative_binomial(1, 0.25, 300))
    drawn, flat = rng.poisson(3, (1, 500, 300)), np.zeros((1, 500, 300)) + rng.normal(size=(1, 500, 1)) * 1e-3
    outside = []
    for y in (right, wide):
        ax = plots.loo_pit(made(y, drawn, flat))
        place, gap = ax.lines[1].get_data()
        path = ax.collections[0].get_paths()[0].vertices
        upper = np.interp(place, *_upper(path))
        outside.append(np.mean(np.abs(gap) > upper + 1e-9))
        if y is right:
            assert len(set(place[1:-1])) == 300  # whole numbers would share their transforms
    assert outside[0] < 0.02
    assert outside[1] > 0.2
    assert plots.loo_pit(made(right, drawn, flat), seed=1).lines[1].get_xdata()[5] != place[5]


def _upper(vertices):
    """Largest height of a polygon at each place."""
    x = np.unique(vertices[:, 0])
    return x, np.array([vertices[vertices[:, 0] == one, 1].max() for one in x])


@pytest.mark.slow
def test_calibration_of_a_posterior(labels):
    y, drawn = parts(labels)
    loglik = bd.groups.dataset(labels, "log_likelihood")["y"].values.reshape(-1, 60)
    ax = plots.reliability_curve(labels, bins=4)
    weight = np.exp(-loglik)
    chance = np.sum(weight * drawn, axis=0) / weight.sum(axis=0)
    points = ax.containers[0].lines[0].get_xydata()
    place = np.clip((chance * 4).astype(int), 0, 3)
    expected = [[chance[place == k].mean(), y[place == k].mean()] for k in np.unique(place)]
    np.testing.assert_allclose(points, expected, atol=1e-3)  # the weights are nearly equal, and hardly smoothed
    assert ax.child_axes[0].get_xlabel() == "Predicted probability of y = yes, each row left out"
    swapped = plots.reliability_curve(labels, positive="no", bins=4)
    np.testing.assert_allclose(swapped.containers[0].lines[0].get_xydata()[::-1], 1 - points, atol=1e-9)


@pytest.mark.parametrize(("shares", "positive"), [([0.2, 0.8], "a"), ([0.2, 0.8], "b"), ([0.1, 0.2, 0.7], "b")])
def test_the_band_of_a_posterior_is_of_the_class_of_its_points(shares, positive):
    """All rows are in one bin, whose frequencies are those of the data sets."""
    rng, n, size = np.random.default_rng(2), 60, len(shares)
    y, drawn = rng.choice(size, n, p=shares), rng.choice(size, (2, 100, n), p=shares)
    post = made(y, drawn, rng.uniform(-0.71, -0.7, (2, 100, n)), classes="abc"[:size])
    band = plots.reliability_curve(post, positive=positive, predictive=post, bins=2).collections[0].get_paths()[0]
    event = np.mean(drawn.reshape(-1, n) == "abc".index(positive), axis=1)
    ends = band.vertices[:, 1]
    np.testing.assert_allclose([ends.min(), ends.max()], np.quantile(event, [0.05, 0.95]))


@pytest.mark.slow
def test_names_are_those_of_the_formula():
    pytest.importorskip("formulaic")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.normal(size=40), "ill": np.where(rng.random(40) < 0.5, "yes", "no")})
    model = bd.Model(rates=bd.Fixed(0.0))
    with pytest.warns(bd.MixingWarning):
        post = bd.sample(model, "ill ~ age", table, draws=20, tune=20, chains=2, progress=False, log_likelihood=True)
    post = bd.posterior_predictive(post, table)
    assert plots.ppc(post).get_xlabel() == "ill"
    assert plots.ppc(post, by=table["age"] > 0).get_ylabel() == "P(ill = yes)"
    with pytest.warns(bd.InfluenceWarning):
        assert plots.loo_pit(post).get_xlabel() == "Probability of a smaller class of ill, each row left out"


def test_refusals(counts, labels):
    numbers = made(np.zeros(4), np.zeros((1, 5, 4)))
    with pytest.raises(ValueError, match=r"add it by bd.posterior_predictive\(post, X\)"):
        plots.ppc(bd.groups.assemble({"observed_data": xr.Dataset({"y": ("obs_id", [0, 1])})}))
    with pytest.raises(ValueError, match="add it by bd.log_likelihood"):
        plots.loo_pit(counts)
    with pytest.raises(ValueError, match="kind: numbers have no bars"):
        plots.ppc(numbers, kind="bars")
    with pytest.raises(ValueError, match="kind: classes have no density"):
        plots.ppc(labels, kind="density")
    with pytest.raises(ValueError, match="by: 70 different values, at most 12"):
        plots.ppc(counts, by=np.arange(70))
    for post in (numbers, labels):
        with pytest.raises(ValueError, match="a rootogram needs counts"):
            plots.rootogram(post)
    y = np.array([0, 1, 2])
    three = made(y, np.zeros((1, 5, 3), dtype=int), np.zeros((1, 5, 3)), classes=["a", "b", "c"])
    with pytest.raises(ValueError, match="3 classes have no order"):
        plots.loo_pit(three)
    with pytest.raises(ValueError, match="expected a posterior of classes, got one of numbers"):
        plots.reliability_curve(counts)
    with pytest.raises(ValueError, match=r"the class '1', got indices up to 2 of the classes \['a', 'b', 'c'\]"):
        plots.reliability_curve([0, 1, 1], [0.1, 0.2, 0.3], predictive=made(y, y[None, None], classes=["a", "b", "c"]))


def test_axes_of_the_caller(counts):
    _, own = plt.subplots()
    assert plots.ppc(counts, ax=own) is own
    assert plots.rootogram(counts, ax=own) is own
    figure = plt.figure(layout="constrained")
    assert plots.ppc(counts, by=np.resize([0, 1], 70), figure=figure)[0].figure is figure
