"""The Gibbs sampler: its conditionals against the program's density, masks against enumeration, the joint test.

Every statistical test states its chance of a false alarm; the joint test is that of Geweke (2004) from exact draws, as
in ``tests/sampling/test_geweke.py``.
"""

import itertools
import warnings
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer.util import log_density
from scipy import stats
from scipy.special import logsumexp

import bayesdrop as bd
from bayesdrop.factorization import gibbs
from bayesdrop.factorization.gibbs import FactorizationKernel, Operands, State
from bayesdrop.models import matrix_factorization
from bayesdrop.warnings import MixingWarning

FALSE_ALARM = 2e-5
N, P, D = 5, 4, 3
A, B, SHAPE, VARIANCE_SCALE, SCALE, SIGMA = 2.0, 1.5, 3.0, 2.0, 0.9, 0.7
KEYWORDS = {"A": A, "B": B, "variance_shape": SHAPE, "variance_scale": VARIANCE_SCALE, "scale": SCALE}
MASKS = list(itertools.product((0.0, 1.0), repeat=D))


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def pattern(missing):
    seen = np.ones((N, P))
    if missing:
        seen[0, 1] = seen[2, 0] = seen[2, 3] = seen[4, 2] = 0
    return seen


def operands(values, missing, sigma=SIGMA):
    numbers = [jnp.asarray(x) for x in (A, B, SHAPE, VARIANCE_SCALE, SCALE, sigma**2)]
    seen = jnp.asarray(pattern(missing))
    return Operands(jnp.asarray(values) * seen, seen if missing else None, *numbers)


def some(number=0):
    """A state of one chain and data that belong to it only loosely."""
    rng = np.random.default_rng(number)
    state = State(
        jax.random.key(number), *(jnp.asarray(x) for x in (
            rng.normal(size=(1, N, D)), rng.normal(size=(1, P, D)), np.array([[1.0, 0.0, 1.0]]),
            rng.uniform(0.2, 0.8, size=1), rng.gamma(2.0, size=1),
        )),
    )  # fmt: skip
    return state, rng.normal(size=(N, P))


@cache
def compiled(program):
    """Log joint density of a program at data and values of its sites, compiled once for each set of sites."""

    def density(X, sites, keywords):
        return log_density(program, ((N, P), X, D), keywords, sites)[0]

    return jax.jit(density)


def program_density(values, missing, state, sigma=None, masks=True):
    """Log joint density of the explicit program, or of that which sums the masks."""
    X = jnp.where(pattern(missing) == 1, jnp.asarray(values), jnp.nan)
    sites = {"left": state.left[0], "right": state.right[0], "retain": state.retain[0]}
    sites |= {"kept": state.mask[0]} if masks else {}
    sites |= {"variance": state.variance[0]} if sigma is None else {}
    keywords = KEYWORDS if sigma is None else {**KEYWORDS, "sigma": sigma}
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        program = matrix_factorization.program if masks else matrix_factorization.enumerated
        return float(compiled(program)(X, sites, keywords))


@pytest.mark.slow
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_the_recorded_density_is_the_program_s(missing, known):
    for number in range(3):
        state, values = some(number)
        sigma = None
        if known:
            sigma, state = SIGMA, state._replace(variance=jnp.full(1, SIGMA**2))
        found = float(gibbs.log_joint(operands(values, missing), state, known)[0])
        assert found == pytest.approx(program_density(values, missing, state, sigma), rel=1e-12)


def test_the_enumerated_program_sums_the_masks_of_the_explicit_one():
    state, values = some(4)
    terms = [program_density(values, True, state._replace(mask=jnp.array([mask]))) for mask in MASKS]
    assert program_density(values, True, state, masks=False) == pytest.approx(logsumexp(terms), rel=1e-12)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("side", ["left", "right"])
def test_the_factor_s_conditional_is_the_joint(missing, side):
    """Differences of log densities, wherever factors are; and a draw is that normal law's of the given noise."""
    state, values = some(1)
    op = operands(values, missing)
    kept, variance, scale = state.mask[0], state.variance[0], op.scale
    transposed = side == "right"
    other = (state.left if transposed else state.right)[0]
    seen = None if op.pattern is None else (op.pattern.T if transposed else op.pattern)
    summary = gibbs.summarise(op.values.T if transposed else op.values, seen, other)
    lower = np.asarray(gibbs.normal_equations(summary, kept, variance, scale))
    target = np.asarray(summary.product * kept[None, :] * (scale**2 / variance))

    def conditional(factor):
        value = 0.0
        for i, row in enumerate(np.asarray(factor)):
            L = lower[i if missing else 0]
            covariance = np.asarray(scale) ** 2 * np.linalg.inv(L @ L.T)
            mean = np.linalg.inv(L @ L.T) @ target[i]
            value += stats.multivariate_normal(mean, covariance).logpdf(row)
        return value

    noise = np.random.default_rng(3).normal(size=target.shape)
    draw = gibbs.draw_factor(jnp.asarray(noise), summary, kept, variance, scale)
    for i, L in enumerate(np.broadcast_to(lower, (len(target), D, D))):
        white = (draw[i] - np.linalg.solve(L @ L.T, target[i])) @ L / float(scale)
        np.testing.assert_allclose(white, noise[i], rtol=1e-10, atol=1e-12)
    factors = [draw, draw + 0.3, -draw]
    gaps = [
        program_density(values, missing, state._replace(**{side: factor[None]})) - conditional(factor)
        for factor in factors
    ]
    np.testing.assert_allclose(gaps, gaps[0], rtol=1e-10)


def evidence(values, missing, right, kept, variance):
    """``log p(X | r, V, σ²)`` row by row as a normal of its own, without any of the sampler's algebra."""
    seen, total = pattern(missing) == 1, 0.0
    for i in range(N):
        V = np.asarray(right)[seen[i]] * np.asarray(kept)
        covariance = variance * np.eye(len(V)) + SCALE**2 * V @ V.T
        total += stats.multivariate_normal(np.zeros(len(V)), covariance).logpdf(values[i][seen[i]])
    return total


def exact_masks(values, missing, state):
    """Probabilities of the eight masks given ``V`` and ``σ²``, the other factor and the rate integrated out."""
    variance = float(state.variance[0])
    logs = []
    for mask in MASKS:
        active = sum(mask)
        prior = stats.betabinom(D, A, B).logpmf(active) - np.log(stats.binom(D, 0.5).pmf(active) * 2**D)
        logs.append(prior + evidence(values, missing, state.right[0], mask, variance))
    return np.exp(logs - logsumexp(logs))


@pytest.mark.parametrize("missing", [False, True])
def test_the_gain_of_a_mask_is_a_ratio_of_normal_densities(missing):
    """Every mask of the three, retained beside every setting of the others."""
    state, values = some(3)
    op = operands(values, missing)
    summary = gibbs.summarise(op.values, op.pattern, state.right[0])
    variance = state.variance[0]
    sweep, gain = jax.jit(gibbs.sweep), jax.jit(gibbs.gain)
    for others, k in itertools.product(MASKS, range(D)):
        if others[k]:
            continue
        swept = jnp.eye(D)[None] + summary.gram * (op.scale**2 / variance)
        for j in np.flatnonzero(others):
            swept = sweep(swept, j, jnp.ones(()))
        with_k = [1.0 if j == k else others[j] for j in range(D)]
        exact = [evidence(values, missing, state.right[0], mask, float(variance)) for mask in (with_k, others)]
        found = gain(swept, summary, jnp.array(others), k, variance, op.scale)
        assert float(found) == pytest.approx(exact[0] - exact[1], rel=1e-9, abs=1e-10)


def mask_frequencies(missing, chains=5_000, passes=30):
    state, values = some(3)
    op = operands(values, missing)
    summary = gibbs.summarise(op.values, op.pattern, state.right[0])

    def chain(key):
        def body(kept, key):
            return gibbs.draw_masks(key, op, summary, kept, state.variance[0]), None

        return jax.lax.scan(body, jnp.ones(D), jax.random.split(key, passes))[0]

    found = np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(5), chains)))
    counts = np.array([np.sum(np.all(found == mask, axis=1)) for mask in MASKS])
    return counts, exact_masks(values, missing, state)


@pytest.mark.default_cases("True")
@pytest.mark.parametrize("missing", [False, True])
def test_masks_agree_with_enumeration(missing):
    """Independent chains, chi-squared on the eight masks."""
    counts, chance = mask_frequencies(missing)
    assert chance.max() < 0.9, "the case must be undecided"
    common = chance * counts.sum() > 5
    observed = np.append(counts[common], counts[~common].sum())
    expected = np.append(chance[common], chance[~common].sum()) * counts.sum()
    if expected[-1] < 5:
        observed, expected = observed[:-1], expected[:-1] * observed[:-1].sum() / expected[:-1].sum()
    assert stats.chisquare(observed, expected).pvalue > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("missing", [False, True])
def test_rate_and_variance_have_the_conditionals_of_the_state_that_is_returned(missing):
    """Their distribution functions at the draws of 4,000 chains, by Kolmogorov and Smirnov."""
    chains, kernel = 4000, FactorizationKernel(D, False)
    state, values = some(6)
    op = operands(values, missing)
    state = State(state.key, *(jnp.repeat(part, chains, axis=0) for part in state[1:]))
    _, left, right, kept, retain, variance = (np.asarray(part) for part in (0, *jax.jit(kernel.step)(op, state)[0][1:]))
    active = kept.sum(axis=1)
    squares = (pattern(missing) * (values - np.einsum("cid,cd,cjd->cij", left, kept, right)) ** 2).sum(axis=(1, 2))
    law = stats.invgamma(SHAPE + pattern(missing).sum() / 2, scale=VARIANCE_SCALE + squares / 2)
    for chance in (stats.beta(A + active, B + D - active).cdf(retain), law.cdf(variance)):
        assert stats.kstest(chance, "uniform").pvalue > FALSE_ALARM / 4


REPLICATES, STEPS = 4000, 10


def geweke(missing, known=False, replicates=REPLICATES):
    """Largest |z| of the statistics, of as many as move, and their number."""
    kernel = gibbs.FactorizationKernel(D, known)
    seen = jnp.asarray(pattern(missing))

    def data(key, state):
        mean = (state.left[0] * state.mask[0][None, :]) @ state.right[0].T
        return mean + jax.random.normal(key, (N, P)) * jnp.sqrt(state.variance[0])

    def prior(key):
        keys = jax.random.split(key, 6)
        retain = jax.random.beta(keys[0], A, B, (1,))
        kept = (jax.random.uniform(keys[1], (1, D)) < retain[:, None]).astype(jnp.float64)
        variance = VARIANCE_SCALE / jax.random.gamma(keys[2], SHAPE, (1,))
        if known:
            variance = jnp.full(1, SIGMA**2)
        left, right = (SCALE * jax.random.normal(k, (1, size, D)) for k, size in ((keys[3], N), (keys[4], P)))
        return State(keys[5], left, right, kept, retain, variance)

    def statistics(state, values):
        left, right, kept, retain = state.left[0], state.right[0], state.mask[0], state.retain[0]
        fitted = (left * kept[None, :]) @ right.T
        squash = lambda x: x / (1 + jnp.abs(x))  # noqa: E731
        active, log_variance = kept.sum(), jnp.log(state.variance[0])
        values = values * seen
        return jnp.stack([
            retain, retain**2, jnp.log(retain / (1 - retain)), kept[0], kept[2], active**2, kept[0] * kept[1],
            active * retain, log_variance, log_variance**2, active * log_variance,
            left[0, 0], (left**2).mean(), (right**2).mean(), left[0, 0] ** 2 * kept[0], right[1, 2] ** 2 * kept[2],
            squash((fitted**2).sum()), squash((values**2).sum()), squash((values * fitted).sum()),
            squash((values**2).sum() / state.variance[0]), squash(values[0, 0] * fitted[1, 0]),
            left[0, 0] * right[0, 0], squash(fitted[0, 1] ** 2),
        ])  # fmt: skip

    def one(key, steps):
        key_start, key_data, key_steps = jax.random.split(key, 3)
        state = prior(key_start)
        keys = jax.random.split(key_steps, STEPS)

        def body(i, carry):
            state, values = carry
            state, _ = kernel.step(operands(values, missing), state)
            return state, data(keys[i], state)

        return statistics(*jax.lax.fori_loop(0, steps, body, (state, data(key_data, state))))

    # One executable for both: the number of steps is an operand, and the prior is drawn in ten rounds.
    replicate = jax.jit(jax.vmap(one, in_axes=(0, None)))
    after = np.asarray(replicate(jax.random.split(jax.random.key(1), replicates), STEPS))
    rounds = jax.random.split(jax.random.key(2), (10, replicates))
    before = np.concatenate([np.asarray(replicate(keys, 0)) for keys in rounds])
    spread = np.sqrt(after.var(axis=0) / len(after) + before.var(axis=0) / len(before))
    moving = spread > 1e-12
    z = np.abs((after.mean(axis=0) - before.mean(axis=0))[moving] / spread[moving])
    return z.max(), int(moving.sum())


def bound(count):
    return stats.norm.isf(FALSE_ALARM / 2 / count)


@pytest.mark.slow
@pytest.mark.parametrize(("missing", "known"), [(False, False), (True, False), (True, True), (False, True)])
def test_the_joint_distribution_is_kept_with_missing_entries_and_known_noise(missing, known):
    worst, count = geweke(missing, known)
    assert worst < bound(count)


class _Miscounted(FactorizationKernel):
    """Two entries too few in the conditional of the variance."""

    def step(self, operands, state):
        return super().step(operands._replace(shape=operands.shape - 1.0), state)


PLANTED = {
    "prior odds of a mask": (
        "draw_masks",
        lambda right: lambda key, op, *rest: right(key, op._replace(a=op.a + 1.0), *rest),
    ),
    "determinant of the evidence": (
        "gain",
        lambda right: lambda swept, summary, *rest: right(swept, summary._replace(rows=summary.rows - 1), *rest),
    ),
    "variance of a factor": ("draw_factor", lambda right: lambda *arguments: 1.05 * right(*arguments)),
    "count of the noise's conditional": (
        "FactorizationKernel",
        lambda right: lambda *settings: _Miscounted(*settings),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("error", PLANTED)
def test_a_planted_error_is_found(error, monkeypatch):
    """The joint test must notice each."""
    name, plant = PLANTED[error]
    monkeypatch.setattr(gibbs, name, plant(getattr(gibbs, name)))
    worst, count = geweke(missing=False)
    assert worst > bound(count)


@pytest.mark.default_cases
@pytest.mark.parametrize(("missing", "sigma"), [("nan", None), pytest.param(None, 0.1, marks=pytest.mark.slow)])
def test_the_posterior_has_what_columns_cannot_exchange(missing, sigma, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(25, 2)) @ rng.normal(size=(2, 12)) + 0.1 * rng.normal(size=(25, 12))
    if missing:
        X[rng.random(X.shape) < 0.15] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixingWarning)
        settings = {"draws": 60, "tune": 60, "chains": 2, "progress": False, "missing": missing}
        post = bd.sample_factorization(X, 4, sigma=sigma, keep_fitted=True, seed=1, **settings)
    posterior = bd.groups.dataset(post, "posterior")
    assert set(posterior) == {"n_active", "retain", "fitted_norm"} | ({"sigma"} if sigma is None else set())
    assert np.all(posterior["n_active"] == 2)
    if sigma is None:
        assert float(posterior["sigma"].mean()) == pytest.approx(0.1, rel=0.2)
    fitted = bd.groups.dataset(post, "predictions")["fitted"]
    np.testing.assert_allclose(np.sqrt((fitted**2).sum(("obs_id", "feature"))), posterior["fitted_norm"], rtol=1e-10)
    assert np.nanmax(np.abs(fitted.mean(("chain", "draw")).values - X)) < 0.6
    assert bd.groups.dataset(post, "observed_data")["x"].shape == (25, 12)
    bd.groups.save(post, tmp_path / "post.nc")
    loaded = bd.groups.dataset(bd.groups.load(tmp_path / "post.nc"), "posterior")
    np.testing.assert_array_equal(loaded["retain"], posterior["retain"])
    assert bd.diagnose(post).r_hat is not None


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"sigma": 0.0}, "sigma: expected a finite number in .*, got 0.0; None learns it"),
        ({"sigma": 1.0, "variance_prior": bd.InverseGamma(1, 1)}, "variance_prior: expected None where sigma is known"),
        ({"X": np.full((2, 2), np.nan)}, 'contains NaN, which is not marked as missing; use missing="nan"'),
        ({"X": np.full((2, 2), np.nan), "missing": "nan"}, "expected at least one observed entry"),
    ],
)
def test_bad_input(settings, match):
    settings = {"X": np.eye(3), "n_components": 2, **settings}
    with pytest.raises(ValueError, match=match):
        bd.sample_factorization(**settings)
