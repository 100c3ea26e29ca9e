"""As ``C → 0`` the data say nothing and the posterior of the rates is their prior, at both ends and whatever its shape.

A thousand chains start where the sampler starts them and run for a while; their last draws are independent, so that
each free rate is held to its prior by one Kolmogorov-Smirnov test on 1,000 draws, without autocorrelation to estimate.
The false-alarm rate is 1e-6 a test. Shapes of 0.05 put a seventh of the mass nearer to an end than single precision
can tell a rate from it, which is why samplers hold logits. Every rate has a shape of its own: one run tries all.
"""

import jax
import numpy as np
import pytest
from scipy import special, stats

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.sampling.run.runner import as_key, run

FALSE_ALARM = 1e-6
CHAINS, N = 1000, 6
SHAPES = [(0.05, 0.05), (0.05, 50.0), (0.1, 0.9), (1.0, 1.0), (50.0, 0.05), (50.0, 50.0)]
NAMES = [f"x{d}" for d in range(len(SHAPES))]
A, B = np.array(SHAPES).T
EACH = bd.Beta(A, B)
STRUCTURES = {
    "per feature": (bd.PerFeature(EACH), (A, B)),
    "per group": (bd.PerGroup([f"g{d}" for d in [*range(6), 1]], EACH), (A, B)),
    "shared": (bd.Shared(bd.Beta(0.05, 0.3)), (0.05, 0.3)),
}


def last_draws(rates, method, tune, noise=None, C=1e-6):
    """What every chain draws last, by name, (CHAINS, …)."""
    # The last column is a second one of a group.
    names = NAMES if not hasattr(rates, "groups") else [f"x{d}" for d in range(len(rates.groups))]
    X = np.random.default_rng(0).normal(size=(N, len(names)))
    model = bd.Model(bd.Hinge(), noise=noise or bd.Dropout(), rates=rates, C=C)
    data = as_dataset(X, np.arange(N) % 2, feature_names=names)
    with jax.enable_x64(method.dtype == "float64"):
        kernel, operands = method.bind(model, data, model.bind(names), tune)
        result = run(kernel, operands, as_key(0), tune=tune, draws=1, chains=CHAINS, progress=False)
    return {name: value[:, 0].astype(float) for name, value in result.draws.items()}


def tune_of(method, unbiased):
    """Sweeps after which the start is forgotten.

    Rates that are drawn by themselves move by one logit or so where unbiased dropout ties a weight to its rate, and
    priors here range over hundreds.
    """
    return 1000 if unbiased and getattr(method, "joint_moves", 1) == 0 else 200


def probability(logit, a, b):
    """Distribution function of ``Beta(a, b)`` at the rates of these logits, to its last digits at both ends."""

    def lower(logit, a, b):
        # The first term of the series, ``η^a / (a B(a, b))``, where the rate itself may underflow.
        near = np.exp(a * np.minimum(logit, 0) - np.log(a) - special.betaln(a, b))
        return np.where(logit < -40, near, special.betainc(a, b, special.expit(logit)))

    return np.where(logit < 0, lower(logit, a, b), 1 - lower(-logit, b, a))


def assert_prior(logit, a, b):
    shapes = (np.broadcast_to(part, logit.shape[1]) for part in (a, b))
    for column, *shape in zip(logit.T, *shapes, strict=True):
        assert stats.kstest(probability(column, *shape), "uniform").pvalue > FALSE_ALARM, shape


def assert_normal(draws):
    for column in draws.T:
        assert stats.kstest(column, "norm").pvalue > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize(
    "method", [bd.Gibbs(joint_moves=0), bd.Gibbs(dtype="float64"), bd.HMC(dtype="float64"), bd.NUTS()], ids=str
)
@pytest.mark.parametrize("unbiased", [False, True])
def test_every_sampler_recovers_the_prior(structure, method, unbiased):
    rates, shapes = STRUCTURES[structure]
    # Unbiased rates near 1 give scores a spread of 1e8, where C = 1e-6 is not small: beside it more values
    # of the intercept, whose prior is flat, fit half as well as the best, so that averaged masks favour high rates.
    C = 1e-6 if isinstance(method, bd.Gibbs) else 1e-60
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):  # NumPyro's own code promotes
        drawn = last_draws(rates, method, tune_of(method, unbiased), bd.Dropout(unbiased=unbiased), C)
    assert_prior(drawn["logit_rate"], *shapes)
    if isinstance(method, bd.Gibbs):
        assert_normal(drawn["weight"])


@pytest.mark.slow
def test_joint_moves_in_single_precision_recover_both_priors():
    """Long enough for a metric that is learnt where some chains have rates of 1 − 1e-17 and others of a half."""
    rates, shapes = STRUCTURES["per feature"]
    drawn = last_draws(rates, bd.Gibbs(), 1000, bd.Dropout(unbiased=True))
    assert_prior(drawn["logit_rate"], *shapes)
    assert_normal(drawn["weight"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((0.05, 0.3), "float32"),
        pytest.param((1.0, 1.0), "float32", marks=pytest.mark.slow),
        pytest.param((0.05, 0.3), "float64", marks=pytest.mark.slow),
    ],
)
def test_a_hierarchy_recovers_its_priors(shape, dtype):
    """Means and strengths; and the rates, whose place in their law given them is uniform."""
    rates = bd.Hierarchical(["a", "b", "a", "b"], bd.Beta(*shape), bd.Gamma(2.0, 10.0))
    drawn = last_draws(rates, bd.Gibbs(dtype=dtype), 150)
    assert_prior(drawn["logit_group_rate"], *shape)
    strength = np.exp(drawn["log_group_strength"])
    for column in strength.T:
        assert stats.kstest(column, stats.gamma(2.0, scale=10.0).cdf).pvalue > FALSE_ALARM
    mean, owner = drawn["logit_group_rate"], [0, 1, 0, 1]
    # The law of the rates stays as it is where a mean is nearer to an end than e^−40.
    a, b = (special.expit(sign * np.clip(mean, -40, 40))[:, owner] * strength[:, owner] for sign in (1, -1))
    place = probability(drawn["logit_rate"], a, b)
    for column in place.T:
        assert stats.kstest(column, "uniform").pvalue > FALSE_ALARM
