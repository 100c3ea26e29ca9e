"""Draws are read by name: features, groups, classes and levels of a posterior may be sorted before it is used."""

import re
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest

import bayesdrop as bd
from bayesdrop.posterior.arviz_groups.groups import assemble, dataset, group_names

DIMS = ("feature", "group", "class", "weight_group", "g|level")
GENERATOR = np.random.default_rng(0)
N = 40
TABLE = pd.DataFrame(GENERATOR.normal(size=(N, 3)) * [1.0, 5.0, 0.2] + [0.0, 2.0, -1.0], columns=["b", "c", "a"])
TABLE["g"] = np.array(["u", "w", "v", "x"])[np.arange(N) % 4]
TABLE["y"] = np.where(TABLE["b"] + TABLE["g"].isin(["u", "w"]) + GENERATOR.normal(size=N) > 0.5, "yes", "no")
TABLE["k"] = np.array(["red", "green", "blue"])[np.arange(N) % 3]
X = TABLE[["b", "c", "a"]]
GROUPED = bd.Model(
    noise=bd.Dropout(centre="mean"), rates=bd.PerGroup(["second", "first", "second"], bd.Beta(1.0, 3.0)),
    weight_prior=bd.Normal(2.0),
)  # fmt: skip

# Rows, their responses, and the model.
CASES = {
    "frame": (X, TABLE["y"], GROUPED),
    "learnt scales": (
        X.to_numpy(), TABLE["y"],
        bd.Model(rates=bd.Fixed(0.0), weight_prior=bd.Normal(bd.HalfNormal(1.0), groups=["second", "first", "second"])),
    ),
    "classes": (X, TABLE["k"], bd.Model(bd.Softmax(), rates=bd.PerFeature(bd.Beta(1.0, 3.0)))),
    "random terms": ("y ~ b + c + (1 | g)", TABLE, bd.Model(rates=bd.PerFeature(bd.Beta(1.0, 3.0)))),
}  # fmt: skip


@cache
def sampled(case):
    first, second, model = CASES[case]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few draws
        return bd.sample(
            model, first, second, method=bd.Gibbs(joint_moves=0), draws=6, tune=6, chains=2, progress=False
        )


@pytest.fixture(scope="module", params=CASES)
def case(request):
    first, second, _ = CASES[request.param]
    rows, y = (TABLE, None) if isinstance(first, str) else (first, second)
    return request.param, sampled(request.param), rows, y


def each_group(post, change, only=None):
    """The posterior with some of its groups changed."""
    groups = {name: dataset(post, name) for name in group_names(post)}
    return assemble({n: change(g) if only in (None, n) else g for n, g in groups.items()}, post.attrs)


def backwards(group):
    return group.isel({dim: slice(None, None, -1) for dim in DIMS if dim in group.dims})


def everything(post, rows, y):
    """All that is computed from draws and rows, as arrays by name."""
    data = () if y is None else (y,)
    found = {"predict": bd.predict(post, rows).mean, "elpd": bd.elpd(post, rows, *data).pointwise}
    found["simulated"] = dataset(bd.posterior_predictive(post, rows, draws=3), "posterior_predictive")["y"].values
    table = bd.weights_table(post)
    found["table"] = table.select_dtypes("number").sort_index().to_numpy()
    if "Softmax" not in str(post.attrs["model"]):
        prior = bd.log_prior(post)
        found |= {name: part.values for name, part in dataset(prior, "log_prior").items()}
    diagnosis = bd.diagnose(post)
    found["undetermined"] = np.array(sorted(diagnosis.undetermined))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("only", ["posterior", None])
def test_the_order_of_a_posterior_changes_nothing(case, only):
    _, post, rows, y = case
    expected = everything(post, rows, y)
    found = everything(each_group(post, backwards, only), rows, y)
    assert set(found) == set(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


def test_a_missing_feature_group_class_or_level_is_named(case):
    name, post, rows, _ = case
    posterior = dataset(post, "posterior")
    for dim in set(DIMS) & set(posterior.dims):
        lost = str(posterior[dim].values[0])
        few = each_group(post, lambda group, dim=dim: group.isel({dim: slice(1, None)}), "posterior")
        words = rf"post: expected .* on '{re.escape(dim)}'.*missing: \['{lost}'\]"
        with pytest.raises(ValueError, match=words):
            bd.predict(few, rows)


def test_a_feature_that_stands_twice_is_refused():
    post = sampled("frame")
    twice = each_group(post, lambda group: group.isel(feature=[0, 0, 1, 2]), "posterior")
    with pytest.raises(ValueError, match=r"post: expected .* on 'feature', each once.*repeated: \['b'\]"):
        bd.predict(twice, X)


@pytest.mark.slow
def test_reweighted_draws_do_not_depend_on_the_order():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        method = bd.HMC(correct=False)
        post = bd.sample(GROUPED, X, TABLE["y"], method=method, draws=20, tune=20, chains=2, progress=False)
        one, other = (bd.reweight(tree, X, TABLE["y"]) for tree in (post, each_group(post, backwards)))
    assert dataset(one, "posterior").equals(dataset(other, "posterior"))


def test_the_order_travels_in_a_file(tmp_path):
    post = sampled("random terms")
    bd.groups.save(each_group(post, backwards), tmp_path / "post.nc")
    found = bd.predict(bd.groups.load(tmp_path / "post.nc"), TABLE)
    np.testing.assert_array_equal(found.mean, bd.predict(post, TABLE).mean)


def test_a_fit_is_read_by_name():
    model = bd.Model(rates=bd.Fixed([0.1, 0.5, 0.3]))
    fit = bd.fit(model, "y ~ b + c + a", TABLE)
    again = bd.Fit.from_dataset(fit.to_dataset().sortby("feature"))
    np.testing.assert_array_equal(bd.predict(again, TABLE).mean, bd.predict(fit, TABLE).mean)


def test_forests_match_fit_and_prior_by_name():
    """Bars of the prior and diamonds of a fit stand where the draws of the same rate stand."""
    from matplotlib import pyplot as plt

    post, fit = sampled("frame"), bd.fit(GROUPED, X, TABLE["y"])
    pictures = []
    for tree in (post, each_group(post, backwards)):
        for given in ({}, {"fit": fit}):
            axes = bd.plots.rates_forest(tree, **given)
            names = [label.get_text() for label in axes.get_yticklabels()]
            lines = [dict(zip(names, line.get_xdata(), strict=True)) for line in axes.lines]
            bars = dict(zip(names, ((bar.get_x(), bar.get_width()) for bar in axes.patches), strict=True))
            pictures.append((lines, bars))
            plt.close(axes.figure)
    assert pictures[0] == pictures[2]
    assert pictures[1] == pictures[3]
