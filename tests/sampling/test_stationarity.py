"""Scales and shapes of a likelihood with learnt rates: the step of ``bd.Gibbs`` keeps the joint law of all it draws.

Parameters and masks are drawn from the prior and responses given them, so that the chain of a replicate starts at a
draw of its own posterior: it needs no burn-in, and after any number of steps the parameters and the responses have
their first joint law still. Ranks of simulation-based calibration (:mod:`.test_calibration`) need draws that have
forgotten their start, and are not uniform where chains are short for their mixing; these pairs are right for any number
of steps.

Each quantity, a function of parameters, masks and responses, is put into ten cells before and after the steps. The
differences of the two indicators have mean 0 in every cell: Hotelling's test of independent replicates, chi-square with
nine degrees of freedom. The false-alarm rate is 1e-5 a case, shared by its quantities.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.gibbs.moves import kernel as moves
from bayesdrop.gibbs.moves import parameters
from bayesdrop.priors.intercept import CentredIntercept

FALSE_ALARM = 1e-5
REPLICATES, STEPS, CELLS = 2048, 5, 10
N, P = 16, 3
NAMES = ["a", "b", "c"]
X = np.random.default_rng(0).normal(size=(N, P)) * (np.random.default_rng(1).random((N, P)) < 0.85) * 1.5
SCALE = 0.5  # of the normal priors of weights and of the intercept at the columns' means
# Loss, whether there is an intercept, and the number of joint moves.
CASES = {
    "dispersion": (bd.NegativeBinomial(), False, 2),
    "dispersion, no joint moves": (bd.NegativeBinomial(), True, 0),
    "dispersion, intercept": (bd.NegativeBinomial(), True, 2),
    "sigma": (bd.Squared(), True, 2),
    "sigma, no joint moves": (bd.Squared(), False, 0),
}


def simulate(counted, with_intercept, generator):
    """Weights, logits of rates, masks, intercepts, logarithms of what is learnt, responses: a replicate a row."""
    weight, rate = SCALE * generator.normal(size=(REPLICATES, P)), generator.beta(2.0, 3.0, size=(REPLICATES, P))
    intercept = np.zeros(REPLICATES)
    if with_intercept:
        intercept = SCALE * generator.normal(size=REPLICATES) - weight @ X.mean(axis=0)
    kept = (generator.random((REPLICATES, P, N)) >= rate[:, :, None]) | (X.T == 0)
    score = np.einsum("rpn,np,rp->rn", kept, X, weight) + intercept[:, None]
    half_normal = np.abs(generator.normal(size=REPLICATES))
    if counted:
        r = half_normal**-2
        y = generator.poisson(generator.gamma(r[:, None], size=score.shape) * np.exp(score)).astype(float)
        return weight, np.log(rate / (1 - rate)), kept, intercept, np.log(r), y
    y = score + half_normal[:, None] * generator.normal(size=score.shape)
    return weight, np.log(rate / (1 - rate)), kept, intercept, np.log(half_normal), y


def log_likelihood(counted, y, score, t):
    """Logarithm of the density of responses given scores, ``t`` the logarithm of what is learnt."""
    if not counted:
        return jnp.sum(-t - 0.5 * jnp.square((y - score) * jnp.exp(-t)))
    r, log_gamma = jnp.exp(t), jax.scipy.special.gammaln
    return jnp.sum(log_gamma(y + r) - log_gamma(r) + y * score - (y + r) * jnp.logaddexp(0, score))


def quantities(counted, state, y):
    """Functions of parameters, masks and responses."""
    weight, rate, t = state.effective[0], jax.nn.sigmoid(state.logit[0]), state.log_parameter[0]
    full, squashed, score = X @ weight + state.intercept[0], jnp.tanh(y / 5), state.score[0]
    fits = [log_likelihood(counted, y, at, t) for at in (score, full)]
    length = jnp.sum(weight * weight)
    return jnp.stack([
        *weight, *rate, *jnp.mean(state.masks[0][:, 0, :], axis=1), t, state.intercept[0], *fits, length, length * t,
        t * jnp.sum(squashed), jnp.sum(score * squashed), jnp.sum(full * squashed), jnp.abs(weight[0]) * rate[0],
    ])  # fmt: skip


def p_values(loss, with_intercept, joint_moves, seed=0):
    """p values of every quantity that varies."""
    counted = isinstance(loss, bd.NegativeBinomial)
    level = {"intercept_prior": CentredIntercept(SCALE, 0.0, tuple(X.mean(axis=0)))} if with_intercept else {}
    model = bd.Model(
        loss, rates=bd.PerFeature(bd.Beta(2.0, 3.0)), weight_prior=bd.Normal(SCALE), fit_intercept=with_intercept,
        **level,
    )  # fmt: skip
    # The statements here multiply bits by numbers, as NumPy does.
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        data = as_dataset(X, np.arange(N), binary=False)
        method = bd.Gibbs(dtype="float64", joint_moves=joint_moves)
        kernel, operands = method.bind(model, data, model.bind(NAMES), 0)

        def one(key, weight, logit, kept, intercept, t, y):
            given = operands._replace(target=y)
            truth = {"effective": weight, "logit": logit, "intercept": intercept, "log_parameter": t}
            truth["score"] = jnp.sum(kept * X.T * weight[:, None], axis=0) + intercept
            truth = {name: value[None] for name, value in truth.items()}
            if kernel.parameter.is_scale:
                truth["noise_precision"] = kernel.parameter.multiplier(truth["log_parameter"])
            first = kernel.init(given, key, 1)._replace(masks=(kept[:, None, :],), **truth)
            last = jax.lax.fori_loop(0, STEPS, lambda _, state: kernel.step(given, state)[0], first)
            return quantities(counted, first, y), quantities(counted, last, y)

        keys = jax.random.split(jax.random.key(seed), REPLICATES)
        drawn = simulate(counted, with_intercept, np.random.default_rng(seed))
        first, last = (np.asarray(part).T for part in jax.jit(jax.vmap(one))(keys, *map(jnp.asarray, drawn)))
    return [hotelling(*pair) for pair in zip(first, last, strict=True) if np.ptp(pair) > 0]


def hotelling(first, last):
    """p value of equal laws of two paired samples, by the indicators of all cells but the last."""
    cuts = np.quantile(np.concatenate([first, last]), np.arange(1, CELLS) / CELLS)
    cells = np.eye(CELLS)[:, :-1]
    change = cells[np.searchsorted(cuts, last)] - cells[np.searchsorted(cuts, first)]
    mean = change.mean(axis=0)
    return stats.chi2(CELLS - 1).sf(len(first) * mean @ np.linalg.pinv(np.cov(change.T)) @ mean)


def least(name):
    found = p_values(*CASES[name])
    return min(found) * len(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_steps_keep_the_joint_law(name):
    assert least(name) > FALSE_ALARM


@pytest.mark.slow
def test_a_planted_error_of_the_prior_is_found(monkeypatch):
    """The overdispersion's half-normal scale half of what it is."""
    right = parameters.log_parameter_prior
    monkeypatch.setattr(parameters, "log_parameter_prior", lambda *args: right(*args[:2], args[2] - np.log(4)))
    assert least("dispersion") < FALSE_ALARM


@pytest.mark.slow
def test_a_planted_error_of_a_scale_is_found(monkeypatch):
    """One degree of freedom too many."""
    right = moves.draw_scale

    def wrong(kernel, operands, *others):
        rows = operands.parameter.rows + 1
        return right(kernel, operands._replace(parameter=operands.parameter._replace(rows=rows)), *others)

    monkeypatch.setattr(moves, "draw_scale", wrong)
    assert least("sigma") < FALSE_ALARM
