"""Programs of what the library has too, and the library: one density, as exact identities."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer.util import compute_log_probs, log_density

import bayesdrop as bd
from bayesdrop.gibbs.moves.scales import log_beta_density, log_hyperprior
from bayesdrop.gibbs.moves.state import hierarchy_operands
from bayesdrop.models import hierarchical_rates, missing_entries, unlabelled_rows

N, P = 30, 3
RNG = np.random.default_rng(17)
X = RNG.normal(size=(N, P))
Y = (X[:, 0] + RNG.logistic(size=N) > 0).astype(int)


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield


@pytest.mark.slow
def test_rows_without_labels_have_the_mode_of_the_fit():
    """The gradient of the log density is zero at the estimator's weights, and is not without the other rows."""
    more = RNG.normal(size=(50, P)) * [1.0, 2.0, 0.5]
    fit = bd.DropoutLogisticRegression(0.3, C=2.0, tol=1e-12).fit(X, Y, unlabelled=more, unlabelled_weight=0.4)
    at = {"weight": jnp.asarray(fit.coef_[0]), "intercept": jnp.asarray(fit.intercept_[0])}

    def slope(rows):
        arguments = (jnp.asarray(X), jnp.asarray(Y), rows, 0.3, 0.4, 2.0, 1.0, None)
        return jax.jit(jax.grad(lambda values: log_density(unlabelled_rows.program, arguments, {}, values)[0]))(at)

    largest = lambda tree: max(float(jnp.max(jnp.abs(part))) for part in jax.tree.leaves(tree))  # noqa: E731
    assert largest(slope(jnp.asarray(more))) < 1e-5
    assert largest(slope(None)) > 1e-2


def holes():
    rows = X.copy()
    rows[RNG.random(rows.shape) < 0.25] = np.nan
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("centre", [None, "mean"])
def test_missing_entries_have_the_likelihood_of_the_library(centre):
    """At draws of the library's sampler, whose own likelihoods sum the masks, row by row."""
    rows = holes()
    model = bd.Model(noise=bd.Dropout(centre=centre), missing="nan")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few draws
        post = bd.sample(model, rows, Y, draws=4, tune=20, chains=2, seed=0, progress=False)
    stored = bd.groups.dataset(bd.log_likelihood(post, rows, Y), "log_likelihood")["y"].values
    draws = bd.groups.dataset(post, "posterior")
    shift = 0.0 if centre is None else jnp.asarray(np.nanmean(rows, axis=0))
    arguments = (jnp.asarray(rows), jnp.asarray(Y), shift)

    @jax.jit
    def log_likelihood(values):
        return compute_log_probs(missing_entries.enumerated, arguments, {}, values, sum_log_prob=False)[0]["y"]

    for chain in range(2):
        for draw in range(4):
            values = {name: jnp.asarray(draws[name].values[chain, draw], float) for name in ("weight", "rate")}
            intercept = draws["intercept"].values[chain, draw].astype(float) + np.sum(values["weight"] * shift)
            values["intercept"] = jnp.asarray(intercept)
            np.testing.assert_allclose(stored[chain, draw], log_likelihood(values), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_masks_of_missing_entries_sum_to_the_enumerated_program():
    """Brute force over all masks of the entries that are there; the others have one."""
    rows, labels = jnp.asarray([[1.0, jnp.nan], [jnp.nan, -0.5], [0.7, 2.0]]), jnp.asarray([1, 0, 1])
    values = {"weight": jnp.asarray([0.8, -1.3]), "intercept": jnp.asarray(0.2), "rate": jnp.asarray([0.2, 0.6])}
    cells = np.argwhere(~np.isnan(rows))

    @jax.jit
    def density(kept):
        return log_density(missing_entries.program, (rows, labels), {}, {**values, "kept": kept})[0]

    total = []
    for pattern in np.ndindex(*(2,) * len(cells)):
        kept = np.zeros(rows.shape)
        kept[tuple(cells.T)] = pattern
        total.append(density(kept))
    summed = jax.jit(lambda values: log_density(missing_entries.enumerated, (rows, labels), {}, values)[0])(values)
    np.testing.assert_allclose(jax.scipy.special.logsumexp(jnp.stack(total)), summed, rtol=1e-12)


@pytest.mark.slow
def test_hierarchical_rates_have_the_law_of_the_library():
    """Of rates, means and strengths, up to the constants of the hyperpriors; the library's is one of their logits."""
    groups, mean, strength = (0, 0, 1), (1.5, 2.0), (2.0, 10.0)
    rates = bd.Hierarchical(["a", "a", "b"], bd.Beta(*mean), bd.Gamma(*strength))
    operands = hierarchy_operands(rates.bind(["one", "two", "three"]).hierarchy, "float64")
    given = {"groups": groups, "mean": mean, "strength": strength}

    @jax.jit
    def log_probs(values):
        arguments = (jnp.asarray(X), jnp.asarray(Y))
        return compute_log_probs(hierarchical_rates.program, arguments, given, values, sum_log_prob=False)[0]

    differences = []
    for _ in range(5):
        logit, logit_mean, log_strength = RNG.normal(size=3), RNG.normal(size=2), 2 + RNG.normal(size=2)
        rate, group_rate = (1 / (1 + np.exp(-part)) for part in (logit, logit_mean))
        values = {
            "weight": np.zeros(P), "intercept": np.zeros(()), "rate": rate,
            "group_rate": group_rate, "group_strength": np.exp(log_strength),
        }  # fmt: skip
        found = log_probs(values)
        theirs = sum(float(jnp.sum(found[name])) for name in ("rate", "group_rate", "group_strength"))
        # From densities of numbers to densities of their logits and logarithms.
        theirs += np.sum(np.log(rate * (1 - rate))) + np.sum(np.log(group_rate * (1 - group_rate))) + log_strength.sum()
        index = np.array(groups)
        own = log_beta_density(*(jnp.asarray(part[None]) for part in (logit, logit_mean[index], log_strength[index])))
        hyper = log_hyperprior(operands, jnp.asarray(logit_mean[None]), jnp.asarray(log_strength[None]))
        differences.append(theirs - float(jnp.sum(own)) - float(jnp.sum(hyper)))
    np.testing.assert_allclose(differences, differences[0], rtol=1e-9, atol=1e-9)
