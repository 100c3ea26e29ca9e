"""Draws under a spike-and-slab prior against all models enumerated, and its moves against direct algebra.

Marginal likelihoods are in closed form for the squared loss and by a grid of the weights for the other losses. Means of
draws are compared with their exact values in units of their standard errors, from 20 batches; the false-alarm rate is
1e-4 for each set of means, shared by its quantities.
"""

import itertools

import jax
import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from scipy.special import betaln, logsumexp

import bayesdrop as bd
from bayesdrop.gibbs.moves import active_set, parameters
from bayesdrop.posterior.problem import Problem
from bayesdrop.priors import RandomEffects
from bayesdrop.priors.inclusion_law import InclusionLaw
from bayesdrop.rates import LeadingRates
from bayesdrop.sampling.propriety import separates

FALSE_ALARM, BATCHES = 1e-4, 20

# Means are held to their standard errors, however few of the draws are effective.
pytestmark = pytest.mark.filterwarnings("ignore::bayesdrop.warnings.MixingWarning")


def sampled(model, X, y, draws=250, **options):
    method = bd.Gibbs(dtype="float64")
    post = bd.sample(model, X, y, draws=draws, tune=50, method=method, progress=False, **options)
    return bd.groups.dataset(post, "posterior")


def assert_means(draws, exact):
    """Means of draws (C, S, q) are the exact ones (q,)."""
    draws = np.asarray(draws, dtype=np.float64)
    count = BATCHES // len(draws)
    size = draws.shape[1] // count
    means = draws[:, : size * count].reshape(BATCHES, size, -1).mean(axis=1)
    z = (means.mean(axis=0) - exact) / (means.std(axis=0, ddof=1) / np.sqrt(len(means)) + 1e-12)
    limit = stats.t.isf(FALSE_ALARM / (2 * len(exact)), len(means) - 1)
    assert np.all(np.abs(z) < limit), (means.mean(axis=0), exact, z)


def models_of(units, forced=()):
    """Every model: indicators of the units, and of their features."""
    every = np.array(list(itertools.product([False, True], repeat=max(units) + 1)))
    every = every[np.all(every[:, list(forced)], axis=1)]
    return every, every[:, units]


def normal_evidence(Z, y, precision, prior_row=None):
    """Log evidence of a normal model of unit variance, and its mean weights; a precision of 0 is a flat prior."""
    Q, u = Z.T @ Z + np.diag(precision), Z.T @ y
    if prior_row is not None:
        row, tau, mean = prior_row
        Q, u = Q + tau * np.outer(row, row), u + tau * mean * row
    w = np.linalg.solve(Q, u)
    return 0.5 * np.sum(np.log(precision[precision > 0])) - 0.5 * np.linalg.slogdet(Q)[1] + 0.5 * u @ w, w


RNG = np.random.default_rng(3)
X8 = RNG.normal(size=(40, 8))
X8[:, 1] = 0.9 * X8[:, 0] + 0.4 * X8[:, 1]
X8[:, 5] = 0.9 * X8[:, 4] + 0.4 * X8[:, 5]
Y8 = 0.5 * X8[:, 0] + 0.4 * X8[:, 4] + 1.0 + RNG.normal(size=40)
PRIORS = {
    "one probability": (dict(inclusion=0.3), lambda units: np.log(0.3 / 0.7) * units.sum(axis=1)),
    "learnt": (
        dict(inclusion=bd.Beta(2.0, 3.0)),
        lambda units: betaln(2 + units.sum(axis=1), 3 + (~units).sum(axis=1)),
    ),
    "size": (dict(expected_size=2), lambda units: betaln(1 + units.sum(axis=1), 3 + (~units).sum(axis=1))),
    "each": (
        dict(inclusion=np.linspace(0.1, 0.8, 8)),
        lambda units: units @ np.log(np.linspace(0.1, 0.8, 8) / (1 - np.linspace(0.1, 0.8, 8))),
    ),
    "forced": (dict(inclusion=0.3, include=["x2", 4]), lambda units: np.log(0.3 / 0.7) * units.sum(axis=1)),
    "groups": (
        dict(inclusion=bd.Beta(1, 1), groups=[["x0", "x4"], ["x1", "x2", "x3"]]),
        lambda units: betaln(1 + units.sum(axis=1), 1 + (~units).sum(axis=1)),
    ),
}
UNITS = {"groups": np.array([0, 1, 1, 1, 0, 2, 3, 4])}


@pytest.mark.slow_cases("one probability", "size", "each", "forced")
@pytest.mark.parametrize("kind", PRIORS)
def test_inclusion_is_that_of_all_models(kind):
    settings, log_prior = PRIORS[kind]
    offset = 0.3 * X8[:, 3] if kind == "learnt" else None
    level = bd.Normal(0.5, mean=1.0) if kind == "each" else None
    model = bd.Model(
        bd.Squared(variance=1.0), rates=bd.Fixed(0.0), weight_prior=bd.SpikeSlab(slab=bd.Normal(0.8), **settings),
        intercept_prior=level,
    )  # fmt: skip
    X = sparse.csr_array(X8) if kind == "size" else X8
    post = sampled(model, X, Y8, offset=offset)
    units, features = models_of(UNITS.get(kind, np.arange(8)), (2, 4) if kind == "forced" else ())
    y = Y8 if offset is None else Y8 - offset
    logs, weights = [], np.zeros((len(features), 9))
    for m, is_in in enumerate(features):
        columns = np.append(np.flatnonzero(is_in), 8)
        Z = np.column_stack([X8, np.ones(40)])[:, columns]
        row = None if level is None else (np.append(X8.mean(axis=0), 1.0)[columns], 4.0, 1.0)
        precision = np.append(np.full(is_in.sum(), 0.8**-2), 0.0)
        log_evidence, weights[m, columns] = normal_evidence(Z, y, precision, row)
        logs.append(log_evidence)
    chance = np.array(logs) + log_prior(units)
    chance = np.exp(chance - logsumexp(chance))
    exact = chance @ features
    assert_means(post["included"], exact)
    assert_means(post["inclusion_probability"], exact)
    assert_means(post["weight"], chance @ weights[:, :8])
    assert_means(post["model_size"].values[..., None], [chance @ features.sum(axis=1)])
    pairs = post["included"].values[..., [0, 4]] * post["included"].values[..., [1, 5]]
    assert_means(pairs, [chance @ (features[:, 0] & features[:, 1]), chance @ (features[:, 4] & features[:, 5])])
    if kind == "learnt":
        expected = (2 + units.sum(axis=1)) / 13
        assert_means(post["inclusion_prior"].values[..., None], [chance @ expected])


X3 = np.random.default_rng(5).normal(size=(24, 3))
X3[:, 1] = 0.8 * X3[:, 0] + 0.6 * X3[:, 1]
SCORE3 = 0.7 * X3[:, 0]
NOISE3 = np.random.default_rng(6).normal(size=24)
LOSSES = {
    "logistic": bd.Logistic(),
    "hinge": bd.Hinge(),
    "binomial": bd.Binomial(3),
    "negative binomial": bd.NegativeBinomial(2.0),
    "quantile": bd.Quantile(0.3, scale=1.0),
    "epsilon-insensitive": bd.EpsilonInsensitive(0.2),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LOSSES)
def test_losses_against_a_grid(kind):
    loss = LOSSES[kind]
    if loss.binary:
        y = np.where(SCORE3 + NOISE3 > 0, 1.0, -1.0)
    elif kind == "binomial":
        y = np.clip(np.round(1.5 + SCORE3 + NOISE3), 0, 3)
    else:
        y = np.round(np.exp(SCORE3 + 0.5 * NOISE3)) if kind == "negative binomial" else SCORE3 + NOISE3
    prior = bd.SpikeSlab(0.4, slab=bd.Normal(1.0))
    model = bd.Model(loss, rates=bd.Fixed(0.0), weight_prior=prior, fit_intercept=False)
    post = sampled(model, X3, y)
    _, features = models_of(np.arange(3))
    nodes = np.linspace(-6, 6, 61)
    logs, weights = [], np.zeros((8, 3))
    for m, is_in in enumerate(features):
        columns = np.flatnonzero(is_in)
        grid = np.array(list(itertools.product(nodes, repeat=len(columns)))).reshape(61 ** len(columns), len(columns))
        scores = grid @ X3[:, columns].T
        cost = loss.value(np.broadcast_to(y, scores.shape), scores, np.zeros_like(scores)).sum(axis=1)
        log_joint = -cost + stats.norm.logpdf(grid).sum(axis=1) + len(columns) * np.log(nodes[1] - nodes[0])
        logs.append(logsumexp(log_joint) + is_in.sum() * np.log(0.4 / 0.6))
        weights[m, columns] = np.exp(log_joint - logsumexp(log_joint)) @ grid
    chance = np.exp(np.array(logs) - logsumexp(logs))
    assert_means(post["included"], chance @ features)
    assert_means(post["inclusion_probability"], chance @ features)
    assert_means(post["weight"], chance @ weights)


SITES = np.arange(40) % 4
HALF = np.linspace(0.02, 5, 60)  # scales
LOG_HALF = stats.halfnorm.logpdf(HALF)


def by_site(X, **columns):
    return pd.DataFrame({f"x{j}": column for j, column in enumerate(X.T)} | columns)


@pytest.mark.slow
@pytest.mark.parametrize("learnt", [False, True])
def test_random_terms_never_leave(learnt):
    """Normal responses against all models and grids of the scales of slab and effects."""
    X, y = X8[:, :3], Y8 + np.array([0.8, -0.6, 0.1, -0.4])[SITES]
    slab = bd.Normal(bd.HalfNormal(1.0)) if learnt else bd.Normal(0.8)
    model = bd.Model(bd.Squared(variance=1.0), rates=bd.Fixed(0.0), weight_prior=bd.SpikeSlab(0.3, slab=slab))
    data = by_site(X, site=[f"s{k}" for k in SITES], y=y)
    formula = "y ~ x0 + x1 + x2 + (1 | site)"
    post = sampled(model, formula, data, draws=500, random_scale=bd.HalfNormal(1.0))
    _, features = models_of(np.arange(3))
    whole = np.column_stack([X, SITES[:, None] == np.arange(4), np.ones(40)])
    logs, values = [], []
    for sd, log_sd in zip(HALF[2::3], LOG_HALF[2::3], strict=True) if learnt else [(0.8, 0.0)]:
        for scale, log_scale in zip(HALF, LOG_HALF, strict=True):
            for is_in in features:
                columns = np.append(np.flatnonzero(is_in), np.arange(3, 8))
                precision = np.append(np.append(np.full(is_in.sum(), sd**-2.0), np.full(4, scale**-2.0)), 0.0)
                log_evidence, weight = normal_evidence(whole[:, columns], y, precision)
                all_weights = np.zeros(8)
                all_weights[columns] = weight
                Z, places = whole[:, columns], np.flatnonzero((columns > 2) & (columns < 7))
                spread = np.diag(np.linalg.inv(Z.T @ Z + np.diag(precision)))[places]
                ratio = np.sum(weight[places] ** 2 + spread) / scale**2
                logs.append(log_evidence + log_scale + log_sd + is_in.sum() * np.log(0.3 / 0.7))
                values.append(np.concatenate([is_in, all_weights[:7], [scale, np.log(scale), ratio, sd, np.log(sd)]]))
    exact = np.exp(logs - logsumexp(logs)) @ np.array(values)
    assert_means(post["included"], exact[:3])
    assert_means(post["inclusion_probability"], exact[:3])
    assert_means(np.concatenate([post["weight"], post["1|site"]], axis=2), exact[3:10])
    scale = post["1|site|scale"].values[..., None]
    # The effects in units of their scale, which the move along rays keeps.
    ratio = np.sum(post["1|site"].values ** 2, axis=2, keepdims=True) / scale**2
    assert_means(np.concatenate([scale, np.log(scale), ratio], axis=2), exact[10:13])
    if learnt:
        sd = post["weight_scale"].values[..., None]
        assert_means(np.concatenate([sd, np.log(sd)], axis=2), exact[13:])
    np.testing.assert_array_equal(post["model_size"], post["included"].sum("feature"))


@pytest.mark.slow
def test_scores_are_those_of_the_weights_after_scales_are_drawn():
    X, levels = np.column_stack([X8[:, :3], SITES[:, None] == np.arange(4)]), [list("abcd")]
    prior = RandomEffects(bd.SpikeSlab(0.5, slab=bd.Normal(bd.HalfNormal(1.0))), ["1|site"], levels, [bd.HalfNormal()])
    rates = LeadingRates(bd.Fixed(0.0), 4)
    model = bd.Model(bd.Squared(variance=1.0), rates=rates, weight_prior=prior, fit_intercept=False)
    with jax.enable_x64(True):
        kernel, operands = Problem.of(model, X, Y8).bind(bd.Gibbs(dtype="float64"), 10)
        state = kernel.init(operands, jax.random.key(0), 2)
        for _ in range(5):
            state, _ = kernel.step(operands, state)
            np.testing.assert_allclose(state.mean, np.asarray(state.weight) @ X.T, atol=1e-12)


@pytest.mark.slow
def test_random_terms_of_classes_against_a_grid():
    X, site = X3[:12, :2], np.arange(12) % 2
    y = np.where(SCORE3[:12] + site + NOISE3[:12] > 0, 1.0, -1.0)
    model = bd.Model(rates=bd.Fixed(0.0), weight_prior=bd.SpikeSlab(0.4))
    data = by_site(X, site=np.array(["n", "s"])[site], y=y)
    post = sampled(model, "y ~ 0 + x0 + x1 + (1 | site)", data, draws=500)
    _, features = models_of(np.arange(2))
    nodes = np.linspace(-4.5, 4.5, 19)
    logs, values = [], []
    for is_in, (scale, log_scale) in itertools.product(features, zip(HALF[1::3], LOG_HALF[1::3], strict=True)):
        columns = np.append(np.flatnonzero(is_in), [2, 3])
        grid = np.array(list(itertools.product(nodes, repeat=len(columns))))
        weight = np.zeros((len(grid), 4))
        weight[:, columns] = grid
        weight[:, 2:] *= scale
        scores = weight @ np.column_stack([X, site[:, None] == np.arange(2)]).T
        log_joint = stats.norm.logpdf(grid).sum(axis=1) - np.logaddexp(0, -y * scores).sum(axis=1)
        total = logsumexp(log_joint)
        step = np.log(nodes[1] - nodes[0])
        logs.append(total + len(columns) * step + log_scale + is_in.sum() * np.log(0.4 / 0.6))
        values.append(np.concatenate([is_in, np.exp(log_joint - total) @ weight, [scale]]))
    exact = np.exp(logs - logsumexp(logs)) @ np.array(values)
    assert_means(post["included"], exact[:2])
    assert_means(np.concatenate([post["weight"], post["1|site"]], axis=2), exact[2:6])
    assert_means(post["1|site|scale"].values[..., None], exact[6:])


@pytest.mark.slow
@pytest.mark.parametrize(("heredity", "inclusion"), [("strong", 0.4), ("weak", bd.Beta(2.0, 3.0))])
def test_interactions_need_their_parents(heredity, inclusion):
    """Every set that heredity allows, two of the factors being nearly the same; only the interaction has an effect."""
    X, y = X8[:, :3] / 2, 0.8 * X8[:, 1] * X8[:, 2] + Y8
    data = by_site(X, site=[f"s{k}" for k in SITES // 2], y=y)
    formula = "y ~ x0 + x1 + x2 + site + x0:x2 + x1:x2 + x0:x1 + x1:site"
    prior = bd.SpikeSlab(inclusion, slab=bd.Normal(0.8), groups="terms", heredity=heredity)
    model = bd.Model(bd.Squared(variance=1.0), rates=bd.Fixed(0.0), weight_prior=prior)
    post = sampled(model, formula, data, draws=500)
    design = bd.from_formula(formula, data)
    terms = list(dict.fromkeys(design.groups))
    place = [terms.index(term) for term in design.groups]
    units, features = models_of(np.array(place))
    parents = {child: [terms.index(one) for one in child.split(":")] for child in terms if ":" in child}
    enough = all if heredity == "strong" else any
    logs, weights, kept = [], [], []
    for is_in, columns in zip(units, features, strict=True):
        can = np.array([term not in parents or enough(is_in[parents[term]]) for term in terms])
        if np.any(is_in & ~can):
            continue
        k, m = is_in.sum(), can.sum()
        known = k * np.log(0.4) + (m - k) * np.log(0.6)
        log_prior = known if inclusion == 0.4 else betaln(2 + k, 3 + m - k)
        chosen = np.append(np.flatnonzero(columns), len(place))
        whole = np.column_stack([design.X, np.ones(40)])
        log_evidence, found = normal_evidence(whole[:, chosen], y, np.append(np.full(columns.sum(), 0.8**-2), 0.0))
        weight = np.zeros(len(place) + 1)
        weight[chosen] = found
        logs.append(log_evidence + log_prior)
        weights.append(weight[:-1])
        kept.append(columns)
    chance = np.exp(logs - logsumexp(logs))
    exact = chance @ np.array(kept)
    assert_means(post["included"], exact)
    assert_means(post["inclusion_probability"], exact)
    assert_means(post["weight"], chance @ np.array(weights))
    found = np.unique(post["included"].values.reshape(-1, len(place)), axis=0)
    assert {tuple(row) for row in found.tolist()} <= {tuple(row) for row in np.array(kept).astype(int).tolist()}
    assert len(found) > 5


@pytest.mark.parametrize("seed", range(5))
def test_the_set_follows_its_moves(seed):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(30, 6)) * (rng.random((30, 6)) < 0.7), np.ones(30)])
    matrix = sparse.csr_array(X.T) if seed % 2 else X.T
    rows = active_set.Rows(
        matrix, matrix * matrix, rng.gamma(2.0, size=30), rng.normal(size=30), np.append(rng.gamma(2.0, size=6), 0.0)
    )
    members = tuple(map(np.array, ([0], [1], [2], [3], [4, 5])))
    law = InclusionLaw(np.array([0, 1, 2, 3, 4, 4]), np.zeros(5, dtype=bool), rng.uniform(size=5), 1.0, 1.0)
    units = active_set.Units(members, np.array([0, 1, 2, 3, 4]), np.arange(5) == 4, law, 2)
    near = tuple(map(np.array, ([1, 2], [0, 2], [0, 1]))) + (np.array([], dtype=int),) * 2
    is_in = np.array([True, False, False, False, True])
    found, _ = active_set.sweep(
        rows,
        units,
        near,
        is_in,
        np.array([0, 4, 5, 6]),
        rng.permutation(5),
        np.log(rng.random(5)),
        rng.random((6, 3)),
        np.zeros((0, 3)),
    )
    columns = np.append(np.concatenate([members[unit] for unit in np.flatnonzero(is_in)] or [[]]), 6).astype(int)
    np.testing.assert_array_equal(np.sort(found.columns), np.sort(columns))
    found.watch(np.arange(6))
    for d in range(6):
        others = found.columns[found.columns != d]
        Z, x = X[:, others], X[:, d]
        A = np.linalg.inv(Z.T @ (rows.omega[:, None] * Z) + np.diag(rows.precision[others]))
        c = Z.T @ (rows.omega * x)
        scale = rows.precision[d] + x @ (rows.omega * x) - c @ A @ c
        np.testing.assert_allclose(found.scale[d], scale, rtol=1e-9)
        np.testing.assert_allclose(found.pull[d], x @ rows.kappa - c @ A @ Z.T @ rows.kappa, rtol=1e-8, atol=1e-10)
    Z = X[:, found.columns]
    A = np.linalg.inv(Z.T @ (rows.omega[:, None] * Z) + np.diag(rows.precision[found.columns]))
    np.testing.assert_allclose(found.inverse, A, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.mean, A @ Z.T @ rows.kappa, rtol=1e-9, atol=1e-12)


def test_a_set_grows_and_shrinks():
    """From no column to all of 45, and back to 5, against the inverse."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(60, 45))
    rows = active_set.Rows(X.T, X.T**2, rng.gamma(2.0, size=60), rng.normal(size=60), rng.gamma(2.0, size=45))
    active, moves = active_set.ActiveSet(rows, np.arange(0)), rng.permutation(45)
    active.watch(np.arange(45))
    for move, order in ((active.enter, moves), (active.leave, moves[5:])):
        for d in order:
            move(d)
        Z = X[:, active.columns]
        A = np.linalg.inv(Z.T @ (rows.omega[:, None] * Z) + np.diag(rows.precision[active.columns]))
        np.testing.assert_allclose(active.inverse, A, rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(active.mean, A @ Z.T @ rows.kappa, rtol=1e-7, atol=1e-10)
    assert set(active.columns) == set(moves[:5])


def test_one_of_two_nearly_equal_columns_leaves_under_a_wide_slab():
    """Its Bayes factor afterwards, when most digits of the other weight's variance cancel, is that of a new set."""
    rng = np.random.default_rng(0)
    x, ones = rng.normal(size=200), np.ones(200)
    X = np.column_stack([x, x + 1e-4 * rng.normal(size=200), ones])
    rows = active_set.Rows(X.T, X.T**2, ones, x + rng.normal(size=200), np.array([1e-6, 1e-6, 0.0]))
    active, fresh = (active_set.ActiveSet(rows, np.array(columns)) for columns in ([0, 1, 2], [0, 2]))
    active.watch(np.arange(2))
    active.leave(1)
    for one in (active, fresh):
        one.watch(np.arange(2))
    np.testing.assert_allclose(active.gain(np.array([0, 1])), fresh.gain(np.array([0, 1])), rtol=1e-6)


def test_equal_columns_that_rounding_cannot_separate_are_an_error_that_says_what_to_do():
    X = np.ones((20, 2))
    rows = active_set.Rows(X.T, X.T, np.ones(20), np.ones(20), np.full(2, 1e-20))
    with pytest.raises(ValueError, match=r"narrower slab in bd\.SpikeSlab"):
        active_set.ActiveSet(rows, np.arange(2))


def test_windows_leave_a_sweep_as_it_is():
    """The same uniform numbers with windows of one unit, of three and of all of them, among them a group."""
    rng = np.random.default_rng(9)
    X = rng.normal(size=(40, 12))
    X[:, 1::2] += X[:, ::2]
    matrix = sparse.csr_array(X.T)
    rows = active_set.Rows(matrix, matrix * matrix, rng.gamma(2.0, size=40), 3 * rng.normal(size=40), np.ones(12))
    unit = np.minimum(np.arange(12), 10)
    members = tuple(np.flatnonzero(unit == j) for j in range(11))
    law = InclusionLaw(unit, np.zeros(11, dtype=bool), None, 1.0, 1.0)
    near = (*(np.array([j ^ 1]) for j in range(10)), np.array([], dtype=int))
    chance = rng.permutation(11), np.log(rng.random(11)), rng.random((40, 3)), np.zeros((0, 3))
    results = []
    for at_once in (1, 3, 11):
        units = active_set.Units(members, np.arange(11), np.arange(11) == 10, law, at_once)
        is_in = np.arange(11) < 4
        _, log_odds = active_set.sweep(rows, units, near, is_in, np.arange(4), *chance)
        results.append((is_in, log_odds))
    assert np.any(results[0][0] != (np.arange(11) < 4))
    for is_in, log_odds in results[1:]:
        np.testing.assert_array_equal(is_in, results[0][0])
        np.testing.assert_allclose(log_odds, results[0][1], rtol=1e-8)


@pytest.mark.slow
def test_swaps_have_neighbourhoods_of_different_sizes():
    """Sweeps at known pseudo-observations, many swaps along a star of neighbours, against all models."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(30, 5))
    X[:, 1:] += X[:, :1]
    y = 0.3 * X[:, 0] + rng.normal(size=30)
    matrix = sparse.csr_array(X.T)
    rows = active_set.Rows(matrix, matrix * matrix, np.ones(30), y, np.ones(5))
    own = np.arange(5)
    units = active_set.Units(
        tuple(own[:, None]), own, own < 0, InclusionLaw(own, own < 0, np.full(5, 1 / (1 + np.e)), 1.0, 1.0), 2
    )
    star = (own[1:], *[own[:1]] * 4)
    is_in, found = np.zeros(5, dtype=bool), []
    for _ in range(1500):
        order = rng.permutation(5)
        # One proposal to enter or to leave, and many swaps.
        active_set.sweep(
            rows,
            units,
            star,
            is_in,
            np.flatnonzero(is_in),
            order,
            np.where(own == 0, np.log(rng.random(5)), np.inf),
            rng.random((6, 3)),
            np.zeros((0, 3)),
        )
        found.append(is_in.copy())
    _, features = models_of(own)
    logs = [normal_evidence(X[:, one], y, np.ones(one.sum()))[0] - one.sum() for one in features]
    assert_means(np.array(found)[None], np.exp(logs - logsumexp(logs)) @ features)


def test_no_feature_can_be_in():
    X = np.random.default_rng(0).normal(size=(20, 2))
    prior = bd.SpikeSlab(0.0)
    model = bd.Model(bd.Squared(variance=1.0), rates=bd.Fixed(0.0), weight_prior=prior, fit_intercept=False)
    post = sampled(model, X, np.ones(20), draws=4, chains=1)
    assert not np.any(post["weight"])
    assert not np.any(post["inclusion_probability"])


@pytest.mark.slow
def test_separated_classes_have_a_posterior():
    X = np.column_stack([np.linspace(-1, 1, 20), np.ones(20)])
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    assert separates(X, y)
    model = bd.Model(rates=bd.Fixed(0.0), weight_prior=bd.SpikeSlab(slab=bd.Normal(bd.HalfNormal(1.0))))
    post = sampled(model, X, y, draws=50, chains=2)
    assert np.all(np.isfinite(post["weight"]))
    assert np.all(post["weight_scale"] > 0)


@pytest.mark.slow
def test_a_run_goes_on_where_it_ended(tmp_path):
    model = bd.Model(bd.Squared(), rates=bd.Fixed(0.0), weight_prior=bd.SpikeSlab())
    whole = sampled(model, X8, Y8, draws=8, chains=2)
    sampled(model, X8, Y8, draws=3, chains=2, checkpoint=tmp_path / "run")
    further = sampled(model, X8, Y8, draws=8, chains=2, checkpoint=tmp_path / "run")
    for name in whole:
        np.testing.assert_array_equal(further[name], whole[name])


def test_a_covariance_that_rounding_loses_is_an_error_that_says_what_to_do():
    with pytest.raises(ValueError, match=r"narrower slab in bd\.SpikeSlab"):
        parameters.draw_included(np.random.default_rng(0), np.zeros(2), np.array([[1.0, 2.0], [2.0, 1.0]]))
