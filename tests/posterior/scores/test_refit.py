"""Leave-one-out scores of rows of a large Pareto k, which are sampled without: against closed forms and by hand."""

import json

import jax
import numpy as np
import pytest
from scipy.stats import norm

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


@pytest.mark.parametrize(
    ("method", "weight"),
    [
        (bd.Gibbs(), None),
        (bd.HMC(n_leapfrog_steps=8), RNG.integers(1, 3, 12)),
        pytest.param(bd.NUTS(), None, marks=pytest.mark.slow),
    ],
)
@pytest.mark.filterwarnings("ignore::bayesdrop.PseudoLikelihoodWarning")
def test_refitted_rows_against_the_conjugate_posterior(method, weight):
    """Their densities ``N(x'm, 1 + x'Vx)`` to 5σ of 1,000 free draws, a false alarm in 10⁵; other rows keep theirs."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):  # NumPyro's own code needs both
        post = bd.sample(MODEL, X, Y, method=method, sample_weight=weight, **OPTIONS)
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
    power = np.ones(12) if weight is None else weight
    for row in rows:
        train = np.delete(np.arange(12), row)
        V = np.linalg.inv(np.eye(2) + (X[train] * power[train, None]).T @ X[train])
        mean, var = X[row] @ V @ X[train].T @ (power[train] * Y[train]), X[row] @ V @ X[row]
        score = mean + np.sqrt(var) * np.random.default_rng(0).normal(size=1_000_000)
        density = norm.pdf(Y[row], score) ** power[row]
        error = density.std() / density.mean() / np.sqrt(1000)
        assert abs(after[row] - np.log(density.mean())) < 5 * error, (row, after[row], np.log(density.mean()))


@pytest.mark.filterwarnings("ignore::bayesdrop.MixingWarning", "ignore::bayesdrop.InfluenceWarning")
def test_a_refit_is_the_run_without_the_row():
    """The same draws as of ``bd.sample`` without it; an offset and pairs of counts as any others."""
    counts = np.column_stack([np.arange(12) % 5, 6 - np.arange(12) % 5])
    offset = np.linspace(-1, 1, 12)
    model = bd.Model(bd.Binomial(), rates=bd.Fixed(0.2), C=3.0)
    options = {**OPTIONS, "draws": 60, "tune": 30, "seed": 7, "method": bd.Gibbs(joint_moves=1)}
    post = bd.sample(model, X, counts, offset=offset, **options)
    with pytest.warns(bd.PseudoLikelihoodWarning):
        scores, _, rows = _parts(bd.loo(post, X, counts, refit=True))
    assert rows
    for row in rows[:2]:
        rest = np.delete(np.arange(12), row)
        again = bd.sample(model, X[rest], counts[rest], offset=offset[rest], **options)
        with pytest.warns(bd.PseudoLikelihoodWarning):
            expected = bd.elpd(again, X[[row]], counts[[row]], offset=offset[[row]]).pointwise[0]
        assert scores[row] == pytest.approx(expected, rel=1e-6)


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
    with pytest.raises(ValueError, match="give the sampler, as in method"):
        bd.loo(foreign, X, Y, refit=True)
    assert json.loads(group.attrs["settings"])["joint_moves"] == 2
