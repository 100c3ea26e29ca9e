"""Plots: what they show, on what axes, and what they refuse."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

import bayesdrop as bd
from bayesdrop import plots


@pytest.fixture(scope="module")
def problem():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 6))
    y = np.where(X @ np.array([2.0, -1.5, 1.0, 0.5, 0.0, 0.0]) + generator.logistic(size=200) > 0, "yes", "no")
    names = [f"measure {d}" for d in range(6)]
    return bd.fit(bd.Model(), X, y, feature_names=names)


def _posterior(names, dim="feature", chains=4, draws=100, shift=0.0):
    generator = np.random.default_rng(1)
    centre = np.linspace(0.2, 0.8, len(names))
    rate = generator.beta(20 * centre, 20 * (1 - centre), size=(chains, draws, len(names)))
    rate[0] = np.clip(rate[0] + shift, 0, 1)
    intercept = generator.normal(size=(chains, draws))
    data = {"rate": (("chain", "draw", dim), rate), "intercept": (("chain", "draw"), intercept)}
    return xr.Dataset(data, coords={dim: names})


def _names(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def test_forest_sorts_and_shows_every_series(problem):
    post = _posterior(problem.feature_names)
    ax = plots.rates_forest(post, problem)
    assert _names(ax) == problem.feature_names  # the posterior medians rise in this order
    assert len(ax.get_legend().get_texts()) == 3
    assert ax.get_xlim() == (0.0, 1.0)
    alone = plots.rates_forest(fit=problem)
    modes = problem.rate_posterior.mode
    assert _names(alone) == [problem.feature_names[d] for d in np.argsort(modes, kind="stable")]


def test_forest_draws_the_intervals_that_it_names(problem):
    ax = plots.rates_forest(fit=problem, probability=0.5)
    low, high = problem.rate_posterior.interval(0.5)
    drawn = np.array([segment[:, 0] for segment in ax.collections[0].get_segments()])
    np.testing.assert_allclose(np.sort(drawn[:, 0]), np.sort(low))
    np.testing.assert_allclose(np.sort(drawn[:, 1]), np.sort(high))


def test_forest_of_wide_data_shows_the_ends():
    names = [f"word {d}" for d in range(500)]
    post = _posterior(names, draws=20)
    order = np.argsort(np.median(post["rate"].values, axis=(0, 1)), kind="stable")
    shown = _names(plots.rates_forest(post))
    assert len(shown) == 41
    assert shown[20] == "⋮ 460 more"
    ends = [names[d] for d in order[[0, 1, -2, -1]]]
    assert _names(plots.rates_forest(post, top=2)) == [*ends[:2], "⋮ 496 more", *ends[2:]]


@pytest.mark.parametrize("wrap", ["arviz", "dataset"])
def test_posterior_comes_as_arviz_object_or_dataset(wrap):
    post = _posterior(["a", "b"], dim="group")
    if wrap == "arviz":
        import arviz as az

        old = int(az.__version__.split(".")[0]) < 1
        post = az.InferenceData(posterior=post) if old else xr.DataTree.from_dict({"posterior": post})
    ax = plots.rates_forest(post)
    assert _names(ax) == ["a", "b"]
    assert ax.get_ylabel() == "Group"
    assert len(plots.ranks(post)) == 2


@pytest.mark.parametrize("bare", [False, True], ids=["with priors stored", "description alone"])
@pytest.mark.parametrize(
    ("rates", "shapes"),
    [
        (None, (1, 1)),
        (bd.PerFeature(), (1, 1)),
        (bd.PerFeature(bd.Beta(2, 5)), (2, 5)),
        (bd.PerFeature(bd.Beta.from_mode(0.25, relative_strength=0.5)), (1 + 0.125 * 40, 1 + 0.375 * 40)),
        (bd.Hierarchical(["one", "two"]), None),
    ],
    ids=["default", "flat", "given", "relative", "hierarchical"],
)
def test_forest_of_draws_shows_their_prior(rates, shapes, bare):
    """Rates by default have a prior too. Relative to counts it is known where the numbers are stored."""
    from scipy.stats import beta

    from bayesdrop.description import attributes

    attrs = attributes(bd.Model(rates=rates))
    draws = _posterior(["a", "b"]).assign_attrs(attrs)
    constant = xr.Dataset({f"rate_prior_{n}": ("feature", [v, v]) for n, v in zip("ab", shapes or (), strict=False)})
    post = draws if bare else bd.groups.assemble({"posterior": draws, "constant_data": constant}, attrs)
    ax = plots.rates_forest(post, probability=0.8)
    if shapes is None or (bare and shapes[0] > 2):
        assert len(ax.patches) == 0
        return
    expected = beta.interval(0.8, *map(float, shapes))
    assert len(ax.patches) == 2
    for bar in ax.patches:
        np.testing.assert_allclose([bar.get_x(), bar.get_x() + bar.get_width()], expected, rtol=1e-12)


def test_forest_says_what_it_cannot_show(problem):
    with pytest.raises(ValueError, match="got neither"):
        plots.rates_forest()
    fixed = bd.fit(bd.Model(rates=bd.Fixed(0.3)), np.eye(4), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="fixed rates"):
        plots.rates_forest(fit=fixed)
    with pytest.raises(ValueError, match="different rates"):
        plots.rates_forest(_posterior(["other"]), problem)


def test_rate_against_weight_labels_do_not_overlap(problem):
    ax = plots.rate_against_weight(problem, labels=6)
    points = np.concatenate([line.get_xydata() for line in ax.lines if line.get_marker() in "^v"])
    assert {tuple(row) for row in points} == set(zip(problem.weight, problem.rates, strict=True))
    boxes = [text.get_window_extent() for text in ax.texts]
    assert boxes
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])
    assert problem.feature_names[int(np.argmax(np.abs(problem.weight)))] in [text.get_text() for text in ax.texts]


def test_a_regression_has_signs_and_no_classes(problem):
    fit = bd.fit(bd.Model(bd.Squared(), rates=bd.Fixed(0.3)), [[0.0, 1.0], [1.0, 3.0], [2.0, 0.0]], [1.0, 0.0, 2.0])
    assert sorted(np.sign(fit.weight)) == [-1, 1]
    legend = plots.rate_against_weight(fit).get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["positive weight", "negative weight"]
    legend = plots.rate_against_weight(problem).get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["supports yes", "supports no"]


def test_objective_trace_marks_where_it_rose(problem):
    from dataclasses import replace

    ax = plots.objective_trace(problem)
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), problem.objective_trace)
    risen = plots.objective_trace(replace(problem, objective_trace=np.array([5.0, 3.0, 4.0, 2.0])))
    assert risen.lines[2].get_xydata().tolist() == [[3.0, 4.0]]


def test_given_axes_are_used(problem):
    figure, axes = plt.subplots(1, 3)
    assert plots.rates_forest(fit=problem, ax=axes[0]) is axes[0]
    assert plots.rate_against_weight(problem, ax=axes[1]) is axes[1]
    assert plots.objective_trace(problem, ax=axes[2]) is axes[2]
    own = plt.figure()
    assert plots.ranks(_posterior(["a", "b"]), figure=own)[0].figure is own


def test_ranks_are_flat_for_chains_that_agree_and_not_for_others():
    bins, draws = 10, 1000

    def heights(shift):
        grid = plots.ranks(_posterior(["a"], draws=draws, shift=shift), bins=bins)
        return np.array([patch.get_data().values for patch in grid[0].patches])

    flat, leaning = heights(0.0), heights(0.2)
    np.testing.assert_allclose(flat.mean(axis=1), 1.0)
    np.testing.assert_allclose(flat.mean(axis=0), 1.0)  # every rank is taken once
    # 40 independent bars with standard deviation 0.095
    assert np.abs(flat - 1).max() < 0.5
    assert np.abs(leaning - 1).max() > 1


def test_ranks_shows_the_worst_first_and_scalars():
    post = _posterior(["fine", "stuck"], draws=200)
    post["rate"][0, :, 1] += 0.3
    grid = plots.ranks(post, top=1)
    assert grid[0].get_title().startswith("stuck")
    assert plots.ranks(post, "intercept")[0].get_title().startswith("intercept")


@pytest.mark.parametrize(("chains", "draws"), [(1, 100), (4, 10)])
def test_ranks_of_too_few_draws(chains, draws):
    with pytest.raises(ValueError, match="at least two chains"):
        plots.ranks(_posterior(["a"], chains=chains, draws=draws))


def test_a_posterior_without_features_has_neither_rates_nor_weights_to_draw():
    empty = _posterior([])
    for draw in (plots.ranks, plots.rates_forest):
        with pytest.raises(ValueError, match="var: 'rate' has no entries, for the model has no features"):
            draw(empty)
