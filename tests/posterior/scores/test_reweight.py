"""Runs that integrate masks own up to their error, and weights mend them: against the posterior with all masks summed.

The reference is importance sampling from a Student law fitted in four rounds, on a density that is written out here.
"""

import inspect
import itertools
import warnings

import jax
import numpy as np
import pytest
import xarray as xr

import bayesdrop as bd
from bayesdrop._arviz import arviz
from bayesdrop.description import attributes
from bayesdrop.posterior.arviz_groups.groups import dataset
from bayesdrop.posterior.draws.draws import draws_of
from bayesdrop.posterior.scores.approximation_error import errors_of
from bayesdrop.warnings import ApproximationWarning, MixingWarning

MASKS = np.array(list(itertools.product((0, 1), repeat=3)))
DRAWS = 1500


def rows(n=60):
    rng = np.random.default_rng(0)
    X, kept = rng.normal(size=(n, 3)), rng.random((n, 3)) >= 0.35
    return X, np.where((X * kept) @ np.array([2.0, -2.0, 2.0]) + 0.5 * rng.logistic(size=n) > 0, 1, -1)


def run(C, **options):
    X, y = rows()
    options = {"chains": 2, "draws": DRAWS, "method": bd.HMC(correct=False), "progress": False} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixingWarning)
        return bd.sample(bd.Model(bd.Hinge(), rates=bd.Shared(), C=C), X, y, **options)


@pytest.fixture(scope="module")
def post():
    """Hinge, shared rate, C = 2: the rate of the approximation is 1.6 posterior standard deviations off."""
    with pytest.warns(ApproximationWarning, match="this is another posterior. Correct it by bd.reweight"):
        return run(2.0)


@pytest.fixture(scope="module")
def mended(post):
    return bd.reweight(post, *rows())


def log_likelihood(weight, intercept, rate, X, y, C):
    """Σ_i log Σ_α p(α | η) exp{−C max(0, 1 − y_i s_i(α))} of draws (S, 3), (S,), (S,)."""
    total = 0
    for mask in MASKS:
        score = (weight * mask) @ X.T + intercept[:, None]
        chance = (1 - rate) ** mask.sum() * rate ** (3 - mask.sum())
        total = total + chance[:, None] * np.exp(-C * np.maximum(1 - y * score, 0))
    return np.log(total).sum(axis=1)


def reference(C, size=40_000):
    """Means and standard deviations of w, b and the shared rate, and the effective number of draws behind them."""
    X, y = rows()
    rng = np.random.default_rng(0)
    mean, covariance = np.array([1.5, -1.5, 1.5, 0.0, -0.8]), np.diag([1.0, 1.0, 1.0, 0.5, 0.5])
    for count in (4000, 4000, 4000, size):
        z, mixing = rng.standard_normal((count, 5)), rng.chisquare(6, count) / 6
        theta = mean + 1.2 * (z / np.sqrt(mixing)[:, None]) @ np.linalg.cholesky(covariance).T
        proposal = -5.5 * np.log1p(np.sum(z**2, axis=1) / mixing / 6)
        w, b, rate = theta[:, :3], theta[:, 3], 1 / (1 + np.exp(-theta[:, 4]))
        prior = -0.5 * np.sum(w**2, axis=1) + np.log(rate) + np.log1p(-rate)  # the last two: flat on the rate
        ratio = (
            prior
            - proposal
            + np.concatenate(
                [log_likelihood(w[part], b[part], rate[part], X, y, C) for part in np.array_split(np.arange(count), 10)]
            )
        )
        weight = np.exp(ratio - ratio.max())
        weight /= weight.sum()
        mean = weight @ theta
        covariance = (weight[:, None] * (theta - mean)).T @ (theta - mean) + 1e-3 * np.eye(5)
    values = np.column_stack([w, b, rate])
    mean = weight @ values
    return mean, np.sqrt(weight @ (values - mean) ** 2), 1 / np.sum(weight**2)


def summary(tree):
    """Means of w, b and the rate, and their effective sample sizes."""
    group = dataset(tree, "posterior")
    sizes = arviz().ess(group, method="mean")
    pick = lambda d: np.append(d["weight"].values, [d["intercept"].item(), d["rate"].item()])  # noqa: E731
    return pick(group.mean(("chain", "draw"))), pick(sizes)


@pytest.mark.slow
def test_weights_mend_what_the_approximation_got_wrong(post, mended):
    """Five numbers, each within 4.5 standard errors (normal: a false alarm of 3.4e-5 in all)."""
    mean, sd, size = reference(2.0)
    assert size > 10_000
    wrong, _ = summary(post)
    right, sizes = summary(mended)
    assert (wrong[4] - mean[4]) / sd[4] > 1  # .41 for .30
    assert np.all(np.abs(right - mean) < 4.5 * sd * np.sqrt(1 / sizes + 1 / size))
    assert abs(right[4] - mean[4]) < 0.25 * sd[4]
    found = dataset(mended, "posterior")
    assert 100 < found.attrs["reweight_effective_draws"] < 2 * DRAWS
    assert found.attrs["reweight_draws"] == 4 * DRAWS
    assert 0 < found.attrs["reweight_beyond"] < 0.1
    assert found.attrs["reweight_pareto_k"] < 0.7
    assert found.sizes == dataset(post, "posterior").sizes
    assert "draws reweighted to the sum over all masks: Pareto k 0." in str(bd.diagnose(mended))
    assert not any("masks" in problem.text for problem in bd.diagnose(mended).problems)


@pytest.mark.slow
def test_a_run_states_its_error(post):
    """At the very draws; errors of rows are held against all masks in ``noise_average/test_extremes.py``."""
    X, y = rows()
    assert any("with masks integrated is off by" in problem.text for problem in bd.diagnose(post).problems)
    attrs = dataset(post, "posterior").attrs
    draws = draws_of(
        dataset(post, "posterior"), bd.Model(bd.Hinge(), rates=bd.Shared(), C=2.0), 128, marginalised=False
    )
    assert attrs["approximation_draws"] == draws.size == 256
    error = errors_of(draws, X, y, np.ones(len(y))).sum(axis=1)
    # Over the posterior with masks it is half of that; the larger one counts.
    assert attrs["approximation_total"] == pytest.approx(np.std(error, ddof=1), rel=1e-3)
    assert attrs["approximation_total"] > 1
    mild = run(0.1)
    assert mild.attrs["approximation_total"] < 0.1
    assert "nats (standard deviation over draws" in str(bd.diagnose(mild))
    assert not any("integrated" in problem.text for problem in bd.diagnose(mild).problems)


@pytest.fixture(scope="module")
def corrected():
    with warnings.catch_warnings():
        warnings.simplefilter("error", ApproximationWarning)
        return run(2.0, method=bd.HMC(), log_likelihood=True)


@pytest.mark.slow
def test_few_rows_are_corrected_without_being_asked(mended, corrected):
    """Draws, statistics and likelihoods are of one kind, what is said is said, and small errors are left alone."""
    found, mild = corrected, run(0.1, method=bd.HMC())
    posterior, stats = dataset(found, "posterior"), dataset(found, "sample_stats")
    assert found.attrs["reweighted"] == 1
    assert not [name for name in found.attrs if name.startswith("approximation")]
    assert "draws reweighted to the sum over all masks" in str(bd.diagnose(found))
    assert abs(summary(found)[0][4] - summary(mended)[0][4]) < 0.05
    assert posterior.sizes == dataset(mended, "posterior").sizes
    assert dict(stats.sizes) == {"chain": 2, "draw": DRAWS}
    assert posterior["weight"].dtype == np.float32
    assert np.any(stats["source_draw"].values < 0)
    X, y = rows()
    likelihood = dataset(found, "log_likelihood")["y"].values
    again = dataset(bd.log_likelihood(found, X, y), "log_likelihood")["y"].values
    np.testing.assert_allclose(likelihood, again, atol=1e-12)
    # A repeated draw counts once, whoever counts.
    sizes = arviz().ess(posterior[["weight", "intercept", "rate"]])
    least = min(float(part.min()) for part in sizes.data_vars.values())
    assert least < found.attrs["reweight_effective_draws"]
    assert "reweighted" not in mild.attrs
    assert set(dataset(mild, "sample_stats")) > {"lp", "acceptance_rate"}


@pytest.mark.slow
def test_corrected_draws_keep_the_energies_of_their_trajectories(post, corrected):
    check_energies(post, corrected)
    old = {"show": False} if "show" in inspect.signature(arviz().plot_energy).parameters else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ calls what matplotlib calls deprecated
        arviz().plot_energy(corrected, **old)


@pytest.mark.slow
def test_so_do_those_of_nuts():
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):  # NumPyro's kernels need them
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ApproximationWarning)
            check_energies(*(run(2.0, method=bd.NUTS(correct=correct), draws=1000) for correct in (False, True)))


def check_energies(plain, corrected):
    """E-BFMI is a number of the run: it is the same whether or not the draws were resampled afterwards."""
    assert corrected.attrs["reweighted"] == 1
    before, after = (dataset(tree, "sample_stats") for tree in (plain, corrected))
    for name in ("acceptance_rate", "energy", "step_size", "n_steps"):
        np.testing.assert_array_equal(before[name], after[name])
    np.testing.assert_array_equal(e_bfmi(plain), e_bfmi(corrected))
    # The newer line of ArviZ adds a thousand squares in single precision.
    assert bd.diagnose(plain).e_bfmi == bd.diagnose(corrected).e_bfmi == pytest.approx(e_bfmi(plain).min(), rel=1e-5)


def e_bfmi(tree):
    """That of each chain; the newer line of ArviZ returns a tree."""
    found = arviz().bfmi(tree)
    return found if isinstance(found, np.ndarray) else found["energy"].values


@pytest.mark.slow
def test_weights_that_a_few_draws_decide():
    """A law too wide for more rows: first a warning, and a problem of the result; then a refusal."""
    X, y = rows(20)
    with pytest.warns(ApproximationWarning, match="Pareto k of 0.* above 0.7: a few draws decide"):
        found = bd.reweight(by_hand(2000, X, y, 2.7), X, y)
    assert any("a few draws decide" in problem.text for problem in bd.diagnose(found).problems)
    with pytest.raises(ValueError, match=r"Pareto k of .*bd.Gibbs\(\), which draws the masks"):
        bd.reweight(by_hand(2000, X, y, 3.0), X, y)


@pytest.mark.slow
def test_every_group_is_resampled_alike(post, mended):
    X, y = rows()
    before, after = (dataset(tree, "posterior") for tree in (post, mended))
    stats = dataset(mended, "sample_stats")
    place = stats["source_chain"].values, stats["source_draw"].values
    own = place[1] >= 0
    assert 0.9 < own.mean() < 1
    for name in before:
        there = tuple(part[own] for part in place)
        np.testing.assert_array_equal(after[name].values[own], before[name].values[there])
    assert np.all(np.diff((place[0] * DRAWS + place[1])[own]) >= 0)  # in order, copies side by side
    run_of = {"acceptance_rate", "energy", "step_size", "n_steps"}
    assert set(stats) == {"lp", "diverging", "source_chain", "source_draw"} | run_of
    w, b, rate = (after[name].values.reshape(2 * DRAWS, -1).astype(float) for name in ("weight", "intercept", "rate"))
    exact = log_likelihood(w, b[:, 0], rate[:, 0], X, y, 2.0)
    from scipy.stats import norm

    # In the coordinates (w, b, Φ⁻¹(rate)), where a flat prior is standard normal; up to a constant.
    mine = exact - 0.5 * np.sum(w**2, axis=1) - 0.5 * norm.ppf(rate[:, 0]) ** 2
    gap = stats["lp"].values.ravel() - mine
    assert np.ptp(gap) < 0.01  # single precision of the run
    held = bd.posterior_predictive(bd.log_likelihood(post, X, y), X)
    both = bd.reweight(held, X, y)
    assert set(bd.groups.group_names(both)) == set(bd.groups.group_names(post)) | {"log_likelihood"}
    one, other = (dataset(tree, "log_likelihood")["y"].values for tree in (both, held))
    np.testing.assert_allclose(one[own], other[tuple(part[own] for part in place)], atol=1e-12)
    np.testing.assert_array_equal(*(dataset(tree, "observed_data")["y"].values for tree in (both, held)))
    few = bd.reweight(post, X, y, draws=500)
    assert not run_of & set(dataset(few, "sample_stats"))  # of every third trajectory there are no steps
    assert dataset(few, "posterior").sizes["draw"] == dataset(few, "sample_stats").sizes["draw"] == 500


def by_hand(size, X, y, C=1.0, row_weight=None, loss=None):
    """Draws from a wide law, said to be of the approximation."""
    rng = np.random.default_rng(5)
    model = bd.Model(loss or bd.Hinge(), rates=bd.Shared(), C=C)
    parts = {"weight": (("chain", "draw", "feature"), 1 + 0.5 * rng.normal(size=(2, size, 3)))}
    parts |= {"intercept": (("chain", "draw"), rng.normal(size=(2, size)))}
    parts |= {"rate": (("chain", "draw", "group"), rng.uniform(0.05, 0.95, size=(2, size, 1)))}
    coords = {"chain": [0, 1], "draw": np.arange(size), "feature": ["x0", "x1", "x2"], "group": ["all"]}
    observed = xr.Dataset({"y": ("obs_id", (np.asarray(y) > 0).astype(int))})
    groups = {"posterior": xr.Dataset(parts, coords), "observed_data": observed}
    if row_weight is not None:
        groups["constant_data"] = xr.Dataset({"row_weight": ("obs_id", row_weight)})
    return bd.groups.assemble(groups, {**attributes(model, [-1, 1]), "target": "noising", "approximation": "masks"})


@pytest.mark.parametrize(
    ("loss", "size", "words"),
    [
        (bd.Logistic(), 1e12, "^post: .*Pareto k"),
        (bd.Hinge(), 1e12, "^post: .*Pareto k"),
        (bd.Logistic(), 1e200, "^X: .*overflows double precision"),
        (bd.Hinge(), 1e200, "^X: .*overflows double precision"),
    ],
)
def test_rows_of_another_scale_are_refused(loss, size, words):
    """However large the scores are, in no time."""
    X, y = rows()
    with pytest.raises(ValueError, match=words):
        bd.reweight(by_hand(40, X, y, loss=loss), size * X, y)


@pytest.mark.slow
def test_what_needs_no_weights_and_what_does_not_fit(post, mended):
    X, y = rows()
    with pytest.raises(ValueError, match="they have been reweighted"):
        bd.reweight(mended, X, y)
    exact = by_hand(10, X, y)
    del exact.attrs["approximation"]
    with pytest.raises(ValueError, match="expected draws whose masks were integrated.*they are exact"):
        bd.reweight(exact, X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixingWarning)
        plain = bd.sample(bd.Model(rates=bd.Fixed(0.0)), X, y, draws=20, tune=20, chains=2, progress=False)
    assert not [name for name in plain.attrs if name.startswith("approximation")]
    with pytest.raises(ValueError, match="they are exact"):
        bd.reweight(plain, X, y)
    with pytest.raises(ValueError, match="^y: expected what was sampled"):
        bd.reweight(post, X, -y)
    with pytest.raises(ValueError, match="^X: expected the 60 rows"):
        bd.reweight(post, X[:9], y[:9])
    with pytest.raises(ValueError, match="^draws: expected at most"):
        bd.reweight(post, X, y, draws=10_000)
    with pytest.raises(TypeError, match="^post: expected"):
        bd.reweight(None, X, y)
