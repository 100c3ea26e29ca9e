"""Many classes of rows that are streamed: the density, the approximation and the draws are those in memory."""

import warnings

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
from bayesdrop.hmc.kernels.factors import FactorMap
from bayesdrop.hmc.streamed import evaluation_of, one_pass
from bayesdrop.noise import Coefficients
from bayesdrop.sampling.run import checkpoint
from bayesdrop.sampling.run.runner import as_key, run

METHOD = bd.HMC(dtype="float64")
OPTIONS = {"draws": 12, "tune": 20, "chains": 3, "progress": False}
PLAIN = bd.Model(bd.Softmax(), rates=bd.Fixed(0.0))
# As many features as contrasts would hide an index that is another's.
N, P, K = 60, 2, 4
NAMES = np.array(["a", "b", "c", "d"])


def problem(positive=False):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, P)) * (rng.random((N, P)) < 0.8)
    X = np.abs(X) if positive else X
    return X, NAMES[np.argmax(1.5 * X @ rng.normal(size=(P, K)) + rng.gumbel(size=(N, K)), axis=1)]


STORED = {
    "dense": lambda X: bd.Blocks(lambda: iter(np.split(X, [25, 25, 31]))),
    "sparse": lambda X: bd.Blocks(lambda: iter([sparse.csr_array(part) for part in np.split(X, [25, 31])])),
    "dask": lambda X: da.from_array(X, chunks=((25, 6, 29), (P,))),
}


def dataset(X, y, weight=None):
    return as_dataset(X, y, weight, None, False, as_sampling_design, True).with_weight()


def bound(model, X, y, weight=None, method=METHOD):
    """Kernel and operands, those of streamed rows if they are."""
    data = dataset(X, y, weight)
    bind = method.bind_streamed if data.design.is_streamed else method.bind
    return bind(model, data, model.bind(data.feature_names), 20, marginalised=True)


def quietly(call, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few draws
        return call(*arguments, **OPTIONS | options)


def posterior(post):
    return bd.groups.dataset(post, "posterior")


class EveryPart(bd.Dropout):
    """A noise with all five coefficients."""

    def coefficients(self, rate):
        return Coefficients(1 - rate, 0.3 + rate, 0.2 * rate, 0.1 + rate, 0.5 * rate)


MODELS = {
    "plain": PLAIN,
    "no intercept": bd.Model(bd.Softmax(), rates=bd.Fixed(0.0), fit_intercept=False, C=2.0),
    "dropout": bd.Model(bd.Softmax(), rates=bd.Fixed([0.4, 0.1])),
    "normal scores": bd.Model(bd.Softmax("gaussian"), noise=bd.Dropout(unbiased=False), rates=bd.Fixed(0.3)),
    "additive": bd.Model(bd.Softmax("gaussian"), noise=bd.LaplaceNoise(0.5)),
    "linear": bd.Model(bd.Softmax(), noise=bd.PoissonNoise()),
    "every part": bd.Model(bd.Softmax(), noise=EveryPart(), rates=bd.Fixed([0.1, 0.3])),
}


@pytest.mark.default_cases("plain-dask", "normal scores-dense", "every part-sparse")
@pytest.mark.parametrize("storage", STORED)
@pytest.mark.parametrize("name", MODELS)
def test_energy_and_gradient_are_those_in_memory(name, storage):
    """To 1e-10, at points far from and near the centre, with row weights; one pass for all chains and classes."""
    model = MODELS[name]
    X, y = problem(positive=name in ("linear", "every part"))
    weight = np.linspace(0.5, 2, N)
    with jax.enable_x64(True):
        kernel, operands = bound(model, X, y, weight)
        host, streamed = bound(model, STORED[storage](X), y, weight)
        density, inside = host.inner.density, streamed.chains.density
        spread = np.random.default_rng(5).normal(size=(4, len(operands.centre)))
        theta = streamed.chains.centre[None] + jnp.asarray(spread * np.array([[0.1], [1.0], [3.0], [10.0]]))
        expected = kernel.density.evaluate(operands.density, theta)
        before = getattr(streamed.rows.design, "passes", None)
        sums = one_pass(density.of_rows, streamed.rows, density.loadings(inside, theta))
        assert before is None or streamed.rows.design.passes == before + 1
        found = evaluation_of(density, inside, theta, jax.tree.map(jnp.asarray, sums))
        expected, found = (jax.tree.map(np.asarray, value) for value in (expected, found))
    np.testing.assert_allclose(found.cost[:, 0], expected.cost.sum(axis=1), rtol=1e-10)
    np.testing.assert_allclose(found.prior, expected.prior, rtol=1e-12)
    scale = np.abs(expected.gradient).max()
    np.testing.assert_allclose(found.gradient, expected.gradient, rtol=0, atol=1e-10 * scale)


@pytest.mark.default_cases("plain-dense", "every part-sparse")
@pytest.mark.parametrize("storage", STORED)
@pytest.mark.parametrize("name", MODELS)
def test_the_approximation_is_that_in_memory(name, storage):
    """Centre and factor, whose Hessian is that of products with unit vectors."""
    model = MODELS[name]
    X, y = problem(positive=name in ("linear", "every part"))
    weight = np.linspace(0.5, 2, N)
    here, there = (dataset(rows, y, weight) for rows in (X, STORED[storage](X)))
    centre, factor = class_approximation(model, here, model.bind(here.feature_names))
    # The fits of a cluster stop where their preconditioner lets them.
    same = {"rtol": 0, "atol": 2e-3 if storage == "dask" else 1e-9}
    found = class_approximation(model, there, model.bind(there.feature_names))
    np.testing.assert_allclose(found[0], centre, **same)
    np.testing.assert_allclose(found[1], factor, **same)
    weights, energy, chance, curve = class_fit(model, here, model.bind(here.feature_names))
    basis, q = contrasts(K), len(weights) if model.fit_intercept else P
    place = [(d, j) for j in range(K - 1) for d in range(P)] + [(P, j) for j in range(K - 1)]
    row, columns = tuple(np.array(place[: q * (K - 1)]).T), []
    for d, j in zip(*row, strict=True):
        direction = np.zeros_like(weights)
        direction[d] = basis[:, j]
        columns.append((energy.product(chance, curve, direction) @ basis)[row])
    for pairs in (8.0, 0.5):
        hessian = hessian_in_a_pass(energy, chance, curve, basis, model.fit_intercept, pairs)
        np.testing.assert_allclose(hessian, columns, rtol=0, atol=1e-9 * np.abs(hessian).max())


def test_the_hessian_is_one_pass_whatever_the_number_of_classes():
    """A pass for the products with the pairs' weights, and one for the sums beside intercepts."""
    X, y = problem()
    passes = []
    for labels in (y, np.arange(N) % 9):
        data = dataset(STORED["dense"](X), labels)
        energy, chance = class_energy(data)
        before = data.design.passes
        basis = contrasts(len(data.classes))
        found = hessian_in_a_pass(energy, chance, None, basis, True)
        assert found.shape == ((P + 1) * basis.shape[1],) * 2
        passes.append(data.design.passes - before)
    assert passes == [2, 2]


def class_energy(data):
    classes, weight = len(data.classes), data.weight
    energy = softmax_energy(PLAIN, data.design, np.zeros(P), data.target, classes, weight, weight)
    return energy, energy.evaluate(np.zeros((P + 1, classes)))[2]


@pytest.mark.parametrize("storage", [pytest.param("dense", marks=pytest.mark.slow), "sparse", "dask"])
@pytest.mark.parametrize("name", ["plain", "dropout"])
def test_classes_share_eigenvectors_beyond_a_matrix(name, storage):
    """``TᵀHT = 1`` for the precision ``H = 1 ⊗ (P + E) + M ⊗ XᵀDX`` written out, at the fit in memory."""
    model, (X, y) = MODELS[name], problem()
    _, streamed = bound(model, STORED[storage](X), y, method=bd.HMC(dtype="float64", limits=Limits(dense=5)))
    factor = streamed.chains.factor
    assert isinstance(factor, FactorMap)
    data = dataset(X, y)
    fit = class_fit(model, data, model.bind(data.feature_names))
    basis, chance = contrasts(K), fit.chance
    rows = np.einsum("ka,ik,kb->iab", basis, chance, basis) - (chance @ basis)[:, :, None] * (chance @ basis)[:, None]
    bend = np.einsum("iaa->i", rows) / (K - 1)
    gain = model.noise.coefficients(model.bind(data.feature_names).initial).gain
    noised = np.column_stack([X * gain, np.ones(N)])
    extra = np.zeros(P)
    if fit.curve is not None:
        extra = np.sum([fit.curve.times(np.tile(b, (P, 1))) @ b for b in basis.T], axis=0) / (K - 1)
    told = (noised.T * bend) @ noised + np.diag(np.append(extra, 0.0))
    full = np.kron(np.eye(K - 1), np.diag([1.0] * P + [0.0])) + np.kron(rows.sum(axis=0) / bend.sum(), told)
    place = [j * (P + 1) + d for j in range(K - 1) for d in range(P)] + [j * (P + 1) + P for j in range(K - 1)]
    T = np.asarray(factor.times(jnp.eye(len(place)))).T
    close = {"rtol": 0, "atol": 2e-3 if storage == "dask" else 1e-5}
    np.testing.assert_allclose(T.T @ full[np.ix_(place, place)] @ T, np.eye(len(place)), **close)
    np.testing.assert_allclose(streamed.chains.centre[:P], fit.weights[:-1] @ basis[:, 0], **close)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "normal scores"])
def test_draws_are_those_of_the_kernel_in_memory(name):
    """From the same approximation draw by draw, through warm-up: leapfrog steps, pilots and their ends."""
    X, y = problem()
    counts = {"tune": 20, "draws": 12, "chains": 3, "progress": False}
    with jax.enable_x64(True):
        kernel, operands = bound(MODELS[name], X, y)
        host, streamed = bound(MODELS[name], STORED["dense"](X), y)
        same = streamed.chains._replace(centre=operands.centre, factor=operands.factor)
        expected = run(kernel, operands, as_key(4), **counts)
        found = run(host, streamed._replace(chains=same), as_key(4), **counts)
    assert found.draws.keys() == expected.draws.keys()
    for key, value in expected.draws.items():
        np.testing.assert_allclose(found.draws[key], value, rtol=1e-7, atol=1e-7, err_msg=key)


@pytest.mark.parametrize("storage", ["dense", pytest.param("dask", marks=pytest.mark.slow)])
def test_the_whole_of_it_is_that_in_memory(storage):
    """Fit, approximation, draws and groups, with a row of weight zero, which rows on a cluster do not take."""
    X, y = problem()
    weight = np.where(np.arange(N) == 7, 0.0 if storage == "dense" else 1.0, 1.5)
    options = {"sample_weight": weight, "method": METHOD, "feature_names": ["one", "other"]}
    here, there = (quietly(bd.sample, PLAIN, data, y, **options) for data in (X, STORED[storage](X)))
    same = {"rtol": 1e-8, "atol": 1e-8} if storage == "dense" else {"rtol": 0, "atol": 1e-3}
    for group in ("posterior", "sample_stats", "observed_data", "constant_data"):
        one, other = (bd.groups.dataset(post, group) for post in (here, there))
        assert one.data_vars.keys() == other.data_vars.keys()
        for name, value in one.data_vars.items():
            if value.dtype.kind in "fi":
                np.testing.assert_allclose(other[name], value, **same, err_msg=name)
            else:
                np.testing.assert_array_equal(other[name], value, err_msg=name)
    np.testing.assert_array_equal(posterior(there)["class"], NAMES)
    np.testing.assert_allclose(posterior(there)["weight"].sum("class"), 0, atol=1e-12)


def test_learnt_scales_are_those_in_memory():
    """Energy and gradient to 1e-10, in the coordinates of one approximation."""
    model = bd.Model(bd.Softmax(), rates=bd.Fixed(0.0), weight_prior=bd.Normal(bd.HalfCauchy(1.0), groups=["a", "b"]))
    X, y = problem()
    with jax.enable_x64(True):
        kernel, operands = bound(model, X, y)
        host, streamed = bound(model, STORED["dense"](X), y)
        density, inside = host.inner.density, streamed.chains.density
        together = inside._replace(given=operands.density.given)
        theta = jnp.asarray(np.random.default_rng(5).normal(size=(4, len(streamed.chains.centre))))
        expected = kernel.density.evaluate(together, theta)
        sums = jax.tree.map(jnp.asarray, one_pass(density.of_rows, streamed.rows, density.loadings(inside, theta)))
        found = evaluation_of(density, inside, theta, sums)
        expected, found = (jax.tree.map(np.asarray, value) for value in (expected, found))
        drawn = run(host, streamed, as_key(4), tune=5, draws=5, chains=2, progress=False).draws
    np.testing.assert_allclose(found.cost[:, 0], expected.cost.sum(axis=1), rtol=1e-10)
    scale = np.abs(expected.gradient).max()
    np.testing.assert_allclose(found.gradient, expected.gradient, rtol=0, atol=1e-10 * scale)
    assert drawn["log_weight_scale"].shape[-1] == 2


@pytest.mark.slow
@pytest.mark.parametrize("learnt", [False, True])
def test_a_posterior_of_many_rows(learnt):
    """Its mean and spread are those in memory, by approximations of their own.

    The largest of 12 differences of means over its standard error, of 4,000 draws that count for a thousand at least,
    is above 6 in one of 4e7 runs; of spreads, whose standard errors are those of normal draws, likewise.
    """
    rng = np.random.default_rng(8)
    X = rng.normal(size=(1000, P))
    y = NAMES[np.argmax(X @ rng.normal(size=(P, K)) + rng.gumbel(size=(1000, K)), axis=1)]
    prior = bd.Normal(bd.HalfNormal(1.0)) if learnt else bd.Normal(1.0)
    model = bd.Model(bd.Softmax(), rates=bd.Fixed(0.0), weight_prior=prior)
    rows = bd.Blocks(lambda: iter(np.split(X, [300, 700])))
    draws = []
    for data, seed in ((X, 1), (rows, 2)):
        post = quietly(bd.sample, model, data, y, draws=1000, tune=300, chains=4, seed=seed, method=METHOD)
        draw = posterior(post)
        draws.append(np.concatenate([draw["weight"].values, draw["intercept"].values[..., None]], axis=-1))
    flat = [draw.reshape(-1, K * (P + 1)) for draw in draws]
    sizes = [effective(draw) for draw in draws]
    assert min(size.min() for size in sizes) > 1000
    spread = flat[0].std(axis=0)
    error = spread * np.sqrt(sum(1 / size for size in sizes)).ravel()
    assert np.all(np.abs(flat[0].mean(axis=0) - flat[1].mean(axis=0)) < 6 * error)
    assert np.all(np.abs(flat[1].std(axis=0) / spread - 1) < 6 * np.sqrt(1 / 1000))


def effective(draw):
    """Effective sizes by batch means, 25 batches of each chain."""
    chains, count = draw.shape[:2]
    batches = draw.reshape(chains, 25, count // 25, *draw.shape[2:]).mean(axis=2).reshape(chains * 25, -1)
    total = draw.reshape(chains * count, -1).var(axis=0)
    return np.minimum(total / (batches.var(axis=0, ddof=1) / (chains * 25)), chains * count)


# What is made of the draws.


@pytest.fixture(scope="module", name="post")
def _post():
    X, y = problem()
    return quietly(bd.sample, PLAIN, STORED["dense"](X), y, log_likelihood=True)


def test_predictions_and_scores_by_blocks(post):
    X, y = problem()
    for storage in ("dense", "sparse"):
        blocks = STORED[storage](X)
        here, there = bd.predict(post, X), bd.predict(post, blocks)
        for name in ("mean", "sd", "low", "high"):
            np.testing.assert_allclose(getattr(there, name), getattr(here, name), rtol=1e-10, atol=1e-12)
        np.testing.assert_array_equal(there.label, here.label)
        np.testing.assert_allclose(bd.elpd(post, blocks, y).pointwise, bd.elpd(post, X, y).pointwise, rtol=1e-9)
        groups = [bd.groups.dataset(bd.log_likelihood(post, rows, y), "log_likelihood")["y"] for rows in (X, blocks)]
        np.testing.assert_allclose(groups[1], groups[0], rtol=1e-9)
    np.testing.assert_allclose(bd.groups.dataset(post, "log_likelihood")["y"], groups[0], rtol=1e-9)
    simulated = bd.groups.dataset(bd.posterior_predictive(post, STORED["dense"](X)), "posterior_predictive")["y"]
    assert simulated.shape == (3, 12, N)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert bd.loo(post).n_data_points == N
    unseen = np.where(y == "a", "z", y)
    with pytest.raises(ValueError, match="y: expected the labels .*, got others too"):
        bd.elpd(post, STORED["dense"](X), unseen)


def test_variables_a_stop_rule_and_a_checkpoint(tmp_path, monkeypatch):
    X, y = problem()
    stopped = quietly(
        bd.sample, PLAIN, STORED["dense"](X), y, draws=4000, stop=bd.Stop(ess=50, r_hat=1.2), variables=["intercept"]
    )
    assert stopped.attrs["stopped"] == "target"
    assert posterior(stopped).sizes["draw"] < 4000
    assert "weight" not in posterior(stopped)
    monkeypatch.setattr(checkpoint, "_SECONDS", 0.0)
    monkeypatch.setattr(checkpoint, "_SHARE", 0.0)
    calls, last = [], None

    def source():
        for part in np.split(X, [25, 31]):
            calls.append(1)
            if len(calls) == last:
                raise KeyboardInterrupt
            yield part

    whole = quietly(bd.sample, PLAIN, bd.Blocks(source), y)
    total, calls[:] = len(calls), []
    blocks, last = bd.Blocks(source), total - 20
    with pytest.raises(KeyboardInterrupt):
        quietly(bd.sample, PLAIN, blocks, y, checkpoint=tmp_path / "run")
    last = None
    found = quietly(bd.sample, PLAIN, bd.Blocks(source), y, checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(posterior(found)["weight"], posterior(whole)["weight"])


# Bad input. What the model cannot be is with the refusals of one score.


def test_blocks_that_change_while_sampling_are_an_error():
    X, y = problem()
    passes = [0]

    def source():
        passes[0] += 1
        parts = np.split(X.copy(), [25, 31])
        if passes[0] > 80:
            parts[1][0, 0] += 1.0
        return iter(parts)

    with pytest.raises(ValueError, match="has changed.*samplers need the same data"):
        quietly(bd.sample, PLAIN, bd.Blocks(source), y, draws=100)
    assert passes[0] == 81


def test_labels_and_offsets_that_no_softmax_takes():
    X, y = problem()
    with pytest.raises(ValueError, match="expected at least two classes, got one"):
        quietly(bd.sample, PLAIN, STORED["dense"](X), np.full(N, "a"))
    with pytest.raises(ValueError, match="offset: expected a model of one score a row"):
        quietly(bd.sample, PLAIN, STORED["dense"](X), y, offset=np.zeros(N))
    own = bd.Model(bd.Softmax(class_rates=True), rates=bd.Fixed(0.3))
    with pytest.raises(ValueError, match="leave class_rates out"):
        quietly(bd.sample, own, STORED["dense"](X), y, target="marginalised")
