"""Laws of the factors that whiten large posteriors: by rows, by directions, by eigenvectors of classes, and by scores.

Each is a root of the covariance that it approximates, with its transpose and its inverse, so that trajectories keep the
posterior whatever it is; it has the normal posterior exactly; and passes over the rows draw what the kernel in memory
draws. False-alarm rate of NUTS, which a slow test compares with a dense factor: 5 standard errors of 64 independent
chains each (below 1e-5 by Student's t), 100 in all. All else is exact.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.hmc import score_space
from bayesdrop.hmc.approximations import precision as precise
from bayesdrop.hmc.approximations.choices import Limits
from bayesdrop.hmc.approximations.class_factor import ClassRowRoot, EigenvectorRoot, class_factor, class_scores
from bayesdrop.hmc.approximations.precision import RateLoading, centred_gram, row_factor, row_roots
from bayesdrop.hmc.binding import approximate_scores, bind_density
from bayesdrop.hmc.kernels.factors import DirectionRoot, RowRoot, unwhiten
from bayesdrop.hmc.kernels.kernel import HMCKernel
from bayesdrop.hmc.streamed import evaluation_of, one_pass
from bayesdrop.losses import EpsilonInsensitive, Hinge, Squared
from bayesdrop.sampling.matrix import samplers_matrix
from bayesdrop.sampling.run.runner import as_key, run

K, BETA, NO_NOISE = 4, bd.Beta(2, 3), bd.Fixed(0.0)
WIDE, TALL = (12, 20), (30, 6)
BY_ROWS, BY_DIRECTIONS = Limits(dense=2), Limits(dense=2, rows=0)


def scales(p):
    return bd.Normal(np.linspace(0.5, 1.5, p))


def data_of(model, n, p):
    """Two equal columns, two equal rows and one of zeros, with weights and, of one score, an offset."""
    generator = np.random.default_rng(4)
    X = generator.normal(size=(n, p)) * (generator.random((n, p)) < 0.45)
    X = np.abs(X) if isinstance(model.noise, bd.PoissonNoise) else X
    X[:, 1] = X[:, 0]
    X[3], X[5] = X[4], 0.0
    loss, score = model.loss, 2 * X[:, 0] - X[:, 2] + generator.normal(size=n)
    y = np.where(score > 0.2, 1, -1) if loss.binary else score
    if loss.multiclass:
        y = np.argmax(X[:, [0, 2, 3, 4]] + 0.5 * generator.gumbel(size=(n, K)), axis=1)
        y[:K] = np.arange(K)
    weight = np.resize([2.0, 1.0, 0.5], n)
    data = as_dataset(sparse.csr_array(X), y, weight, None, loss.binary, multiclass=loss.multiclass)
    return (data if loss.multiclass else data.with_offset(np.linspace(-0.5, 0.5, n), False)).with_weight()


def bind(model, size, method, tune=0):
    data = data_of(model, *size)
    rate_map = model.bind(data.feature_names)
    return method.bind(model, data, rate_map, tune, marginalised=not rate_map.is_free)


def columns(X, gain, intercept, moved=None):
    """``A``: columns of the weights, the intercept and the rates."""
    return np.column_stack([X * gain, np.ones((len(X), int(intercept))), *([] if moved is None else [moved])])


# A root of the covariance.


def parts_of(size, rates):
    """Random parts of ``P + ADA``: prior precisions, gains, curvatures, and how rates move the scores."""
    generator, (n, p) = np.random.default_rng(0), size
    index = {"none": np.zeros(0, int), "each": generator.permutation(p), "two": np.arange(p) % 2}[rates]
    k = len(np.unique(index))
    prior, gain, curvature = (generator.uniform(0.5, 2.0, length) for length in (p + k, p, n))
    slope = generator.normal(size=p)
    moved = slope[:, None] * (index[:, None] == np.arange(k)) if k else np.zeros((p, 0))
    return prior, gain, curvature, RateLoading(slope, index, prior[p:]) if k else None, moved


def by_rows(intercept, rates, monkeypatch):
    data = data_of(bd.Model(), *WIDE)
    (prior, gain, curvature, loading, moved), p = parts_of(WIDE, rates), WIDE[1]
    gram = data.design.outer_gram(gain**2 / prior[:p]) + (loading.gram(data.design) if loading else 0)
    roots = row_roots(centred_gram(gram, curvature, intercept), curvature)
    matrix = samplers_matrix(data.design, "float64", False)
    factor = row_factor(data, matrix, prior[:p], gain, curvature, roots, intercept, "float64", loading)
    X = data.design.matrix().toarray()
    A = columns(X, gain, intercept, X @ moved)
    return factor, np.diag(np.insert(prior, p, np.zeros(int(intercept)))) + (A.T * curvature) @ A, 1e-11


def by_directions(intercept, rates, monkeypatch):
    design = data_of(bd.Model(), *TALL).design
    (prior, gain, curvature, loading, moved), p = parts_of(TALL, rates), TALL[1]
    # As many entries as directions, whatever the matrix has.
    monkeypatch.setattr(type(design), "occurrences", lambda *_: np.full(p, float(len(prior))))
    found = precise.precision_of(design, prior, curvature, intercept, precise.loading_of(gain, loading))
    factor = precise.direction_factor(found, intercept, "float64", limit=len(prior), beyond=0.0, passes=300)
    assert factor.root.directions.shape == (len(prior), len(prior))
    exact = np.diag(found.times(np.eye(len(prior))))
    known = slice(p) if rates == "two" else slice(None)  # features that share a rate count as if in different rows
    np.testing.assert_allclose(found.diagonal()[known], exact[known], rtol=1e-11)
    X = design.matrix().toarray()
    A = columns(X, gain, intercept, X @ moved)
    return factor, np.diag(np.insert(prior, p, np.zeros(int(intercept)))) + (A.T * curvature) @ A, 1e-8


def by_eigenvectors(size, intercept, noise, monkeypatch):
    """The precision ``1 ⊗ P + M ⊗ XᵀDX``: noise adds to ``P``, or to ``XᵀDX`` where features are fewer than rows."""
    n, p = size
    rates = bd.Fixed(np.linspace(0.5, 1.5, p) * (0.3 if noise else 0.0))
    model = bd.Model(bd.Softmax(), rates=rates, C=2.0, weight_prior=scales(p), fit_intercept=intercept)
    data = data_of(model, n, p)
    rate_map = model.bind(data.feature_names)
    _, operands = bind_density("HMC", model, data, rate_map, True, "float64")
    found = class_scores(model, data, rate_map)
    factor = class_factor(found, operands.matrix, "float64")
    assert found.space.by_rows == (size == WIDE)
    assert isinstance(factor.root, ClassRowRoot if size == WIDE else EigenvectorRoot)
    gain = model.noise.coefficients(rate_map.initial).gain
    assert np.any(gain != 1) == noise == np.any(found.extra > 0.01)
    A = columns(data.design.matrix().toarray(), gain, intercept)
    q, told = p + int(intercept), (A.T * found.curvature) @ A
    prior, extra = (np.append(part, np.zeros(q - p)) for part in (model.weight_prior.precision(p), found.extra))
    own, told = (prior + extra, told) if size == WIDE else (prior, told + np.diag(extra))
    shared = found.rotation @ np.diag(found.rotated) @ found.rotation.T
    full = np.kron(np.eye(K - 1), np.diag(own)) + np.kron(shared, told)
    order = [j * q + d for j in range(K - 1) for d in range(p)] + [j * q + p for j in range(K - 1) if intercept]
    return factor, full[np.ix_(order, order)], 1e-9


FACTORS = {
    **{f"{way.__name__}, {rates}, {one}": partial(way, one, rates)
       for way in (by_rows, by_directions) for rates in ("none", "each", "two") for one in (True, False)},
    **{f"classes, {size}, {noise}, {one}": partial(by_eigenvectors, size, one, noise)
       for size in (WIDE, TALL) for one, noise in ((True, False), (False, False), (True, True))},
}  # fmt: skip


@pytest.mark.default_cases("by_directions, two, True", "classes, (30, 6), False, True", "classes, (30, 6), True, True")
@pytest.mark.parametrize("name", FACTORS)
def test_a_factor_is_a_root_of_the_covariance(name, monkeypatch):
    """``TTᵀH = 1``, and products with ``T``, its inverse and its transpose, stretched, are those of one matrix."""
    with jax.enable_x64(True):
        factor, H, accuracy = FACTORS[name](monkeypatch)
        stretch = np.random.default_rng(1).uniform(0.5, 2.0, len(H))
        factor = factor.stretched(jnp.asarray(stretch))
        products = jax.jit(lambda x: (factor.times(x), factor.solve(x), factor.transposed_times(x)))
        root, inverse, turned = (np.asarray(found) for found in products(jnp.eye(len(H))))
    T = root.T / stretch
    np.testing.assert_allclose(root @ inverse, np.eye(len(H)), atol=1e-11)
    np.testing.assert_allclose(turned, root.T, atol=1e-11)
    np.testing.assert_allclose(T @ T.T @ H, np.eye(len(H)), atol=accuracy)


@pytest.mark.slow
def test_directions_that_are_left_out_stay_as_they_were():
    """The precision in the coordinates of two directions: one along them, its own eigenvalues across."""
    design, (prior, gain, curvature, *_) = data_of(bd.Model(), *TALL).design, parts_of(TALL, "none")
    precision = precise.precision_of(design, prior, curvature, True, precise.loading_of(gain))
    diagonal = np.diag(precision.times(np.eye(TALL[1])))
    np.testing.assert_allclose(precision.diagonal(), diagonal, rtol=1e-12)
    with jax.enable_x64(True):
        factor = precise.direction_factor(precision, True, "float64", limit=2, beyond=0.0, passes=200)
        T = np.asarray(factor.times(jnp.eye(TALL[1] + 1))).T
    scale = np.asarray(factor.frame.scale)
    np.testing.assert_allclose(1 / np.square(scale), np.minimum(diagonal, 4 * prior), rtol=1e-5)
    expected = np.linalg.eigvalsh(scale[:, None] * precision.times(np.eye(TALL[1])) * scale)
    A = columns(design.matrix().toarray(), gain, True)
    H = np.diag(np.append(prior, 0.0)) + (A.T * curvature) @ A
    found = np.linalg.eigvalsh(T.T @ H @ T)
    np.testing.assert_allclose(found, np.sort(np.append(expected[:-2], [1.0, 1.0, 1.0])), atol=1e-9)


# The approximation.


@pytest.mark.slow
@pytest.mark.parametrize("name", ["scores", "directions"])
def test_a_normal_posterior_is_exact(name):
    """Its mean and covariance by linear algebra; and of scores no trajectory is rejected."""
    size = WIDE if name == "scores" else TALL
    model = bd.Model(Squared(variance=1.0), rates=NO_NOISE, C=2.0)
    data = data_of(model, *size)
    weight, A = model.C * data.weight, columns(data.design.matrix().toarray(), 1.0, True)
    covariance = np.linalg.inv(np.diag(np.append(np.ones(size[1]), 0.0)) + (A.T * weight) @ A)
    mean = covariance @ A.T @ (weight * (data.target - data.offset))
    with jax.enable_x64(True):
        kernel, operands = bind(model, size, bd.HMC(limits=BY_ROWS, dtype="float64"), tune=60)
        if name == "directions":
            np.testing.assert_allclose(scores_of(model)[1].centre, mean, atol=1e-6)
            return
        draws = run(kernel, operands, as_key(3), tune=60, draws=20, chains=64, progress=False).draws
    assert np.min(draws["acceptance_rate"]) > 1 - 1e-9
    factor = operands.factor
    np.testing.assert_allclose(operands.centre, mean, atol=1e-9)
    np.testing.assert_allclose(np.square(factor.root.rows.root), weight, rtol=1e-12)
    np.testing.assert_allclose(operands.mean, A @ mean, atol=1e-9)
    np.testing.assert_allclose(operands.covariance, A @ covariance @ A.T, atol=1e-9)
    np.testing.assert_allclose(data.design.rmatvec(np.asarray(operands.dual)), mean[:-1], atol=1e-9)


def scores_of(model):
    """Data, and the approximation by draws of the scores of many rows."""
    data = data_of(model, *TALL)
    rate_map = model.bind(data.feature_names)
    density, operands = bind_density("HMC", model, data, rate_map, True, "float64")
    return data, approximate_scores(model, data, rate_map, density, operands, "rows", "float64")


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        bd.Model(rates=NO_NOISE, C=2.0, weight_prior=scales(TALL[1])),
        bd.Model(Hinge(), rates=NO_NOISE, fit_intercept=False),
        bd.Model(Squared(variance=1.0), rates=NO_NOISE, C=2.0),
    ],
    ids=lambda model: str(model.loss),
)
def test_an_approximation_by_draws_is_nearly_a_fixed_point(model):
    """Mean slopes of the scores vanish, curvatures are their means, by quadrature; variances are those of 16 draws."""
    with jax.enable_x64(True):
        data, found = scores_of(model)
    prior = np.append(model.weight_prior.precision(TALL[1]), np.zeros(int(model.fit_intercept)))
    z = np.linspace(-9, 9, 200_001)
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) * (z[1] - z[0])
    A, curvature = columns(data.design.matrix().toarray(), 1.0, model.fit_intercept), found.precision.curvature
    whole = np.diag(prior) + (A.T * curvature) @ A
    spread = np.sqrt(np.maximum(np.sum(A * np.linalg.solve(whole, A.T).T, axis=1), 1e-12))
    score = (A @ found.centre + data.offset)[:, None] + spread[:, None] * z
    y = np.broadcast_to(data.target[:, None], score.shape)
    slope = model.loss.plain_value_and_slope(y, score)[1] * (model.C * data.weight)[:, None]
    gradient = A.T @ (slope @ density) + prior * found.centre
    # In posterior standard deviations.
    assert np.sqrt(gradient @ np.linalg.solve(whole, gradient)) < 0.5
    # Stein's identity: E l'' = E l' z / sd.
    seen = spread > 0.01
    # A piecewise-linear loss has curvatures of a few rows, which its spread of few draws sets.
    expected = ((slope @ (density * z)) / spread)[seen]
    np.testing.assert_allclose(curvature[seen], expected, atol=0.2 * expected.max())
    ratio = 16 * found.spread[seen] ** 2 / spread[seen] ** 2
    assert np.all((ratio > 0.5) & (ratio < 80))  # twice a chi-square variable of 8 degrees of freedom


def test_features_that_say_nothing():
    """Of zeros alone there is no gradient: the mean is zero, and nothing is divided by it."""
    data = as_dataset(np.zeros((6, 8)), np.array([0, 1, 2, 0, 1, 2]), multiclass=True).with_weight()
    model = bd.Model(bd.Softmax(), rates=NO_NOISE, fit_intercept=False)
    np.testing.assert_array_equal(class_scores(model, data, model.bind(data.feature_names)).centre, 0)


# The draws.

CASES = {
    "scores": (bd.Model(rates=NO_NOISE, C=2.0, weight_prior=scales(20)), WIDE, BY_ROWS),
    "scores, hinge": (bd.Model(Hinge(), rates=NO_NOISE, fit_intercept=False), WIDE, BY_ROWS),
    "scores, insensitive": (bd.Model(EpsilonInsensitive(0.2), rates=NO_NOISE, C=3.0), WIDE, BY_ROWS),
    "rows, each": (bd.Model(rates=bd.PerFeature(BETA), C=2.0), (9, 12), BY_ROWS),
    "plain": (bd.Model(rates=NO_NOISE, C=2.0, weight_prior=scales(6)), TALL, BY_DIRECTIONS),
    "hinge": (bd.Model(Hinge(), rates=NO_NOISE, fit_intercept=False), TALL, BY_DIRECTIONS),
    "squared": (bd.Model(Squared(variance=1.0), rates=NO_NOISE, C=2.0), TALL, BY_DIRECTIONS),
    "fixed": (bd.Model(rates=bd.Fixed(0.3), C=2.0, weight_prior=scales(6)), TALL, BY_DIRECTIONS),
    "shared": (bd.Model(rates=bd.Shared(BETA), C=2.0), TALL, BY_DIRECTIONS),
    "each": (bd.Model(rates=bd.PerFeature(BETA), fit_intercept=False), TALL, BY_DIRECTIONS),
    "gaussian": (bd.Model(Hinge(expectation="gaussian"), noise=bd.GaussianNoise(0.5)), TALL, BY_DIRECTIONS),
    "poisson": (bd.Model(noise=bd.PoissonNoise(), fit_intercept=False), TALL, BY_DIRECTIONS),
}


def moments_of(name, method):
    """Means over 60 draws of what is drawn and of its squares, in 64 chains; at most 24 coordinates."""
    model, size, _ = CASES[name]
    with jax.enable_x64(False):
        kernel, operands = bind(model, size, method, tune=60)
        draws = run(kernel, operands, as_key(3), tune=60, draws=60, chains=64, progress=False).draws
    assert np.mean(draws["acceptance_rate"]) > 0.6
    parts = [np.asarray(draws[key], float) for key in ("weight", "intercept", "logit_rate") if key in draws]
    theta = np.concatenate([part.reshape(64, 60, -1) for part in parts], axis=2)[:, :, -24:]
    values = np.concatenate([theta, theta**2], axis=2).mean(axis=1)
    return (kernel, operands), values.mean(axis=0), values.var(axis=0, ddof=1) / 64


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), [("plain", DirectionRoot), ("scores", RowRoot)])
def test_nuts_takes_the_factor_to_the_same_posterior(name, kind):
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):  # NumPyro's own code needs both
        (_, operands), mean, square = moments_of(name, bd.NUTS(limits=CASES[name][2], dtype="float32"))
        assert isinstance(operands.factor.root, kind)
    _, expected, other = moments_of(name, bd.HMC())
    assert np.max(np.abs(mean - expected) / np.sqrt(square + other)) < 5


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("scores")])
def test_scores_move_as_the_weights_do(name):
    """The same start and momentum lead to the same end as of the whole factor, with the same error of the energy."""
    model, size, limits = CASES[name]
    with jax.enable_x64(True):
        kernel, operands = bind(model, size, bd.HMC(limits=limits, dtype="float64"))
        assert isinstance(kernel, score_space.ScoreHMCKernel)
        general = HMCKernel(kernel.density, float("inf"))
        times, scores = (jax.jit(part) for part in (operands.factor.times, operands.scores))
        whole = operands._replace(factor=times(jnp.eye(len(operands.centre))).T)
        state, rng = jax.jit(kernel.init, static_argnums=2)(operands, jax.random.key(1), 7), np.random.default_rng(2)
        momentum = jnp.asarray(rng.normal(size=state.position.shape))
        z, moved, there = jax.jit(kernel.trajectory)(operands, state, momentum, 0.4, 5)
        beside = jax.jit(general.init, static_argnums=2)(whole, jax.random.key(1), 7)
        np.testing.assert_allclose(beside.position, state.position, rtol=1e-12)
        end, r, evaluation = jax.jit(general.trajectory)(whole, beside, momentum, 0.4, 5)
        np.testing.assert_allclose(z, end, atol=1e-9)
        np.testing.assert_allclose(moved, r, atol=1e-9)
        energies = [
            np.sum(new.cost - old.cost, axis=1) - (new.prior - old.prior)
            for new, old in ((there, state.evaluation), (evaluation, beside.evaluation))
        ]
        np.testing.assert_allclose(*energies, atol=1e-8)
        assert np.max(np.abs(energies[0])) > 1e-3
        evaluation = jax.jit(kernel.evaluation)(operands, z, scores(z))
        np.testing.assert_allclose(evaluation.cost, there.cost, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("limits", [BY_ROWS, Limits()], ids=["rows", "dense"])
def test_a_pilot_moves_the_coordinates_and_not_the_chains(limits):
    model, size, _ = CASES["rows, each"]
    with jax.enable_x64(True):
        kernel, operands = bind(model, size, bd.HMC(limits=limits, dtype="float64"), tune=40)
        state, step = kernel.init(operands, jax.random.key(0), 5), jax.jit(kernel.step)
        evaluate, seen = jax.jit(kernel.density.evaluate), []
        for number in range(40):
            before, (state, _) = state, step(operands, state)
            theta = unwhiten(state.centre, kernel.factor(operands, state), state.position)
            np.testing.assert_allclose(
                state.evaluation.cost, evaluate(operands.density, theta).cost, rtol=1e-8, atol=1e-9
            )
            if np.any(np.asarray(state.factor) != np.asarray(before.factor)):
                seen.append(number + 1)
    assert seen == [6, 16, 28]


# Passes over the rows.


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if CASES[name][2] is BY_DIRECTIONS])
def test_passes_have_the_density_and_the_draws_of_the_kernel_in_memory(name):
    """Far from the centre too; the same key, the same draws but for rounding."""
    model, size, limits = CASES[name]
    with jax.enable_x64(True):
        kernel, operands = bind(model, size, bd.HMC(limits=limits, dtype="float64"), tune=4)
        data = data_of(model, *size)
        rate_map = model.bind(data.feature_names)
        density, held = bind_density("HMC", model, data, rate_map, not rate_map.is_free, "float64")
        width = operands.rows.width
        assert (width is not None) == (name == "hinge")  # kinks are rounded where no noise rounds them
        held = held._replace(width=None if width is None else jnp.asarray(width))
        centre = operands.chains.centre[None]
        theta = centre + jnp.asarray(np.random.default_rng(5).normal(size=(4, centre.shape[1])))
        sums = one_pass(density, operands.rows, jax.jit(density.loadings)(operands.chains.density, theta))
        sums = jax.tree.map(jnp.asarray, sums)
        found = jax.jit(partial(evaluation_of, density))(operands.chains.density, theta, sums)
        evaluate = jax.jit(density.evaluate)
        expected, middle = evaluate(held, theta), evaluate(held, centre).cost.sum()
        np.testing.assert_allclose(found.cost[:, 0] + middle, expected.cost.sum(axis=1), rtol=1e-10)
        np.testing.assert_allclose(found.prior, expected.prior, rtol=1e-12)
        scale = float(jnp.max(jnp.abs(expected.gradient)))
        np.testing.assert_allclose(found.gradient, expected.gradient, atol=1e-10 * scale)
        inside = operands.chains._replace(density=held)
        state = kernel.init(operands, as_key(1), 3)
        other, step = jax.jit(kernel.inner.init, static_argnums=2)(inside, as_key(1), 3), jax.jit(kernel.inner.step)
        for _ in range(6):
            (state, record), (other, expected) = kernel.step(operands, state), step(inside, other)
            for key in {"weight", "logit_rate"} & record.keys():
                np.testing.assert_allclose(record[key], expected[key], atol=1e-9)
            np.testing.assert_allclose(state.evaluation.gradient, other.evaluation.gradient, atol=1e-7)
            np.testing.assert_allclose(np.asarray(record["lp"]) - operands.rows.base_cost, expected["lp"], atol=1e-9)
