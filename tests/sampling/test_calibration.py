"""Simulation-based calibration (Talts, Betancourt, Simpson, Vehtari & Gelman 2018), all replications at once.

Parameters are drawn from the prior, masks and responses from the model, and the sampler runs on the responses. The
rank of the true parameter among its draws is then uniform. It applies where the likelihood is normalised: logistic
with C = 1, squared loss, counts, and the check loss of a quantile. Besides the parameters, the log-likelihood of the
data at the truth is ranked, which sees errors that leave every marginal alone (Modrák et al. 2023).

1024 replications, 4096 where there are no masks and a replication costs little, 31 draws each, thinned. The ranks of
each quantity are tested for uniformity twice, in cells and by polynomials, which see errors too small for the cells.
The false-alarm rate is 1e-5 a case, shared by its quantities and tests.

The joint moves of Gibbs sampling repair much of what a wrong sweep does, so each kind of sweep has a case of its own.
Scales and shapes of a likelihood with learnt rates are in :mod:`.test_stationarity`.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.gibbs import marginalised as without_masks
from bayesdrop.hmc.approximations.learnt_scales import ScaleDensity, with_scales
from bayesdrop.priors import RandomEffects
from bayesdrop.rates import LeadingRates
from bayesdrop.sampling.protocols import natural

FALSE_ALARM = 1e-5
DRAWS, BURN, THIN = 31, 60, 5
# Steps of gradient samplers are set for the prior here. Where a posterior is far narrower, as one with kinks and a
# learnt scale is, successive draws are so alike that the truth is too often first or last.
THIN_OF_KINKS = 40
# Posteriors of counts are a tenth as wide as the prior, whose spread gradient samplers start from here; learnt scales
# may lie far from its median, those of a half-Cauchy prior a thousand times as far.
BURN_FAR, BURN_FARTHEST = 300, 1200
N, P = 16, 3
NAMES = ["a", "b", "c"]
X = np.random.default_rng(0).normal(size=(N, P)) * (np.random.default_rng(1).random((N, P)) < 0.85) * 1.5
PRIOR = bd.Beta(2.0, 3.0)
VARIANCE = bd.InverseGamma(4.0, 3.0)
SCALE = bd.Normal(bd.HalfNormal(1.0))
EFFECTS = RandomEffects(bd.Normal(1.5), ["1|s"], [["u", "v"]], [bd.HalfNormal(1.0)])
MORE_EFFECTS = RandomEffects(bd.Normal(bd.HalfNormal(0.8)), ["1|s"], [["u"]], [bd.HalfNormal(1.2)])
SCALES = bd.Normal(bd.HalfCauchy(0.5), groups=["s", "t", "s"], unit=[1.0, 2.0, 0.5])


# Scales of the half-normal priors of both kinds of random effects.
SIZES = ([1.0], [0.8, 1.2])


def logistic(rates, **options):
    return bd.Model(rates=rates, fit_intercept=False, **options)


def counts(loss, rates):
    return bd.Model(loss, rates=rates, fit_intercept=False, weight_prior=bd.Normal(0.5))


CASES = {
    "Gibbs, per feature": (logistic(bd.PerFeature(PRIOR)), bd.Gibbs()),
    "Gibbs, per feature, no joint moves": (logistic(bd.PerFeature(PRIOR)), bd.Gibbs(joint_moves=0)),
    "Gibbs, groups": (logistic(bd.PerGroup(["u", "u", "v"], PRIOR)), bd.Gibbs()),
    "Gibbs, groups, no joint moves": (logistic(bd.PerGroup(["u", "u", "v"], PRIOR)), bd.Gibbs(joint_moves=0)),
    "Gibbs, shared, double": (logistic(bd.Shared(PRIOR)), bd.Gibbs(dtype="float64")),
    "Gibbs, fixed": (logistic(bd.Fixed(0.3)), bd.Gibbs()),
    "Gibbs, fixed, no joint moves": (logistic(bd.Fixed(0.3)), bd.Gibbs(joint_moves=0)),
    "Gibbs, unbiased": (logistic(bd.PerFeature(PRIOR), noise=bd.Dropout(unbiased=True)), bd.Gibbs()),
    "Gibbs, unknown variance": (
        bd.Model(bd.Squared(variance=VARIANCE), rates=bd.PerFeature(PRIOR), fit_intercept=False),
        bd.Gibbs(),
    ),
    "Gibbs, quantile": (
        bd.Model(bd.Quantile(0.8, 1.0), rates=bd.PerFeature(PRIOR), C=2.0, fit_intercept=False),
        bd.Gibbs(),
    ),
    "Gibbs without masks, learnt sigma": (
        bd.Model(bd.Squared(), rates=bd.Fixed(0.0), fit_intercept=False),
        bd.Gibbs(dtype="float64"),
    ),
    "HMC, learnt sigma": (bd.Model(bd.Squared(), rates=bd.Fixed(0.0), fit_intercept=False), bd.HMC(dtype="float64")),
    "Gibbs, quantile, learnt scale": (
        bd.Model(bd.Quantile(0.8), rates=bd.PerFeature(PRIOR), fit_intercept=False),
        bd.Gibbs(),
    ),
    "Gibbs without masks, quantile, learnt scale": (
        bd.Model(bd.Quantile(0.8), rates=bd.Fixed(0.0), fit_intercept=False),
        bd.Gibbs(dtype="float64"),
    ),
    "HMC, quantile, learnt scale": (
        bd.Model(bd.Quantile(0.2), rates=bd.Fixed(0.0), fit_intercept=False),
        bd.HMC(dtype="float64"),
    ),
    "Gibbs without masks, quantile": (
        bd.Model(bd.Quantile(0.8, 1.0), rates=bd.Fixed(0.0), C=2.0, fit_intercept=False),
        bd.Gibbs(dtype="float64"),
    ),
    "HMC, quantile": (bd.Model(bd.Quantile(0.2, 1.0), rates=bd.Fixed(0.0), C=2.0, fit_intercept=False), bd.HMC()),
    "Gibbs without masks, Laplace": (logistic(bd.Fixed(0.0), weight_prior=bd.Laplace(0.7)), bd.Gibbs()),
    "Gibbs without masks": (logistic(bd.Fixed(0.0)), bd.Gibbs(dtype="float64")),
    "Gibbs, per feature, learnt scale": (logistic(bd.PerFeature(PRIOR), weight_prior=SCALE), bd.Gibbs()),
    "Gibbs, per feature, learnt scale, no joint moves": (
        logistic(bd.PerFeature(PRIOR), weight_prior=SCALE),
        bd.Gibbs(joint_moves=0),
    ),
    "Gibbs, groups, learnt scales": (
        logistic(bd.PerGroup(["u", "u", "v"], PRIOR), weight_prior=SCALES),
        bd.Gibbs(),
    ),
    "Gibbs without masks, learnt scale": (logistic(bd.Fixed(0.0), weight_prior=SCALE), bd.Gibbs()),
    "HMC, learnt scale": (logistic(bd.Fixed(0.0), weight_prior=SCALE), bd.HMC()),
    "HMC, learnt scales": (logistic(bd.Fixed(0.0), weight_prior=SCALES), bd.HMC()),
    "Gibbs, per feature, random effects": (
        logistic(LeadingRates(bd.PerFeature(PRIOR), 2), weight_prior=EFFECTS),
        bd.Gibbs(),
    ),
    "Gibbs, per feature, random effects, no joint moves": (
        logistic(LeadingRates(bd.PerFeature(PRIOR), 2), weight_prior=EFFECTS),
        bd.Gibbs(joint_moves=0),
    ),
    "Gibbs, shared, random effects": (
        logistic(LeadingRates(bd.Shared(PRIOR), 1), weight_prior=MORE_EFFECTS),
        bd.Gibbs(),
    ),
    "Gibbs without masks, random effects": (logistic(bd.Fixed(0.0), weight_prior=EFFECTS), bd.Gibbs()),
    "HMC, random effects": (logistic(bd.Fixed(0.0), weight_prior=EFFECTS), bd.HMC()),
    "HMC, random effects and a learnt scale": (logistic(bd.Fixed(0.0), weight_prior=MORE_EFFECTS), bd.HMC()),
    "HMC": (logistic(bd.Fixed(0.0)), bd.HMC()),
    "HMC, double": (logistic(bd.Fixed(0.0)), bd.HMC(dtype="float64")),
    "NUTS": (logistic(bd.Fixed(0.0)), bd.NUTS()),
    "negative binomial, Gibbs, per feature": (counts(bd.NegativeBinomial(3.0), bd.PerFeature(PRIOR)), bd.Gibbs()),
    "negative binomial, Gibbs, fixed": (counts(bd.NegativeBinomial(3.0), bd.Fixed(0.3)), bd.Gibbs(joint_moves=0)),
    "negative binomial, Gibbs without masks": (counts(bd.NegativeBinomial(2.5), bd.Fixed(0.0)), bd.Gibbs()),
    "binomial, Gibbs, per feature": (counts(bd.Binomial(4), bd.PerFeature(PRIOR)), bd.Gibbs()),
    "binomial, Gibbs without masks": (counts(bd.Binomial(4), bd.Fixed(0.0)), bd.Gibbs()),
    "negative binomial, HMC, learnt dispersion": (
        counts(bd.NegativeBinomial(), bd.Fixed(0.0)),
        bd.HMC(dtype="float64"),
    ),
    "negative binomial, HMC": (counts(bd.NegativeBinomial(3.0), bd.Fixed(0.0)), bd.HMC()),
    "Poisson, HMC": (counts(bd.Poisson(), bd.Fixed(0.0)), bd.HMC()),
}


def simulate(model, generator, replications):
    """Parameters (R, …) by name, and responses (R, n)."""
    rate_map = model.bind(NAMES)
    shape = (replications, P)
    truth, learnt = {}, model.weight_prior.learnt_scale(P)
    if learnt is not None:
        size = (replications, learnt.groups)
        scale, effects = np.abs(generator.normal(size=size)), isinstance(model.weight_prior, RandomEffects)
        if not effects and isinstance(model.weight_prior.scale, bd.HalfCauchy):
            scale = scale / np.abs(generator.normal(size=size))
        scale = scale * (SIZES[learnt.groups - 1] if effects else model.weight_prior.scale.scale)
        truth["weight_scale"] = scale if learnt.names else scale[:, 0]
        if effects:
            # One feature of the known scale 1.5 and two effects, or two of a learnt scale and one effect.
            sd = [np.full(replications, 1.5), *scale.T, *scale.T] if learnt.groups == 1 else scale.T[[0, 0, 1]]
            weight = generator.normal(size=shape) * np.stack(list(sd), axis=1)
        else:
            weight = generator.normal(size=shape) * scale[:, learnt.index] * learnt.unit
    elif model.weight_prior.gaussian:
        weight = generator.normal(size=shape) / np.sqrt(model.weight_prior.precision(P))
    else:
        weight = generator.laplace(scale=model.weight_prior.scale, size=shape)
    truth["weight"] = weight
    rate = np.broadcast_to(rate_map.initial, shape)
    if rate_map.is_free:
        truth["rate"] = generator.beta(2.0, 3.0, size=(replications, rate_map.size))
        rate = np.append(truth["rate"], np.zeros((replications, 1)), axis=1)[:, rate_map.index]
    kept = generator.random((replications, N, P)) >= rate[:, None]
    factor = model.noise.coefficients(rate).gain / (1 - rate)
    score = np.einsum("rnp,np,rp->rn", kept, X, weight * factor)
    if model.loss.binary:
        return truth, np.where(generator.random(score.shape) < expit(score), 1.0, -1.0)
    if isinstance(model.loss, bd.Poisson):
        return truth, generator.poisson(np.exp(score)).astype(float)
    if isinstance(model.loss, bd.Binomial):
        return truth, generator.binomial(model.loss.trials, 1 / (1 + np.exp(-score))).astype(float)
    if model.loss.parameters:
        half_normal = np.abs(generator.normal(size=replications))
        counts = isinstance(model.loss, bd.NegativeBinomial)
        truth |= {"dispersion": half_normal**-2} if counts else {"sigma": half_normal}
    if isinstance(model.loss, bd.NegativeBinomial):
        r = truth["dispersion"][:, None] if "dispersion" in truth else model.loss.dispersion
        return truth, generator.poisson(generator.gamma(r, size=score.shape) * np.exp(score)).astype(float)
    if isinstance(model.loss, bd.Quantile):
        # An asymmetric Laplace variable is a difference of exponential ones.
        above, below = generator.exponential(size=(2, *score.shape))
        scale = truth["sigma"][:, None] if "sigma" in truth else 1 / model.C
        return truth, score + (above / model.loss.tau - below / (1 - model.loss.tau)) * scale
    if isinstance(model.loss.variance, bd.InverseGamma):
        variance = 1 / generator.gamma(VARIANCE.shape, 1 / VARIANCE.scale, size=replications)
        truth["sigma"] = np.sqrt(variance)
    return truth, score + truth["sigma"][:, None] * generator.normal(size=score.shape)


def with_target(operands, target):
    """Operands with other responses, wherever the sampler keeps them."""
    if hasattr(operands, "density"):
        return operands._replace(density=with_target(operands.density, target))
    if hasattr(operands, "base"):
        return operands._replace(base=with_target(operands.base, target))
    return operands._replace(target=target)


def about_the_prior(model, kernel, operands):
    """Operands of a gradient sampler whose centre and spread are a prior's, which favour no data set."""
    learnt, dtype = model.weight_prior.learnt_scale(P), operands.centre.dtype
    spread = model.weight_prior.first_precision(P) ** -0.5
    if model.loss.parameters:
        spread = np.append(spread, 1.0)
    if learnt is None:
        return operands._replace(centre=jnp.zeros_like(operands.centre), factor=jnp.diag(jnp.asarray(spread, dtype)))
    # Halfway between weights and their directions: as if the data said as much of each weight as its prior.
    spread, median = np.diag(spread / np.sqrt(2)), np.log(learnt.law.median())
    given = kernel.density.base, operands.density.base
    _, density, centre, factor = with_scales(*given, np.zeros(P), spread, learnt, median, 1, dtype)
    return operands._replace(density=density, centre=jnp.asarray(centre, dtype), factor=jnp.asarray(factor, dtype))


def log_likelihood(model, weight, target):
    """A function of parameters and data both: the log-likelihood with nothing dropped, (…)."""
    score = weight @ X.T
    plain = model.loss.plain
    plain = bd.NegativeBinomial(1.0) if isinstance(plain, bd.NegativeBinomial) and plain.parameters else plain
    loss = plain.value(np.broadcast_to(target, score.shape), score, np.zeros_like(score))
    return -np.sum(loss, axis=-1)


def ranks(model, method, seed=0, replications=None):
    """Ranks of every true quantity among its draws."""
    if isinstance(method, bd.NUTS):  # NumPyro's own code promotes
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            return ranks_of(model, method, seed, replications)
    return ranks_of(model, method, seed, replications)


def ranks_of(model, method, seed, replications):
    rate_map = model.bind(NAMES)
    marginalised = not (rate_map.is_free or np.any(rate_map.initial > 0))
    replications = replications or (4096 if marginalised else 1024)
    truth, target = simulate(model, np.random.default_rng(seed), replications)
    near = model.loss.largest_count is None and model.weight_prior.learnt_scale(P) is None
    burn = BURN if near or isinstance(method, bd.Gibbs) else BURN_FAR
    if burn == BURN_FAR and isinstance(getattr(model.weight_prior, "scale", None), bd.HalfCauchy):
        burn = BURN_FARTHEST
    has_kinks = isinstance(model.loss, bd.Quantile) and model.loss.parameters and not isinstance(method, bd.Gibbs)
    thin = THIN_OF_KINKS if has_kinks else THIN
    with jax.enable_x64(method.dtype == "float64"):
        data = as_dataset(X, np.arange(N) % 2 if model.loss.binary else np.arange(N), binary=model.loss.binary)
        kernel, operands = method.bind(model, data, rate_map, burn, marginalised=marginalised)
        if hasattr(operands, "centre"):
            operands = about_the_prior(model, kernel, operands)

        def one(target, key):
            ops = with_target(operands, target)
            state = kernel.init(ops, key, 1)
            state = jax.lax.fori_loop(0, burn, lambda _, s: kernel.step(ops, s)[0], state)

            def thinned(state, _):
                state = jax.lax.fori_loop(1, thin, lambda _, s: kernel.step(ops, s)[0], state)
                state, recorded = kernel.step(ops, state)
                return state, natural(recorded)

            return jax.lax.scan(thinned, state, None, DRAWS)[1]

        keys = jax.random.split(jax.random.key(seed + 1), replications)
        drawn = jax.jit(jax.vmap(one))(jnp.asarray(target, method.dtype), keys)
        drawn = {name: np.asarray(value, dtype=float)[:, :, 0] for name, value in drawn.items()}
    drawn["fit"] = log_likelihood(model, drawn["weight"], target[:, None])
    truth["fit"] = log_likelihood(model, truth["weight"], target)
    drawn["length"], truth["length"] = (np.sum(part["weight"] ** 2, axis=-1) for part in (drawn, truth))
    return [
        column
        for name, value in truth.items()
        for column in np.sum(drawn[name] < value[:, None], axis=1).reshape(replications, -1).T
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_ranks_are_uniform(name, least):
    assert least(ranks(*CASES[name]), DRAWS) > FALSE_ALARM


def stronger(right):
    def wrong(*arguments):
        pseudo = right(*arguments)
        return pseudo._replace(kappa=1.15 * pseudo.kappa)

    return wrong


def without_jacobian(right):
    def wrong(*arguments):
        theta, log_scale, jacobian = right(*arguments)
        return theta, log_scale, jnp.zeros_like(jacobian)

    return wrong


# Case, what is patched, and what with.
PLANTED = {
    "the pull of a logistic loss": ("Gibbs without masks", bd.Logistic, "sample_pseudo", stronger),
    "the pull of a negative binomial": (
        "negative binomial, Gibbs without masks", bd.NegativeBinomial, "sample_pseudo", stronger,
    ),
    "the pull of a binomial": ("binomial, Gibbs without masks", bd.Binomial, "sample_pseudo", stronger),
    "a mean 15 % too large, by whose value HMC accepts": (
        "Poisson, HMC", bd.Poisson, "plain_value_and_slope",
        lambda right: lambda loss, y, score: right(loss, y, score + np.log(1.15).astype(np.float32)),
    ),
    "an auxiliary variable at three quarters of its residual": (
        "Gibbs without masks, quantile", bd.Quantile, "sample_pseudo",
        lambda right: lambda loss, key, y, mean, *rest: right(loss, key, y, y + 0.75 * (mean - y), *rest),
    ),
    "a weight too few of a scale, which draws along rays repair in part": (
        "Gibbs without masks, learnt scale", without_masks, "draw_given_weights",
        lambda right: lambda key, operands, *rest: right(key, operands._replace(size=operands.size - 1), *rest),
    ),
    "no Jacobian of the scales": ("HMC, learnt scale", ScaleDensity, "place", without_jacobian),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("error", PLANTED)
def test_a_planted_error_is_found(monkeypatch, error, least):
    name, owner, attribute, plant = PLANTED[error]
    monkeypatch.setattr(owner, attribute, plant(getattr(owner, attribute)))
    assert least(ranks(*CASES[name]), DRAWS) < FALSE_ALARM
