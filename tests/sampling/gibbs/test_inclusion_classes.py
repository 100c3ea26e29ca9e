"""Indicators of several classes against all models, by a grid of the weights that are in.

The classes' probabilities depend on differences of their weights. If all ``K`` classes have a feature, its weights less
their mean are normal in ``K - 1`` dimensions and the mean is independent of them; flat intercepts are a grid of their
contrasts. Means of draws are compared with their exact values in units of their standard errors, from 20 batches; the
false-alarm rate is 1e-4 for each set of means, shared by its quantities.
"""

import itertools

import jax
import numpy as np
import pytest
from scipy import sparse, stats
from scipy.linalg import null_space
from scipy.special import betaln, logsumexp

import bayesdrop as bd
from bayesdrop.gibbs.common_shift import shift_all_classes
from bayesdrop.gibbs.inclusion import _pseudo
from bayesdrop.gibbs.moves import active_set
from bayesdrop.posterior.problem import Problem
from bayesdrop.priors.inclusion_law import InclusionLaw

FALSE_ALARM, BATCHES = 1e-4, 20

# Means are held to their standard errors, however few of the draws are effective.
pytestmark = pytest.mark.filterwarnings("ignore::bayesdrop.warnings.MixingWarning")


def assert_means(draws, exact):
    """Means of draws (C, S, ...) are the exact ones (...)."""
    draws, exact = np.asarray(draws, dtype=np.float64), np.asarray(exact)
    means = draws.reshape(BATCHES, -1, exact.size).mean(axis=1)
    z = (means.mean(axis=0) - exact.ravel()) / (means.std(axis=0, ddof=1) / np.sqrt(BATCHES) + 1e-12)
    limit = stats.t.isf(FALSE_ALARM / (2 * exact.size), BATCHES - 1)
    assert np.all(np.abs(z) < limit), (means.mean(axis=0), exact.ravel(), z)


def nodes_of(is_in, sd, count):
    """Weights of a feature in each class (N, K), those of all classes less their mean, and logarithms of masses."""
    K, m = len(is_in), int(is_in.sum())
    basis = null_space(np.ones((1, K))).T if m == K else np.eye(K)[is_in]
    points = np.linspace(-4.2, 4.2, count)
    mass = np.exp(-0.5 * points**2)
    grid = np.array(list(itertools.product(points, repeat=len(basis)))).reshape(count ** len(basis), len(basis))
    log_mass = np.log(list(itertools.product(mass / mass.sum(), repeat=len(basis)))).sum(axis=1)
    return sd * grid @ basis, log_mass


def expected(X, number, K, log_prior, scales, intercept, row_weight, count):
    """Exact means of indicators and weights (p, K), and of any function of the model ``(included, sd)``."""
    n, p = X.shape
    level, log_level = np.zeros((1, K)), np.zeros(1)
    if intercept:
        line = np.linspace(-6, 6, count + 2)
        level = np.array(list(itertools.product(line, repeat=K - 1))) @ null_space(np.ones((1, K))).T
        log_level = np.zeros(len(level))
    models = np.array(list(itertools.product([False, True], repeat=p * K))).reshape(-1, p, K)
    logs, weights, pairs = [], [], []
    for (sd, log_sd), model in itertools.product(scales, models):
        prior = log_prior(model) + log_sd
        if prior == -np.inf:
            continue
        parts = [*(nodes_of(one, sd, count) for one in model), (level, log_level)]
        place = np.indices([len(one) for one, _ in parts]).reshape(p + 1, -1)
        weight = np.stack([one[at] for (one, _), at in zip(parts, place, strict=True)], axis=1)
        log_mass = sum(mass[at] for (_, mass), at in zip(parts, place, strict=True))
        score = np.einsum("id,bdk->bik", np.column_stack([X, np.ones(n)]), weight)
        chance = np.take_along_axis(score, np.broadcast_to(number[None, :, None], (len(score), n, 1)), 2)[..., 0]
        log_joint = log_mass + (chance - logsumexp(score, axis=2)) @ row_weight
        logs.append(prior + logsumexp(log_joint))
        weights.append(np.einsum("b,bdk->dk", np.exp(log_joint - logsumexp(log_joint)), weight))
        pairs.append((model, sd))
    chance = np.exp(logs - logsumexp(logs))
    mean = np.einsum("m,mdk->dk", chance, np.array(weights))
    return (
        chance @ np.array([model.ravel() for model, _ in pairs]),
        mean,
        lambda f: sum(c * f(*pair) for c, pair in zip(chance, pairs, strict=True)),
    )


RNG = np.random.default_rng(4)
X3 = RNG.normal(size=(12, 3))
X3[:, 1] = 0.8 * X3[:, 0] + 0.6 * X3[:, 1]
NUMBER = np.array([0, 1, 2])[np.argmax(X3[:, [0]] * [1.5, 0, -1.5] + RNG.gumbel(size=(12, 3)), axis=1)]
POINTS, MASS = np.polynomial.legendre.leggauss(12)
SCALES = [(1.8 * x + 1.8, np.log(m) + stats.halfnorm.logpdf(1.8 * x + 1.8)) for x, m in zip(POINTS, MASS, strict=True)]


def with_parents(model):
    """Prior of the third feature, the interaction of the others, which needs both of them in its class."""
    may = model[0] & model[1]
    if np.any(model[2] & ~may):
        return -np.inf
    return np.sum(np.log(np.where(model[:2], 0.4, 0.6))) + np.sum(np.log(np.where(model[2], 0.4, 0.6))[may])


CASES = {
    "three": (
        3, 2, dict(inclusion=[0.3, 0.5]), False,
        lambda model: np.sum(np.log(np.where(model, [[0.3], [0.5]], [[0.7], [0.5]]))),
    ),
    "intercepts and learnt": (
        3, 1, dict(inclusion=bd.Beta(2.0, 3.0), slab=bd.Normal(bd.HalfNormal(1.0))), True,
        lambda model: betaln(2 + model.sum(), 3 + (~model).sum()),
    ),
    "forced": (
        2, 2, dict(inclusion=bd.Beta(2.0, 3.0), include=[1]), True,
        lambda model: betaln(2 + model[0].sum(), 3 + (~model[0]).sum()) if model[1].all() else -np.inf,
    ),
    "groups": (
        2, 3, dict(inclusion=0.4, groups=[[0, 1]]), False,
        lambda model: np.sum(np.log(np.where(model[1:], 0.4, 0.6))) if np.all(model[0] == model[1]) else -np.inf,
    ),
    "heredity": (
        2, 3, dict(inclusion=0.4, groups={"a": [0], "b": [1], "a:b": [2]}, heredity="strong"), False, with_parents,
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
def test_inclusion_of_classes_is_that_of_all_models(kind):
    K, p, settings, intercept, log_prior = CASES[kind]
    X, number = X3[:, :p], np.minimum(NUMBER, K - 1)
    row_weight = np.where(np.arange(12) < 3, 2.0, 1.0) if kind == "three" else np.ones(12)
    prior = bd.SpikeSlab(**{"slab": bd.Normal(0.8), **settings})
    model = bd.Model(bd.Softmax(), rates=bd.Fixed(0.0), weight_prior=prior, fit_intercept=intercept)
    data = sparse.csr_array(X) if kind == "groups" else X
    post = bd.sample(
        model, data, number, sample_weight=row_weight, draws=500, tune=50, method=bd.Gibbs(dtype="float64"),
        progress=False,
    )  # fmt: skip
    draws = bd.groups.dataset(post, "posterior").transpose("chain", "draw", "feature", "class", ...)
    learnt = kind == "intercepts and learnt"
    scales = SCALES if learnt else [(0.8, 0.0)]
    count = 19 if K == 2 else 15 if learnt else 11
    included, weight, mean_of = expected(X, number, K, log_prior, scales, intercept, row_weight, count)
    assert_means(draws["included"], included)
    assert_means(draws["inclusion_probability"], included)
    assert_means(draws["weight"] - draws["weight"].mean("class"), weight[:p] - weight[:p].mean(axis=1)[:, None])
    assert_means(draws["included"].max("class"), mean_of(lambda model, sd: model.any(axis=1)))
    assert_means(draws["model_size"], mean_of(lambda model, sd: model.sum(axis=0)))
    if intercept:
        assert_means(draws["intercept"], weight[p])
        np.testing.assert_allclose(draws["intercept"].sum("class"), 0, atol=1e-12)
    if learnt:
        assert_means(draws["weight_scale"], mean_of(lambda model, sd: sd))
        assert_means(draws["inclusion_prior"], mean_of(lambda model, sd: (2 + model.sum()) / (5 + model.size)))


@pytest.mark.slow
def test_what_classes_have_in_common_keeps_prior_and_contrasts():
    """Draws of the prior stay draws of it; differences between the classes stay as they are."""
    rng, K, precision = np.random.default_rng(0), 3, np.array([1.0, 4.0, 0.5])
    law = InclusionLaw(np.array([0, 1, 1]), np.zeros(2, dtype=bool), None, 3.0, 2.0)
    members, first = tuple(np.array(one) for one in ([0], [1, 2])), np.array([0, 1])
    units = active_set.Units(members * K, np.tile(first, K), np.array([False, True] * K), law.of_classes(K), 2)
    found = []
    for _ in range(4000):
        included = units.law.sample(rng, 1)[0].reshape(K, 2)
        weight = included[:, law.unit] * rng.normal(size=(K, 3)) / np.sqrt(precision)
        before = weight.copy()
        shift = shift_all_classes(rng, units, precision, included, weight)
        np.testing.assert_allclose(weight - before, np.tile(shift, (K, 1)), atol=1e-12)
        np.testing.assert_array_equal(weight != 0, included[:, law.unit])
        found.append(np.concatenate([included.ravel(), weight.ravel(), weight.ravel() ** 2, [included.sum() ** 2]]))
    sizes = np.arange(7)
    chance = stats.betabinom.pmf(sizes, 6, 3, 2)
    exact = np.concatenate([np.full(6, 0.6), np.zeros(9), np.tile(0.6 / precision, K), [chance @ sizes**2]])
    assert_means(np.array(found)[None], exact)


@pytest.mark.slow
def test_one_class_given_the_others():
    """Pseudo-observations are those of a logistic regression whose offset is what the other scores come to."""
    prior, row_weight = bd.SpikeSlab(0.4), np.where(np.arange(12) < 3, 2.0, 1.0)
    model = bd.Model(bd.Softmax(), rates=bd.Fixed(0.0), weight_prior=prior)
    score = np.random.default_rng(1).normal(size=(3, 12)) * 2
    with jax.enable_x64(True):
        problem = Problem.of(model, X3, NUMBER, sample_weight=row_weight)
        kernel, operands = problem.bind(bd.Gibbs(dtype="float64"), 10)
        start = kernel.init(operands, jax.random.key(0), 2000)
        state = start._replace(mean=jax.numpy.broadcast_to(score[None], (2000, 3, 12)))
        for k in range(3):
            omega, kappa, _ = map(np.asarray, _pseudo(kernel, operands.rows, jax.random.key(k), state, k))
            others = logsumexp(np.delete(score, k, axis=0), axis=0)
            np.testing.assert_allclose(kappa, row_weight * ((k == NUMBER) - 0.5) + omega * others, rtol=1e-9)
            psi = score[k] - others
            mean = row_weight * np.tanh(psi / 2) / (2 * psi)
            assert_means(omega[None], mean)


@pytest.mark.slow
def test_scores_are_those_of_the_weights():
    prior = bd.SpikeSlab(0.7, slab=bd.Normal(bd.HalfNormal(1.0)), groups=[[0, 2]])
    with jax.enable_x64(True):
        problem = Problem.of(bd.Model(bd.Softmax(), rates=bd.Fixed(0.0), weight_prior=prior), X3, NUMBER)
        kernel, operands = problem.bind(bd.Gibbs(dtype="float64"), 10)
        X, state = problem.centring.design.matrix(), kernel.init(operands, jax.random.key(0), 2)
        for _ in range(5):
            state, _ = kernel.step(operands, state)
            score = np.asarray(state.weight) @ X.T + np.asarray(state.intercept)[..., None]
            np.testing.assert_allclose(state.mean, score, atol=1e-12)
