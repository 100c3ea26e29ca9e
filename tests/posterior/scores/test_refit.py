"""Leave-one-out scores of rows of a large Pareto k are those of runs without them."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import binom

import bayesdrop as bd

RNG = np.random.default_rng(4)
X = RNG.normal(size=(12, 2))
X[3] = 12.0, -10.0
Y = X @ [0.5, -0.5] + RNG.normal(size=12)
Y[3] = 3.0
MODEL = bd.Model(bd.Squared(variance=1.0), rates=bd.Fixed(0.0), fit_intercept=False)
OPTIONS = {"draws": 1000, "tune": 200, "chains": 2, "progress": False, "log_likelihood": True}


def _parts(result):
    scores = result.elpd_i if hasattr(result, "elpd_i") else result.loo_i
    return np.asarray(scores), np.asarray(result.pareto_k), result.pareto_k.attrs.get("refitted")


def _sum(result):
    return result.elpd if hasattr(result, "elpd") else result.elpd_loo


@pytest.mark.slow
def test_rows_of_a_large_k_are_refitted_and_others_keep_their_scores():
    post = bd.sample(MODEL, X, Y, method=bd.Gibbs(), **OPTIONS)
    with pytest.warns(bd.InfluenceWarning, match="refit=True"):
        before, k, none = _parts(bd.loo(post))
    result = bd.loo(post, X, Y, refit=True)
    after, k_after, rows = _parts(result)
    assert none is None
    assert 3 in rows
    assert rows == np.flatnonzero(k > 0.7).tolist()
    others = np.setdiff1d(np.arange(12), rows)
    np.testing.assert_array_equal(after[others], before[others])
    assert np.all(k_after[rows] == 0)
    assert _sum(result) == pytest.approx(after.sum())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayesdrop.MixingWarning", "ignore::bayesdrop.InfluenceWarning")
def test_a_refit_is_the_run_without_the_row():
    """The same draws as of ``bd.sample`` without it; weights, an offset and pairs of counts as any others."""
    counts = np.column_stack([np.arange(12) % 5, 6 - np.arange(12) % 5])
    offset, weight = np.linspace(-1, 1, 12), 1.0 + np.arange(12) % 2
    model = bd.Model(bd.Binomial(), rates=bd.Fixed(0.0), C=3.0)
    options = {**OPTIONS, "draws": 60, "tune": 30, "seed": 7, "method": bd.Gibbs()}
    post = bd.sample(model, X, counts, offset=offset, sample_weight=weight, **options)
    with pytest.warns(bd.PseudoLikelihoodWarning):
        scores, _, rows = _parts(bd.loo(post, X, counts, refit=True))
    assert rows
    for row in rows[:2]:
        rest = np.delete(np.arange(12), row)
        given = {"offset": offset[rest], "sample_weight": weight[rest]}
        again = bd.sample(model, X[rest], counts[rest], **given, **options)
        drawn = bd.groups.dataset(again, "posterior")
        score = (drawn["weight"].values @ X[row] + drawn["intercept"].values).ravel().astype(float) + offset[row]
        logs = weight[row] * 3.0 * binom.logpmf(counts[row, 0], 6, expit(score))
        assert scores[row] == pytest.approx(logsumexp(logs) - np.log(logs.size), rel=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayesdrop.MixingWarning")
def test_a_refit_takes_the_table_that_was_sampled():
    table = pd.DataFrame(X, columns=["a", "b"]).assign(y=Y)
    table.loc[7, "a"] = np.nan
    options = {**OPTIONS, "draws": 60, "tune": 30, "method": bd.Gibbs()}
    post = bd.sample(MODEL, "y ~ 0 + a + b", table, dropna=True, **options)
    for y in (None, table.y):
        found, expected = (_parts(bd.loo(post, *rows, refit=True)) for rows in ((table, y), (table.dropna(), None)))
        assert 3 in found[2]
        assert found[2] == expected[2]
        np.testing.assert_array_equal(found[0], expected[0])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayesdrop.MixingWarning", "ignore::bayesdrop.NarrowIntervalsWarning")
@pytest.mark.filterwarnings("ignore::bayesdrop.InfluenceWarning")
@pytest.mark.parametrize("kind", ["variational", "projected"])
def test_a_posterior_that_was_not_sampled_takes_a_sampler(kind):
    """With the default warm-up of the sampler."""
    options = {**OPTIONS, "draws": 60, "log_likelihood": False, "method": bd.Gibbs()}
    if kind == "variational":
        post = bd.variational(MODEL, X, Y).to_arviz(draws=60)
    else:
        post = bd.project(bd.sample(MODEL, X, Y, **options), X, sizes=2, cv=None, draws=120).posterior(2)
    names = bd.groups.dataset(post, "posterior")["feature"].values.tolist()
    columns = X[:, [int(name[1:]) for name in names]]
    post = bd.log_likelihood(post, columns, Y)
    with pytest.raises(ValueError, match="give bd.loo the sampler, as in method"):
        bd.loo(post, columns, Y, refit=True)
    scores, _, rows = _parts(bd.loo(post, columns, Y, refit=True, method=bd.Gibbs()))
    rest = np.delete(np.arange(12), rows[0])
    chains, draws = (bd.groups.dataset(post, "posterior").sizes[name] for name in ("chain", "draw"))
    options |= {"chains": chains, "draws": draws, "tune": bd.Gibbs().warm_up, "feature_names": names}
    again = bd.sample(MODEL, columns[rest], Y[rest], **options)
    expected = bd.elpd(again, columns[rows[:1]], Y[rows[:1]]).elpd
    assert scores[rows[0]] == pytest.approx(expected, rel=1e-6)


@pytest.mark.filterwarnings("ignore::bayesdrop.MixingWarning", "ignore::bayesdrop.InfluenceWarning")
def test_what_a_refit_refuses():
    post = bd.sample(MODEL, X, Y, method=bd.Gibbs(), **{**OPTIONS, "draws": 20, "tune": 10})
    with pytest.raises(TypeError, match="X: refit=True expects the rows that were sampled"):
        bd.loo(post, refit=True)
    with pytest.raises(TypeError, match="y: refit=True expects the rows that were sampled"):
        bd.loo(post, X, refit=True)
    with pytest.raises(ValueError, match="y: expected what was sampled"):
        bd.loo(post, X, Y + 1, refit=True)
    with pytest.raises(TypeError, match="refit"):
        bd.loo(post, X, Y, refit="yes")
    group = bd.groups.dataset(post, "posterior")
    group.attrs["method"] = "__import__('os').system('false')"
    foreign = bd.groups.assemble({name: bd.groups.dataset(post, name) for name in bd.groups.group_names(post)}
                                 | {"posterior": group}, group.attrs)  # fmt: skip
    with pytest.raises(ValueError, match="give bd.loo the sampler, as in method"):
        bd.loo(foreign, X, Y, refit=True)
    assert json.loads(group.attrs["settings"])["joint_moves"] == 2
