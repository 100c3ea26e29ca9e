"""Rows that are streamed: density, approximation and draws are those in memory, and what cannot be is refused.

Of one score and of many classes, which share all of it but their densities.
"""

import warnings
from functools import partial

import dask.array as da
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.designs import as_sampling_design
from bayesdrop.fitting.problems.many_classes import softmax_energy
from bayesdrop.hmc.approximations.choices import Limits
from bayesdrop.hmc.approximations.class_density import class_approximation, class_fit, contrasts, hessian_in_a_pass
from bayesdrop.hmc.kernels.factors import StructuredFactor
from bayesdrop.hmc.streamed import evaluation_of, one_pass
from bayesdrop.noise import Coefficients
from bayesdrop.posterior import simulation
from bayesdrop.posterior.scores import approximation_error, pointwise
from bayesdrop.sampling.run.runner import as_key, run

METHOD = bd.HMC(dtype="float64")
OPTIONS = {"draws": 12, "tune": 20, "chains": 3, "progress": False}
PLAIN, CLASSES = bd.Model(rates=bd.Fixed(0.0)), bd.Model(bd.Softmax(), rates=bd.Fixed(0.0))
# As many features as contrasts would hide an index that is another's.
N, P, K = 60, 3, 3
NAMES = np.array(["a", "b", "c"])


def problem(model=PLAIN):
    rng, loss = np.random.default_rng(3), model.loss
    X = rng.normal(size=(N, P)) * (rng.random((N, P)) < 0.8)
    X = np.abs(X) if isinstance(model.noise, bd.PoissonNoise | EveryPart) else X
    if loss.multiclass:
        return X, NAMES[np.argmax(1.5 * X @ rng.normal(size=(P, K)) + rng.gumbel(size=(N, K)), axis=1)]
    score = X @ np.array([1.5, -1.0, 0.3]) + rng.logistic(size=N)
    if loss.largest_count is not None:
        return X, rng.poisson(np.exp(np.clip(score, -3, 1.5))).astype(float)
    return X, score > 0 if loss.binary else score


def stream(X, storage="dense", cuts=(25, 25, 31)):
    """Blocks, one of them empty unless they are sparse; or chunks of Dask."""
    if storage == "dask":
        return da.from_array(X, chunks=((25, 6, 29), (X.shape[1],)))
    parts = np.split(X, cuts if storage == "dense" else sorted({*cuts}))
    parts = [sparse.csr_array(part) for part in parts] if storage == "sparse" else parts
    return bd.Blocks(lambda: iter(parts))


def dataset(model, X, y, weight=None):
    loss = model.loss
    return as_dataset(X, y, weight, None, loss.binary, as_sampling_design, loss.multiclass).with_weight()


def bound(model, X, y, marginalised=True, weight=None, method=METHOD):
    """Kernel and operands, those of streamed rows if they are."""
    data = dataset(model, X, y, weight)
    bind = method.bind_streamed if data.design.is_streamed else method.bind
    return bind(model, data, model.bind(data.feature_names), 20, marginalised=marginalised)


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
EVERY = {"noise": EveryPart(), "rates": bd.Fixed([0.1, 0.3, 0.2])}
DENSITIES = {
    "logistic": (PLAIN, True),
    "hinge": (bd.Model(bd.Hinge(), rates=bd.Fixed(0.0), C=2.0), True),
    "quantile": (bd.Model(bd.Quantile(0.3, 1.0), rates=bd.Fixed(0.0)), True),
    "squared, free rates": (bd.Model(bd.Squared(variance=1.0), rates=bd.PerFeature(bd.Beta(2, 3)), C=0.5), False),
    "poisson": (bd.Model(bd.Poisson(), rates=bd.Fixed(0.0)), True),
    "negative binomial, dropout": (bd.Model(bd.NegativeBinomial(0.5), rates=bd.Fixed(0.2)), False),
    "hinge, dropout": (bd.Model(bd.Hinge(), rates=bd.Fixed([0.4, 0.1, 0.3])), True),
    "dropout with a mean": (bd.Model(noise=bd.Dropout(unbiased=False), rates=bd.Fixed(0.3)), True),
    "free rates": (bd.Model(rates=bd.PerGroup(["a", "b", "a"], bd.Beta(2, 3)), C=2.0), False),
    "additive": (bd.Model(noise=bd.LaplaceNoise(0.5)), True),
    "linear": (bd.Model(noise=bd.PoissonNoise()), True),
    "every part": (bd.Model(**EVERY), True),
    "no intercept": (bd.Model(rates=bd.Fixed(0.2), fit_intercept=False), False),
    "classes": (CLASSES, True),
    "classes, no intercept": (bd.Model(bd.Softmax(), rates=bd.Fixed(0.0), fit_intercept=False, C=2.0), True),
    "classes, dropout": (bd.Model(bd.Softmax(), rates=bd.Fixed([0.4, 0.1, 0.3])), True),
    "classes, normal scores": (
        bd.Model(bd.Softmax("gaussian"), noise=bd.Dropout(unbiased=False), rates=bd.Fixed(0.3)), True,
    ),
    "classes, additive": (bd.Model(bd.Softmax("gaussian"), noise=bd.LaplaceNoise(0.5)), True),
    "classes, linear": (bd.Model(bd.Softmax(), noise=bd.PoissonNoise()), True),
    "classes, every part": (bd.Model(bd.Softmax(), **EVERY), True),
}  # fmt: skip


def check_density(kernel, operands, host, streamed):
    """Energy and gradient to 1e-10 at points far from and near the centre; one pass for all chains and classes."""
    density, inside, rows = host.inner.density, streamed.chains.density, streamed.rows
    here = operands.density
    if rows.width is not None:  # kinks are rounded alike
        rows = rows._replace(width=np.asarray(getattr(here, "base", here).width))
    spread = np.random.default_rng(5).normal(size=(4, len(operands.centre)))
    theta = streamed.chains.centre[None] + jnp.asarray(spread * np.array([[0.1], [1.0], [3.0], [10.0]]))
    expected = jax.jit(kernel.density.evaluate)(here, theta)
    before = getattr(rows.design, "passes", None)
    sums = one_pass(getattr(density, "of_rows", density), rows, jax.jit(density.loadings)(inside, theta))
    assert before is None or rows.design.passes == before + 1
    found = jax.jit(partial(evaluation_of, density))(inside, theta, jax.tree.map(jnp.asarray, sums))
    expected, found = (jax.tree.map(np.asarray, value) for value in (expected, found))
    np.testing.assert_allclose(found.cost[:, 0], expected.cost.sum(axis=1), rtol=1e-10)
    np.testing.assert_allclose(found.prior, expected.prior, rtol=1e-12)
    scale = np.abs(expected.gradient).max()
    np.testing.assert_allclose(found.gradient, expected.gradient, rtol=0, atol=1e-10 * scale)


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["dense", "sparse", "dask"])
@pytest.mark.parametrize("name", DENSITIES)
def test_energy_and_gradient_are_those_in_memory(name, storage):
    """With row weights."""
    model, marginalised = DENSITIES[name]
    X, y = problem(model)
    weight = np.linspace(0.5, 2, N)
    with jax.enable_x64(True):
        in_memory = bound(model, X, y, marginalised, weight)
        check_density(*in_memory, *bound(model, stream(X, storage), y, marginalised, weight))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["logistic", "hinge", "dropout with a mean", "free rates", "classes", "classes, normal scores"]
)
def test_draws_are_those_of_the_kernel_in_memory(name):
    """From the same approximation draw by draw, through warm-up: leapfrog steps, pilots and their ends."""
    model, marginalised = DENSITIES[name]
    X, y = problem(model)
    with jax.enable_x64(True):
        kernel, operands = bound(model, X, y, marginalised)
        host, streamed = bound(model, stream(X), y, marginalised)
        if streamed.rows.width is not None:
            streamed = streamed._replace(rows=streamed.rows._replace(width=np.asarray(operands.density.width)))
        same = streamed.chains._replace(centre=operands.centre, factor=operands.factor)
        counts = {"tune": 20, "draws": 12, "chains": 3, "progress": False}
        expected = run(kernel, operands, as_key(4), **counts)
        found = run(host, streamed._replace(chains=same), as_key(4), **counts)
    assert found.draws.keys() == expected.draws.keys()
    for key, value in expected.draws.items():
        np.testing.assert_allclose(found.draws[key], value, rtol=1e-7, atol=1e-7, err_msg=key)
    assert name != "free rates" or np.any(expected.state.centre != operands.centre)  # it was adapted


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
    "scales of groups, classes": (
        bd.Model(
            bd.Softmax(), rates=bd.Fixed(0.0), weight_prior=bd.Normal(bd.HalfCauchy(1.0), groups=["a", "b", "a"])
        ),
        True,
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNT)
def test_learnt_scales_are_those_in_memory(name):
    """Energy and gradient, in the coordinates of one approximation; draws follow, as above."""
    model, marginalised = LEARNT[name]
    X, y = problem(model)
    with jax.enable_x64(True):
        kernel, operands = bound(model, X, y, marginalised)
        host, streamed = bound(model, stream(X), y, marginalised)
        inside, width = streamed.chains.density, streamed.rows.width
        base = operands.density.base
        base = base if width is None else base._replace(width=jnp.asarray(width))
        together = streamed.chains._replace(density=inside._replace(base=base))
        check_density(kernel, together, host, streamed)


@pytest.mark.default_cases("classes")
@pytest.mark.parametrize(
    ("model", "storage"), [(PLAIN, "dense"), (CLASSES, "dense"), (CLASSES, "dask")],
    ids=["one score", "classes", "classes, dask"],
)  # fmt: skip
def test_the_whole_of_it_is_that_in_memory(model, storage):
    """Fit, approximation, draws and groups, with a row of weight zero, which rows on a cluster do not take."""
    X, y = problem(model)
    weight = np.where(np.arange(N) == 7, 1.0 if storage == "dask" else 0.0, 1.5)
    options = {"sample_weight": weight, "method": METHOD, "feature_names": ["a", "b", "c"]}
    here, there = (quietly(bd.sample, model, data, y, **options) for data in (X, stream(X, storage)))
    same = {"rtol": 0, "atol": 1e-3} if storage == "dask" else {"rtol": 1e-8, "atol": 1e-8}
    for group in ("posterior", "sample_stats", "observed_data", "constant_data"):
        one, other = (bd.groups.dataset(post, group) for post in (here, there))
        assert one.data_vars.keys() == other.data_vars.keys()
        assert one.coords.keys() == other.coords.keys()
        for name, value in one.data_vars.items():
            if value.dtype.kind in "fi":
                np.testing.assert_allclose(other[name], value, **same, err_msg=name)
            else:
                np.testing.assert_array_equal(other[name], value, err_msg=name)
    assert there.attrs["method"] == repr(bd.HMC(dtype="float64"))
    if model is CLASSES:
        np.testing.assert_array_equal(bd.groups.dataset(there, "posterior")["class"], NAMES)
        np.testing.assert_allclose(weights(there).sum(axis=2), 0, atol=1e-12)


@pytest.mark.slow
def test_a_draw_is_a_pass_for_each_leapfrog_step():
    X, y = problem()
    with jax.enable_x64(True):
        kernel, operands = bound(PLAIN, stream(X), y)
        before = operands.rows.design.passes
        found = run(kernel, operands, as_key(0), tune=0, draws=9, chains=2, progress=False)
    assert operands.rows.design.passes - before == 1 + found.draws["n_steps"][0].sum()


# The approximation.


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


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["dense", "sparse", "dask"])
@pytest.mark.parametrize("name", [name for name in DENSITIES if name.startswith("classes")])
def test_the_approximation_of_classes_is_that_in_memory(name, storage):
    """Centre and factor, whose Hessian is that of products with unit vectors."""
    model = DENSITIES[name][0]
    X, y = problem(model)
    weight = np.linspace(0.5, 2, N)
    here, there = (dataset(model, rows, y, weight) for rows in (X, stream(X, storage)))
    centre, factor = class_approximation(model, here, model.bind(here.feature_names))
    # The fits of a cluster stop where their preconditioner lets them.
    same = {"rtol": 0, "atol": 2e-3 if storage == "dask" else 1e-9}
    found = class_approximation(model, there, model.bind(there.feature_names))
    np.testing.assert_allclose(found[0], centre, **same)
    np.testing.assert_allclose(found[1], factor, **same)
    coefficients, energy, chance, diagonal = class_fit(model, here, model.bind(here.feature_names))
    basis, q = contrasts(K), len(coefficients) if model.fit_intercept else P
    place = [(d, j) for j in range(K - 1) for d in range(P)] + [(P, j) for j in range(K - 1)]
    row, columns = tuple(np.array(place[: q * (K - 1)]).T), []
    for d, j in zip(*row, strict=True):
        direction = np.zeros_like(coefficients)
        direction[d] = basis[:, j]
        columns.append((energy.product(chance, diagonal, direction) @ basis)[row])
    for pairs in (8.0, 0.5):
        hessian = hessian_in_a_pass(energy, chance, diagonal, basis, model.fit_intercept, pairs)
        np.testing.assert_allclose(hessian, columns, rtol=0, atol=1e-9 * np.abs(hessian).max())


def test_the_hessian_is_one_pass_whatever_the_number_of_classes():
    """A pass for the products with the pairs' weights, and one for the sums beside intercepts."""
    X, y = problem(CLASSES)
    passes = []
    for labels in (y, np.arange(N) % 9):
        data = dataset(CLASSES, stream(X), labels)
        classes, weight = len(data.classes), data.weight
        energy = softmax_energy(CLASSES, data.design, np.zeros(P), data.target, classes, weight, weight)
        (_, _, chance, diagonal), basis = energy.evaluate(np.zeros((P + 1, classes))), contrasts(classes)
        before = data.design.passes
        found = hessian_in_a_pass(energy, chance, diagonal, basis, True)
        assert found.shape == ((P + 1) * basis.shape[1],) * 2
        passes.append(data.design.passes - before)
    assert passes == [2, 2]


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["dense", "sparse", "dask"])
@pytest.mark.parametrize("name", ["classes", "classes, dropout"])
def test_classes_share_eigenvectors_beyond_a_matrix(name, storage):
    """The factor in memory, which ``test_factors.py`` holds to the precision written out."""
    model = DENSITIES[name][0]
    X, y = problem(model)
    method = bd.HMC(dtype="float64", limits=Limits(dense=5))
    with jax.enable_x64(True):
        _, streamed = bound(model, stream(X, storage), y, method=method)
        _, here = bound(model, X, y, method=method)
        factors = streamed.chains.factor, here.factor
        assert all(isinstance(factor, StructuredFactor) for factor in factors)
        size = len(here.centre)
        covariances = [np.asarray(part.times(part.transposed_times(jnp.eye(size)))) for part in factors]
    close = {"rtol": 0, "atol": 2e-3 if storage == "dask" else 1e-6}
    np.testing.assert_allclose(*covariances, **close)
    np.testing.assert_allclose(streamed.chains.centre, here.centre, **close)


@pytest.mark.slow
def test_approximate_masks_are_reported(monkeypatch):
    """As in memory where all rows may be looked at; else by some of them, brought here."""
    X, y = problem()
    model = bd.Model(rates=bd.Fixed(0.4))
    post = quietly(bd.sample, model, stream(X), y, method=METHOD)
    assert post.attrs["approximation_rows"] == N
    assert 0 < post.attrs["approximation_error"] < 0.2
    monkeypatch.setattr(approximation_error, "EFFORT", approximation_error.EffortLimits(rows=40))
    some = quietly(bd.sample, model, stream(X), y, method=METHOD)
    np.testing.assert_array_equal(weights(some), weights(post))
    assert some.attrs["approximation_rows"] == 40
    np.testing.assert_allclose(some.attrs["approximation_error"], post.attrs["approximation_error"], rtol=0.5)


# What is made of the draws.


@pytest.fixture(scope="module", params=["one score", "classes"])
def drawn(request):
    """A posterior, its rows and responses."""
    model = bd.Model(rates=bd.Fixed(0.3)) if request.param == "one score" else CLASSES
    X, y = problem(model)
    return quietly(bd.sample, model, stream(X), y, method=METHOD, log_likelihood=True), X, y


@pytest.fixture(scope="module", name="post")
def _post():
    X, y = problem()
    return quietly(bd.sample, bd.Model(rates=bd.Fixed(0.3)), stream(X), y, method=METHOD)


@pytest.mark.slow
def test_predictions_and_scores_by_blocks(drawn):
    """Of the posterior of streamed rows; those of other posteriors by blocks are in tests/laws/inputs."""
    post, X, y = drawn
    here, there = (bd.predict(post, rows) for rows in (X, stream(X, cuts=(0, 59))))
    for name in ("mean", "sd", "low", "high"):
        np.testing.assert_allclose(getattr(there, name), getattr(here, name), rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(there.label, here.label)
    sampled = bd.groups.dataset(post, "log_likelihood")["y"]
    group = bd.groups.dataset(bd.log_likelihood(post, stream(X), y), "log_likelihood")
    np.testing.assert_allclose(sampled, group["y"], rtol=1e-9)
    np.testing.assert_array_equal(group["obs_id"], np.arange(N))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert bd.loo(post).n_data_points == N
    with pytest.raises(ValueError, match="y: expected the labels .*, got others too"):
        bd.elpd(post, stream(X), np.where(np.arange(N) == 3, "z", y.astype(str)))


@pytest.mark.slow
def test_predictions_of_numbers_by_blocks():
    X, y = problem(bd.Model(bd.Squared(variance=1.0)))
    model = bd.Model(bd.Squared(variance=1.0), rates=bd.Fixed(0.3))
    fit = bd.fit(model, stream(X), y)
    here, there = bd.predict(fit, X), bd.predict(fit, stream(X))
    np.testing.assert_allclose(there.mean, here.mean, rtol=1e-10)
    # 40,000 simulated responses: an end of the interval is off by 0.01 standard deviations or so.
    np.testing.assert_allclose(there.response_low, here.response_low, atol=0.1 * np.std(y))
    np.testing.assert_allclose(bd.elpd(fit, stream(X), y).elpd, bd.elpd(fit, X, y).elpd, rtol=1e-9)


@pytest.mark.slow
def test_a_likelihood_that_would_fill_memory_is_refused(post, monkeypatch):
    X, y = problem()
    monkeypatch.setattr(pointwise, "MOST", N * 36 - 1)
    with pytest.raises(ValueError, match=r"expected at most 2,159 numbers, .* got 36 draws of 60 rows; use bd.elpd"):
        bd.log_likelihood(post, stream(X), y)
    with pytest.raises(ValueError, match="got 36 draws of 60 rows"):
        quietly(bd.sample, PLAIN, stream(X), y, log_likelihood=True)


@pytest.mark.slow
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


@pytest.mark.slow
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


# Long runs.


@pytest.mark.slow
def test_a_run_goes_on_from_its_checkpoint(tmp_path, often):
    """After an interruption in the middle of a pass; and data that differ are refused."""
    X, y = problem()
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
    "an offset of classes": (CLASSES, {"offset": np.zeros(N)}, "offset: expected a model of one score a row"),
    "an unknown variance": (
        bd.Model(bd.Squared(variance=bd.InverseGamma(2.0, 1.0)), rates=bd.Fixed(0.0)), {"method": bd.HMC()},
        r"rows that are not in memory are sampled at a known variance; take bd.Squared\(variance=",
    ),
    "classes with masks by default": (
        bd.Model(bd.Softmax()), {}, r"by default, .* take method=bd.HMC\(\) with target=\"marginalised\"",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_streamed_is_refused(name):
    model, options, words = REFUSED[name]
    X, y = problem(model)
    with pytest.raises((TypeError, ValueError), match=words):
        quietly(bd.sample, model, stream(X), y, **options)


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
