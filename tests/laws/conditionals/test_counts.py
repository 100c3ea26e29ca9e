"""Counts: the programs are the library's densities, and the Polya-Gamma variables their mixture. No chain is run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer.util import compute_log_probs

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.distributions import PolyaGamma
from bayesdrop.models import count_laws, counts

LAWS = {
    "poisson": (bd.Poisson(), count_laws.poisson),
    "binomial": (bd.Binomial(6), count_laws.binomial(6)),
    "negative binomial": (bd.NegativeBinomial(2.5), count_laws.negative_binomial(2.5)),
}
AUGMENTED = ["binomial", "negative binomial"]
POWERS = (0.1, 1.0, 2.5)


@pytest.fixture(autouse=True)
def _rank_promotion():
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):  # NumPyro's own code needs both
        yield


@pytest.fixture
def rows():
    """Scores and counts, up to the trials that there are: ``(y, s)``, both (n,)."""
    y, score = np.meshgrid(np.arange(7.0), np.linspace(-6, 6, 13))
    return jnp.asarray(y.ravel()), jnp.asarray(score.ravel())


def sites(program, y, score, law, C, **values):
    """Log density of each row's sites, of a program with one weight of 1, so that ``x`` is the score."""
    values |= {"weight": jnp.ones(1), "intercept": jnp.zeros(())}
    return compute_log_probs(program, (score[:, None], y, law), {"C": C}, values, sum_log_prob=False)[0]


@pytest.mark.slow
@pytest.mark.parametrize("C", POWERS)
@pytest.mark.parametrize("name", AUGMENTED)
def test_given_the_variables_the_score_is_normal(name, rows, C, same):
    """``log p(y, ω | s)`` is ``κs − ½ωs²``, with the library's κ, and what does not depend on the score."""
    loss, law = LAWS[name]
    y, score = rows
    trials = law.trials(y)
    kappa = loss.pseudo(y, score, jnp.zeros_like(score), C).kappa
    for share in (0.1, 0.25, 0.6):
        omega = share * C * trials
        found = sites(counts.augmented, y, score, law, C, omega=omega)
        joint = found["y"] + found["omega"]
        quadratic = kappa * score - 0.5 * omega * score**2
        constant = C * (loss.log_base_measure(np.asarray(y)) - trials * np.log(2))
        constant += PolyaGamma(C * trials, jnp.zeros_like(score)).log_prob(omega)
        same(joint, quadratic + constant, *found.values(), quadratic)


@pytest.mark.slow_cases("binomial")
@pytest.mark.parametrize("name", AUGMENTED)
def test_drawn_variables_have_the_stated_mean(name):
    """Means of 4,000 draws, skewness below 3, within 5.7 standard errors; 15 cells a law: 1e-6 a law."""
    loss, _ = LAWS[name]
    y, score = (part.ravel() for part in np.meshgrid([0.0, 2.0, 6.0], [-4.0, -0.5, 0.0, 1.0, 7.0]))
    wide = [jnp.asarray(np.repeat(part, 4_000)) for part in (y, score)]
    pseudo = jax.jit(loss.sample_pseudo)(jax.random.key(0), *wide, jnp.zeros_like(wide[0]), jnp.ones_like(wide[0]))
    trials = 6.0 + 0 * y if name == "binomial" else y + 2.5
    law = PolyaGamma(jnp.asarray(trials), jnp.asarray(score))
    draws = np.asarray(pseudo.omega).reshape(len(y), -1)
    z = (draws.mean(axis=1) - np.asarray(law.mean)) / np.sqrt(np.asarray(law.variance) / 4_000)
    assert np.max(np.abs(z)) < 5.7
    np.testing.assert_allclose(np.asarray(pseudo.kappa).reshape(len(y), -1)[:, 0], y - trials / 2, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", AUGMENTED)
def test_the_sampler_records_the_density_of_the_program(name):
    """With masks and rates explicit, up to a constant: Gibbs' ``lp`` at several states of its own."""
    loss, law = LAWS[name]
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(8, 3)) * (rng.random((8, 3)) < 0.8), rng.integers(0, 6, 8).astype(float)
    model = bd.Model(loss, rates=bd.PerFeature(bd.Beta(2.0, 3.0)), C=1.3, weight_prior=bd.Normal(1.5))
    data = as_dataset(X, y, binary=False)
    kernel, operands = bd.Gibbs(dtype="float64", joint_moves=0).bind(model, data, model.bind(data.feature_names), 0)

    @jax.jit
    def start(operands, key):
        state = kernel.init(operands, key, 4)
        return state, kernel.record(operands, state)

    @jax.jit
    def log_joint(values):
        options = {"law": law, "A": 2.0, "B": 3.0, "C": 1.3, "scale": 1.5, "intercept_scale": None}
        return sum(compute_log_probs(counts.noised, (jnp.asarray(X), jnp.asarray(y)), options, values)[0].values())

    state, recorded = start(operands, jax.random.key(1))
    gaps = []
    for c in range(4):
        kept = np.ones((8, 3))
        for block, masks in zip(operands.columns.blocks, state.masks, strict=True):
            kept[:, np.asarray(block.features)] = np.asarray(masks)[:, c].T
        rate = jax.nn.sigmoid(recorded["logit_rate"][c])
        values = {"weight": recorded["weight"][c], "intercept": recorded["intercept"][c], "rate": rate, "kept": kept}
        gaps.append(float(recorded["lp"][c]) - float(log_joint(values)))
    assert np.ptp(gaps) < 1e-9
