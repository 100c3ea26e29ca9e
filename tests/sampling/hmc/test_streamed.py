"""Rows that are streamed: the same density, the same draws, and what cannot be sampled so is refused in words."""

import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.designs import as_sampling_design
from bayesdrop.hmc.streamed import evaluation_of, one_pass
from bayesdrop.noise import Coefficients
from bayesdrop.posterior import simulation
from bayesdrop.posterior.scores import approximation_error, pointwise
from bayesdrop.sampling.run import checkpoint
from bayesdrop.sampling.run.runner import as_key, run

METHOD = bd.HMC(dtype="float64")
OPTIONS = {"draws": 12, "tune": 20, "chains": 3, "progress": False}
PLAIN = bd.Model(rates=bd.Fixed(0.0))
N, P = 60, 3
CUTS = [[25], [30, 31]]


def problem(loss=None, positive=False):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, P)) * (rng.random((N, P)) < 0.8)
    X = np.abs(X) if positive else X
    score = X @ np.array([1.5, -1.0, 0.3]) + rng.logistic(size=N)
    if loss is not None and loss.largest_count is not None:
        return X, rng.poisson(np.exp(np.clip(score, -3, 1.5))).astype(float)
    return X, (score > 0 if loss is None or loss.binary else score)


def stream(X, storage="dense", cuts=(25, 31)):
    parts = np.split(X, cuts)
    parts = [sparse.csr_array(part) for part in parts] if storage == "sparse" else parts
    return bd.Blocks(lambda: iter(parts))


def bound(model, X, y, marginalised, weight=None, tune=20):
    """Kernel and operands, those of streamed rows if they are."""
    data = as_dataset(X, y, weight, None, model.loss.binary, as_sampling_design).with_weight()
    bind = METHOD.bind_streamed if data.design.is_streamed else METHOD.bind
    return bind(model, data, model.bind(data.feature_names), tune, marginalised=marginalised)


def quietly(call, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few draws
        return call(*arguments, **OPTIONS | options)


def weights(post):
    return bd.groups.dataset(post, "posterior")["weight"].values


class EveryPart(bd.Dropout):
    """A noise with all five coefficients."""

    def coefficients(self, rate):
        return Coefficients(1 - rate, 0.3 + rate, 0.2 * rate, 0.1 + rate, 0.5 * rate)


# The density: name, model, the pseudo-posterior or that of the noising model.
DENSITIES = {
    "logistic": (PLAIN, True),
    "hinge": (bd.Model(bd.Hinge(), rates=bd.Fixed(0.0), C=2.0), True),
    "quantile": (bd.Model(bd.Quantile(0.3), rates=bd.Fixed(0.0)), True),
    "squared, free rates": (bd.Model(bd.Squared(), rates=bd.PerFeature(bd.Beta(2, 3)), C=0.5), False),
    "poisson": (bd.Model(bd.Poisson(), rates=bd.Fixed(0.0)), True),
    "negative binomial, dropout": (bd.Model(bd.NegativeBinomial(0.5), rates=bd.Fixed(0.2)), False),
    "hinge, dropout": (bd.Model(bd.Hinge(), rates=bd.Fixed([0.4, 0.1, 0.3])), True),
    "dropout with a mean": (bd.Model(noise=bd.Dropout(unbiased=False), rates=bd.Fixed(0.3)), True),
    "free rates": (bd.Model(rates=bd.PerGroup(["a", "b", "a"], bd.Beta(2, 3)), C=2.0), False),
    "additive": (bd.Model(noise=bd.LaplaceNoise(0.5)), True),
    "linear": (bd.Model(noise=bd.PoissonNoise()), True),
    "every part": (bd.Model(noise=EveryPart(), rates=bd.Fixed([0.1, 0.3, 0.2])), True),
    "no intercept": (bd.Model(rates=bd.Fixed(0.2), fit_intercept=False), False),
}


@pytest.mark.default_cases(
    "hinge-dense", "squared, free rates-dense", "free rates-sparse", "linear-dense", "every part-sparse"
)
@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize("name", DENSITIES)
def test_energy_and_gradient_are_those_in_memory(name, storage):
    """To 1e-10, at points far from and near the centre, with row weights."""
    model, marginalised = DENSITIES[name]
    X, y = problem(model.loss, positive=name in ("linear", "every part"))
    weight = np.linspace(0.5, 2, N)
    with jax.enable_x64(True):
        _, operands = bound(model, X, y, marginalised, weight)
        kernel, streamed = bound(model, stream(X, storage), y, marginalised, weight)
        density = kernel.inner.density
        rows = streamed.rows
        if rows.width is not None:
            rows = rows._replace(width=np.asarray(operands.density.width))
        theta = streamed.chains.centre[None] + jnp.asarray(
            np.random.default_rng(5).normal(size=(4, len(operands.centre)))
        )
        expected = density.evaluate(operands.density, theta)
        before = rows.design.passes
        sums = one_pass(density, rows, density.loadings(streamed.chains.density, theta))
        assert rows.design.passes == before + 1
        sums = jax.tree.map(jnp.asarray, sums)
        found = evaluation_of(density, streamed.chains.density, theta, sums)
        expected, found = (jax.tree.map(np.asarray, value) for value in (expected, found))
    np.testing.assert_allclose(found.cost[:, 0], expected.cost.sum(axis=1), rtol=1e-10)
    np.testing.assert_allclose(found.prior, expected.prior, rtol=1e-12)
    scale = np.abs(expected.gradient).max()
    np.testing.assert_allclose(found.gradient, expected.gradient, rtol=0, atol=1e-10 * scale)


@pytest.mark.default_cases("free rates", "hinge")
@pytest.mark.parametrize("name", ["logistic", "hinge", "dropout with a mean", "free rates"])
def test_draws_are_those_of_the_kernel_in_memory(name):
    """From the same approximation draw by draw, through warm-up: leapfrog steps, pilots and their ends."""
    model, marginalised = DENSITIES[name]
    X, y = problem(model.loss)
    counts = {"tune": 20, "draws": 12, "chains": 3, "progress": False}
    with jax.enable_x64(True):
        kernel, operands = bound(model, X, y, marginalised)
        host, streamed = bound(model, stream(X), y, marginalised)
        same = streamed.chains._replace(centre=operands.centre, factor=operands.factor)
        if streamed.rows.width is not None:
            streamed = streamed._replace(rows=streamed.rows._replace(width=np.asarray(operands.density.width)))
        expected = run(kernel, operands, as_key(4), **counts)
        found = run(host, streamed._replace(chains=same), as_key(4), **counts)
    assert name != "free rates" or np.any(expected.state.centre != operands.centre)  # it was adapted
    assert found.draws.keys() == expected.draws.keys()
    for key, value in expected.draws.items():
        np.testing.assert_allclose(found.draws[key], value, rtol=1e-7, atol=1e-7, err_msg=key)


LEARNT = {
    "one scale, logistic": (bd.Model(rates=bd.Fixed(0.0), weight_prior=bd.Normal(bd.HalfNormal(1.0))), True),
    "scales of groups, hinge": (
        bd.Model(
            bd.Hinge(), rates=bd.Fixed(0.0), weight_prior=bd.Normal(bd.HalfCauchy(1.0), groups=["a", "b", "a"])
        ),
        True,
    ),
    "one scale, free rates": (
        bd.Model(rates=bd.PerFeature(bd.Beta(2, 3)), weight_prior=bd.Normal(bd.HalfCauchy(1.0))), False,
    ),
}  # fmt: skip


@pytest.mark.default_cases("scales of groups, hinge")
@pytest.mark.parametrize("name", LEARNT)
def test_learnt_scales_are_those_in_memory(name):
    """Energy and gradient to 1e-10, and draws, in the coordinates of one approximation."""
    model, marginalised = LEARNT[name]
    X, y = problem(model.loss)
    with jax.enable_x64(True):
        kernel, operands = bound(model, X, y, marginalised)
        host, streamed = bound(model, stream(X), y, marginalised)
        density, inside = kernel.density, streamed.chains.density
        width = streamed.rows.width
        given = operands.density.given._replace(width=None if width is None else jnp.asarray(width))
        together = inside._replace(given=given)
        theta = jnp.asarray(np.random.default_rng(5).normal(size=(4, len(streamed.chains.centre))))
        expected = density.evaluate(together, theta)
        sums = jax.tree.map(jnp.asarray, one_pass(density.of_rows, streamed.rows, density.loadings(inside, theta)))
        found = evaluation_of(density, inside, theta, sums)
        np.testing.assert_allclose(found.cost[:, 0], expected.cost.sum(axis=1), rtol=1e-10)
        np.testing.assert_allclose(found.prior, expected.prior, rtol=1e-12)
        scale = float(jnp.abs(expected.gradient).max())
        np.testing.assert_allclose(found.gradient, expected.gradient, rtol=0, atol=1e-10 * scale)
        counts = {"tune": 20, "draws": 12, "chains": 3, "progress": False}
        there = run(kernel, streamed.chains._replace(density=together), as_key(4), **counts)
        here = run(host, streamed, as_key(4), **counts)
    assert "log_weight_scale" in here.draws
    for key, value in there.draws.items():
        np.testing.assert_allclose(here.draws[key], value, rtol=1e-7, atol=1e-7, err_msg=key)


def test_a_posterior_of_learnt_scales():
    """Its scale is that in memory: 400 draws of 4 chains, whose means differ by 6 standard errors at most."""
    X, y = problem()
    model = LEARNT["one scale, logistic"][0]
    options = {"draws": 100, "tune": 100, "chains": 4}
    here, there = (quietly(bd.sample, model, data, y, **options) for data in (X, stream(X)))
    one, other = (np.log(bd.groups.dataset(post, "posterior")["weight_scale"].values) for post in (here, there))
    assert abs(one.mean() - other.mean()) < 6 * np.sqrt(2) * one.std() / np.sqrt(100)


def test_the_whole_of_it_is_that_in_memory():
    """Fit, approximation, draws and groups of a model without noise, with a row of weight zero; and how many passes."""
    X, y = problem()
    weight = np.where(np.arange(N) == 7, 0.0, 1.5)
    blocks = stream(X)
    options = {"sample_weight": weight, "method": METHOD, "feature_names": ["a", "b", "c"]}
    here, there = (quietly(bd.sample, PLAIN, data, y, **options) for data in (X, blocks))
    for group in ("posterior", "sample_stats", "observed_data", "constant_data"):
        one, other = (bd.groups.dataset(post, group) for post in (here, there))
        assert one.data_vars.keys() == other.data_vars.keys()
        for name, value in one.data_vars.items():
            np.testing.assert_allclose(other[name], value, rtol=1e-8, atol=1e-8, err_msg=name)
    assert there.attrs["method"] == repr(bd.HMC(dtype="float64"))
    default = quietly(bd.sample, PLAIN, blocks, y)  # HMC, and in double precision whatever was asked for
    assert default.attrs["method"] == there.attrs["method"]


def test_a_draw_is_a_pass_for_each_kick():
    X, y = problem()
    with jax.enable_x64(True):
        kernel, operands = bound(PLAIN, stream(X), y, True)
        before = operands.rows.design.passes
        found = run(kernel, operands, as_key(0), tune=0, draws=9, chains=2, progress=False)
    assert operands.rows.design.passes - before == 1 + found.draws["n_steps"][0].sum()


@pytest.mark.parametrize("features", [P, 1600])
def test_the_approximation_is_dense_up_to_1500_features(features):
    """Equal to that in memory, by a Gram matrix; and the diagonal beyond."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, features)) / np.sqrt(features)
    y = X[:, 0] + 0.1 * rng.normal(size=40) > 0
    with jax.enable_x64(True):
        _, streamed = bound(PLAIN, stream(X, cuts=(11, 12)), y, True)
        if features > 1500:
            assert streamed.chains.factor.shape == (features + 1,)
            return
        _, operands = bound(PLAIN, X, y, True)
    np.testing.assert_allclose(streamed.chains.centre, operands.centre, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(streamed.chains.factor, operands.factor, rtol=1e-8, atol=1e-10)


def test_approximate_masks_are_reported(monkeypatch):
    """As in memory where all rows may be looked at; else by some of them, brought here."""
    X, y = problem()
    model = bd.Model(rates=bd.Fixed(0.4))
    post = quietly(bd.sample, model, stream(X), y, method=METHOD)
    assert post.attrs["approximation_rows"] == N
    assert 0 < post.attrs["approximation_error"] < 0.2
    monkeypatch.setattr(approximation_error, "EFFORT", approximation_error.Effort(rows=40))
    some = quietly(bd.sample, model, stream(X), y, method=METHOD)
    np.testing.assert_array_equal(weights(some), weights(post))
    assert some.attrs["approximation_rows"] == 40
    np.testing.assert_allclose(some.attrs["approximation_error"], post.attrs["approximation_error"], rtol=0.5)


# What is made of the draws.


@pytest.fixture(scope="module", name="post")
def _post():
    X, y = problem()
    return quietly(bd.sample, bd.Model(rates=bd.Fixed(0.3)), stream(X), y, method=METHOD, log_likelihood=True)


def test_predictions_and_scores_by_blocks(post):
    X, y = problem()
    for blocks in (stream(X), stream(X, "sparse"), stream(X, cuts=(0, 59))):
        here, there = bd.predict(post, X), bd.predict(post, blocks)
        for name in ("mean", "sd", "low", "high"):
            np.testing.assert_allclose(getattr(there, name), getattr(here, name), rtol=1e-10, atol=1e-12)
        np.testing.assert_array_equal(there.label, here.label)
        np.testing.assert_allclose(bd.elpd(post, blocks, y).pointwise, bd.elpd(post, X, y).pointwise, rtol=1e-9)
        with_rows = [bd.groups.dataset(bd.log_likelihood(post, data, y), "log_likelihood") for data in (X, blocks)]
        np.testing.assert_allclose(*(group["y"].values for group in with_rows), rtol=1e-9)
        np.testing.assert_array_equal(*(group["obs_id"].values for group in with_rows))
    sampled = bd.groups.dataset(post, "log_likelihood")["y"]
    np.testing.assert_allclose(sampled, with_rows[0]["y"], rtol=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert bd.loo(post).n_data_points == N


def test_predictions_of_numbers_by_blocks():
    X, y = problem(bd.Squared())
    model = bd.Model(bd.Squared(), rates=bd.Fixed(0.3))
    fit = bd.fit(model, stream(X), y)
    here, there = bd.predict(fit, X), bd.predict(fit, stream(X))
    np.testing.assert_allclose(there.mean, here.mean, rtol=1e-10)
    # 40,000 simulated responses: an end of the interval is off by 0.01 standard deviations or so.
    np.testing.assert_allclose(there.response_low, here.response_low, atol=0.1 * np.std(y))
    np.testing.assert_allclose(bd.elpd(fit, stream(X), y).elpd, bd.elpd(fit, X, y).elpd, rtol=1e-9)


def test_columns_are_matched_by_name():
    X, y = problem()
    named = partial(bd.Blocks, columns=["a", "b", "c"])
    post = quietly(bd.sample, PLAIN, named([X[:20], X[20:]]), y)
    turned = bd.Blocks([X[:9, [2, 0, 1]], X[9:, [2, 0, 1]]], columns=["c", "a", "b"])
    np.testing.assert_allclose(bd.predict(post, turned).mean, bd.predict(post, X).mean, rtol=1e-10)
    with pytest.raises(ValueError, match=r"missing: \['c'\], unknown: \['z'\]"):
        bd.predict(post, bd.Blocks([X], columns=["a", "b", "z"]))
    with pytest.raises(ValueError, match="expected 3 columns, as were fitted"):
        bd.elpd(post, bd.Blocks([X[:, :2]]), y)


def test_a_likelihood_that_would_fill_memory_is_refused(post, monkeypatch):
    X, y = problem()
    monkeypatch.setattr(pointwise, "MOST", N * 36 - 1)
    with pytest.raises(ValueError, match=r"expected at most 2,159 numbers, .* got 36 draws of 60 rows; take bd.elpd"):
        bd.log_likelihood(post, stream(X), y)
    with pytest.raises(ValueError, match="got 36 draws of 60 rows"):
        quietly(bd.sample, PLAIN, stream(X), y, log_likelihood=True)


# Long runs.


def test_a_run_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    """After an interruption in the middle of a pass; and data that differ are refused."""
    X, y = problem()
    monkeypatch.setattr(checkpoint, "_SECONDS", 0.0)
    monkeypatch.setattr(checkpoint, "_SHARE", 0.0)
    calls, last = [], None

    def source():
        for part in np.split(X, [25, 31]):
            calls.append(1)
            if last is not None and len(calls) == last:
                raise KeyboardInterrupt
            yield part

    whole = quietly(bd.sample, PLAIN, bd.Blocks(source), y)
    total, calls[:] = len(calls), []
    blocks, last = bd.Blocks(source), total - 20
    with pytest.raises(KeyboardInterrupt):  # no draw is kept, but the warm-up is
        quietly(bd.sample, PLAIN, blocks, y, checkpoint=tmp_path / "run")
    last = None
    found = quietly(bd.sample, PLAIN, bd.Blocks(source), y, checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(weights(found), weights(whole))
    X[40, 1] += 1e-9
    with pytest.raises(ValueError, match="belongs to another run: X differs"):
        quietly(bd.sample, PLAIN, bd.Blocks(source), y, checkpoint=tmp_path / "run")


def test_a_stop_rule_ends_a_run():
    X, y = problem()
    post = quietly(bd.sample, PLAIN, stream(X), y, draws=4000, stop=bd.Stop(ess=50, r_hat=1.2))
    assert post.attrs["stopped"] == "target"
    assert bd.groups.dataset(post, "posterior").sizes["draw"] < 4000


# Bad input.


@pytest.mark.parametrize("change", ["value", "rows", "end"])
def test_data_that_change_while_sampling_are_an_error(change):
    X, y = problem()
    passes = [0]

    def source():
        passes[0] += 1
        parts = np.split(X.copy(), [25, 31])
        if passes[0] > 60:
            if change == "value":
                parts[2][3, 1] += 1.0
            elif change == "rows":
                parts[1] = parts[1][:-1]
            else:
                del parts[2]
        return iter(parts)

    words = "it ended after 2 of 3 blocks" if change == "end" else "has changed"
    with pytest.raises(ValueError, match=f"{words}.*samplers need the same data"):
        quietly(bd.sample, PLAIN, bd.Blocks(source), y, draws=100)
    assert passes[0] == 61


REFUSED = {
    "masks by default": (bd.Model(), {}, r"got Gibbs.* by default, .* take method=bd.HMC\(\), which integrates masks"),
    "Gibbs": (PLAIN, {"method": bd.Gibbs()}, r"got Gibbs.*take method=bd.HMC\(\), or pass an array"),
    "NUTS": (PLAIN, {"method": bd.NUTS()}, r"got NUTS.*take method=bd.HMC\(\)"),
    "Laplace": (
        bd.Model(rates=bd.Fixed(0.0), weight_prior=bd.Laplace(1.0)), {"method": bd.HMC()},
        "takes normal weights, got Laplace.*a random sample",
    ),
    "horseshoe": (
        bd.Model(rates=bd.Fixed(0.0), weight_prior=bd.Horseshoe()), {"method": bd.HMC()}, "takes normal weights",
    ),
    "classes with masks": (
        bd.Model(bd.Softmax(), rates=bd.Fixed(0.3)), {"method": bd.HMC()},
        r"takes many classes without masks, got Dropout.*target=\"marginalised\"",
    ),
    "classes with masks by default": (
        bd.Model(bd.Softmax()), {}, r"by default, .* take method=bd.HMC\(\) with target=\"marginalised\"",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_streamed_is_refused(name):
    model, options, words = REFUSED[name]
    X, y = problem()
    y = np.arange(N) % 3 if model.loss.multiclass else y
    with pytest.raises((TypeError, ValueError), match=words):
        quietly(bd.sample, model, stream(X), y, **options)


def test_an_unknown_variance_is_refused():
    model = bd.Model(bd.Squared(variance_prior=bd.InverseGamma(2.0, 1.0)), rates=bd.Fixed(0.0))
    X, y = problem(model.loss)
    with pytest.raises(ValueError, match="takes known variances.*leave out variance_prior"):
        quietly(bd.sample, model, stream(X), y, method=bd.HMC())


def test_simulations_by_blocks(post, monkeypatch):
    """Frequencies near probabilities: 36 draws of 60 rows differ by 6 standard errors of a mean at most."""
    X, _ = problem()
    simulated = bd.groups.dataset(bd.posterior_predictive(post, stream(X), seed=3), "posterior_predictive")["y"]
    assert simulated.shape == (3, 12, N)
    np.testing.assert_array_equal(simulated["obs_id"], np.arange(N))
    again = bd.groups.dataset(bd.posterior_predictive(post, stream(X), seed=3), "posterior_predictive")["y"]
    np.testing.assert_array_equal(again, simulated)
    chance = bd.predict(post, X).mean
    assert abs(float(simulated.mean()) - chance.mean()) < 6 * 0.5 / np.sqrt(simulated.size)
    assert np.corrcoef(simulated.mean(("chain", "draw")), chance)[0, 1] > 0.9
    monkeypatch.setattr(simulation, "MOST", 36 * N - 1)
    with pytest.raises(ValueError, match="expected at most 2,159 responses.*got 36 draws of 60 rows; give `draws`"):
        bd.posterior_predictive(post, stream(X))
    assert (
        bd.groups.dataset(bd.posterior_predictive(post, stream(X), draws=2), "posterior_predictive").sizes["draw"] == 2
    )


def test_weights_of_draws_by_blocks():
    X, y = problem()
    method = bd.HMC(dtype="float64", correct=False)
    approximate = quietly(bd.sample, bd.Model(rates=bd.Fixed(0.3)), X, y, method=method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        here, there = (bd.reweight(approximate, data, y) for data in (X, stream(X)))
    np.testing.assert_allclose(there.attrs["reweight_pareto_k"], here.attrs["reweight_pareto_k"], rtol=1e-6)
    for name in ("source_chain", "source_draw"):
        np.testing.assert_array_equal(*(bd.groups.dataset(one, "sample_stats")[name] for one in (here, there)))


def test_what_deals_or_moves_streamed_rows_is_refused(post):
    X, y = problem()
    with pytest.raises(TypeError, match=r"bd.kfold deals rows into folds.*score those by bd.elpd"):
        quietly(bd.kfold, PLAIN, stream(X), y)
    with pytest.raises(TypeError, match="bd.Blocks are read when needed.*a random sample of them"):
        bd.marginal_effects(post, stream(X))


@pytest.mark.parametrize("size", [1e30, 1e200])
def test_what_overflows_is_an_error_in_words(size):
    """Squares of the first overflow in single precision, in which it is stored, and those of the second at all."""
    X, y = problem()
    X = X.copy()
    X[:, 1] *= size
    X = X.astype(np.float32) if size < 1e38 else X
    if size < 1e38:
        post = quietly(bd.sample, PLAIN, stream(X), y)
        assert np.all(np.isfinite(weights(post)))
        return
    with pytest.raises(ValueError, match=r"common scale|overflow"):
        quietly(bd.sample, PLAIN, stream(X), y)
