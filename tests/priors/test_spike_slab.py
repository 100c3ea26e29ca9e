"""The spike-and-slab prior: settings, their errors, and its density against its draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer.util import log_density
from scipy import stats

import bayesdrop as bd
from bayesdrop.models import spike_slab
from bayesdrop.posterior.problem import Problem

NAMES = ["age", "size", "site[a]", "site[b]"]
TERMS = ["age", "size", "site", "site"]


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (dict(inclusion=1.5), r"SpikeSlab inclusion: expected probabilities in \[0, 1\]"),
        (dict(inclusion={"age": -0.1}), r"SpikeSlab inclusion\['age'\]: expected probabilities"),
        (dict(inclusion=bd.Beta([1.0, 2.0])), "SpikeSlab inclusion: expected one a and one b"),
        (dict(inclusion=0.5, expected_size=2), "SpikeSlab expected_size: expected it or inclusion, got both"),
        (dict(expected_size=0), "SpikeSlab expected_size: expected a finite number above 0"),
        (dict(slab=bd.Normal(1.0, mean=1.0)), "SpikeSlab slab: expected a normal prior with mean 0"),
        (dict(groups=[["age", "size"], ["size"]]), r"SpikeSlab groups: \['size'\] is in two groups"),
    ],
)
def test_settings_are_checked(settings, error):
    with pytest.raises(ValueError, match=error):
        bd.SpikeSlab(**settings)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (dict(include=["weight"]), "SpikeSlab include: 'weight' is not there"),
        (dict(include=["default"]), "SpikeSlab include: 'default' names no column; the columns are"),
        (dict(include=[4]), "SpikeSlab include: expected positions below 4"),
        (dict(groups=[["age", "weight"]]), "SpikeSlab groups: 'weight' is not there"),
        (
            dict(groups=[["site"], ["site[a]", "age"]]),
            r"SpikeSlab groups: \[2\] is in two groups",
        ),
        (
            dict(groups=[[]]),
            "SpikeSlab groups: expected at least one name in each",
        ),
        (dict(inclusion=[0.5, 0.5]), r"SpikeSlab inclusion: expected one number or 4 of them"),
        (dict(expected_size=4), "SpikeSlab expected_size: expected a number below 4"),
        (dict(inclusion=[0.5, 0.1, 0.2, 0.3], groups="terms"), "expected one probability for the features of a group"),
    ],
)
def test_columns_are_checked(settings, error):
    with pytest.raises(ValueError, match=error):
        bd.SpikeSlab(**settings).of_columns(NAMES, TERMS).check(4)


@pytest.mark.parametrize("kind", [TypeError, ValueError])
def test_other_kinds_are_refused(kind):
    wrong = {TypeError: [dict(slab=bd.Laplace(1.0)), dict(include="age"), dict(groups="age")], ValueError: []}[kind]
    for settings in wrong:
        with pytest.raises(TypeError, match="SpikeSlab"):
            bd.SpikeSlab(**settings)
    with pytest.raises(ValueError, match="those of a formula, and there is none"):
        bd.SpikeSlab(groups="terms").of_columns(NAMES)


def test_terms_enter_whole():
    law = bd.SpikeSlab(groups="terms", include=["size"]).of_columns(NAMES, TERMS).law(4)
    assert law.unit.tolist() == [0, 1, 2, 2]
    assert law.is_forced.tolist() == [False, True, False]


def test_draws_have_the_density():
    """Frequencies of models against their probability, by a chi-squared test of false-alarm rate 1e-6."""
    prior = bd.SpikeSlab(bd.Beta(2.0, 3.0), slab=bd.Normal(2.0), groups=[[0, 1]], include=[3])
    weight, more = prior.sample_weight(np.random.default_rng(0), 20_000, 4)
    np.testing.assert_array_equal(more["included"] != 0, weight != 0)
    np.testing.assert_array_equal(more["model_size"], (weight != 0).sum(axis=1))
    models, counts = np.unique(weight[:, [0, 2]] != 0, axis=0, return_counts=True)
    point = np.ones((4, 4)) * np.column_stack([models[:, [0, 0, 1]], np.ones(4)])
    normal = stats.norm.logpdf(1.0, scale=2.0) * (point != 0).sum(axis=1)
    chance = np.exp(prior.log_density(point) - normal)
    np.testing.assert_allclose(chance.sum(), 1.0)
    assert stats.chisquare(counts, 20_000 * chance).pvalue > 1e-6
    with pytest.raises(TypeError, match="no closed form"):
        bd.SpikeSlab(slab=bd.Normal(bd.HalfNormal(1.0))).log_density(point)


INTERACTIONS = ["a", "b", "c", "a:b", "b:a:c", "Q('a:b'):c", "b:c"]


@pytest.mark.parametrize("heredity", ["strong", "weak"])
@pytest.mark.parametrize(
    "settings", [dict(inclusion=0.3), dict(inclusion=bd.Beta(2.0, 3.0)), dict(inclusion=0.4, include=["a"])]
)
def test_heredity_is_a_law_of_the_indicators(heredity, settings):
    """The sets have a sum of 1, odds are those of their probabilities, and draws have these."""
    prior = bd.SpikeSlab(groups="terms", heredity=heredity, **settings).of_columns(INTERACTIONS, INTERACTIONS)
    law = prior.law(7)
    every = np.array(list(np.ndindex(*[2] * 7)), dtype=bool)
    every = every[every[:, law.is_forced].all(axis=1)]
    log_chance = dict(zip(map(tuple, every), law.log_density(every), strict=True))
    np.testing.assert_allclose(sum(map(np.exp, log_chance.values())), 1.0)
    needs = {3: [0, 1], 4: [3, 6], 5: [2], 6: [1, 2]}
    enough, free = (all if heredity == "strong" else any), np.flatnonzero(~law.is_forced)
    for is_in, log_one in log_chance.items():
        allowed = all(enough(is_in[d] for d in needs[child]) for child in needs if is_in[child])
        assert allowed == (log_one > -np.inf)
        if not allowed:
            continue
        for d, odds in zip(free, law.log_odds(np.array(is_in), free), strict=True):
            without, with_it = (tuple(np.where(np.arange(7) == d, value, is_in)) for value in (False, True))
            np.testing.assert_allclose(odds, log_chance[with_it] - log_chance[without], atol=1e-12)
    drawn, _ = law.sample(np.random.default_rng(0), 20_000)
    models, counts = np.unique(drawn, axis=0, return_counts=True)
    chance = np.array([np.exp(log_chance[tuple(one)]) for one in models])
    assert (
        stats.chisquare(
            np.append(counts, 0), 20_000 * np.append(chance, max(1 - chance.sum(), 1e-9)), sum_check=False
        ).pvalue
        > 1e-6
    )


def test_heredity_needs_terms_and_parents():
    with pytest.raises(ValueError, match='SpikeSlab heredity: expected groups="terms" or a mapping'):
        bd.SpikeSlab(groups=[["a"]], heredity="strong")
    with pytest.raises(ValueError, match="SpikeSlab heredity"):
        bd.SpikeSlab(groups="terms", heredity="some")
    forced = bd.SpikeSlab(groups={"a": ["a"], "b": [1], "a:b": ["a:b"]}, heredity="weak", include=["a:b"])
    with pytest.raises(ValueError, match="SpikeSlab include: expected the parents of 'a:b' too"):
        forced.of_columns(["a", "b", "a:b"]).law(3)


REFUSALS = {
    "fit": lambda model, X, y: bd.fit(model, X, y),
    "HMC": lambda model, X, y: bd.sample(model, X, y, method=bd.HMC(), progress=False),
    "NUTS": lambda model, X, y: bd.sample(model, X, y, method=bd.NUTS(), progress=False),
    "variational": lambda model, X, y: bd.variational(model, X, y),
}


@pytest.mark.parametrize("name", REFUSALS)
@pytest.mark.parametrize("slab", [bd.Normal(1.0), bd.Normal(bd.HalfNormal(1.0))])
def test_others_refuse_it(name, slab):
    X, y = np.random.default_rng(0).normal(size=(12, 2)), np.tile([0, 1], 6)
    model = bd.Model(rates=bd.Fixed(0.0), weight_prior=bd.SpikeSlab(slab=slab))
    with pytest.raises(ValueError, match=r"bd\.sample|bd\.Gibbs\(\)"):
        REFUSALS[name](model, X, y)


@pytest.mark.parametrize(
    ("model", "method", "error"),
    [
        (dict(), None, r"SpikeSlab needs rates, .*; take rates=bd.Fixed\(0.0\).*, or bd.PerFeature\(bd.Beta\(1, 3\)\)"),
        (dict(rates=bd.Shared()), None, r"SpikeSlab takes rates of single features or fixed ones, .* got Shared"),
        (dict(rates=bd.Hierarchical([0, 1])), None, "SpikeSlab takes rates of single features or fixed ones"),
        (dict(noise=bd.GaussianNoise(0.5)), None, "SpikeSlab takes features without noise, or whose dropped entries"),
        (
            dict(rates=bd.Fixed(0.3), weight_prior=bd.SpikeSlab(groups=[[0, 1]])),
            None,
            "SpikeSlab takes groups and heredity beside features without noise only",
        ),
        (
            dict(rates=bd.Fixed(0.3), intercept_prior=bd.Normal(2.5)),
            None,
            "intercept_prior: expected none beside dropped entries",
        ),
        (
            dict(loss=bd.Softmax(), rates=bd.Fixed(0.3)),
            None,
            "with dropped entries bd.SpikeSlab takes a loss with one",
        ),
        (dict(rates=bd.Fixed(0.0)), bd.Gibbs(weights="woodbury"), 'drawn together with the indicators; take "auto"'),
    ],
)
def test_gibbs_refuses_what_it_cannot_draw(model, method, error):
    X, y = np.random.default_rng(0).normal(size=(12, 2)), np.tile([0, 1], 6)
    with pytest.raises(ValueError, match=error):
        bd.sample(bd.Model(**{"weight_prior": bd.SpikeSlab(), **model}), X, y, method=method, progress=False)
    averaged = bd.Model(rates=bd.Fixed(0.3), weight_prior=bd.SpikeSlab())
    with pytest.raises(ValueError, match="averaged inside the loss"):
        bd.sample(averaged, X, y, target="marginalised", progress=False)
    forced = bd.Model(rates=bd.Fixed(0.0), weight_prior=bd.SpikeSlab(include=[0, 1, 2]))
    with pytest.raises(ValueError, match="at most as many features as rows, 2, got 3"):
        bd.sample(forced, np.arange(8.0).reshape(2, 4), [0, 1], progress=False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayesdrop.warnings.MixingWarning")  # a few draws
def test_the_program_has_the_joint_density():
    """The program's density of indicators, slab weights and intercept, and of the enumerated one, at draws."""
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.tile([0, 1], 10)
    prior = bd.SpikeSlab([0.2, 0.5, 0.7], slab=bd.Normal(1.5))
    model = bd.Model(rates=bd.Fixed(0.0), weight_prior=prior)
    method = bd.Gibbs(dtype="float64")
    post = bd.sample(model, X, y, draws=10, tune=5, chains=1, method=method, progress=False)
    draws, lp = bd.groups.dataset(post, "posterior").isel(chain=0), bd.groups.dataset(post, "sample_stats")["lp"]
    options = dict(inclusion=np.array([0.2, 0.5, 0.7]), scale=1.5, intercept_scale=None)
    found, total = [], []

    def log_joint(program, sites):
        return log_density(program, (jnp.asarray(X), y), options, sites)[0]

    log_joint = jax.jit(log_joint, static_argnums=0)
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        for s in range(10):
            sites = {"weight": jnp.asarray(draws["weight"].values[s]), "intercept": jnp.asarray(draws["intercept"][s])}
            included = jnp.asarray(draws["included"].values[s].astype(float))
            found.append(log_joint(spike_slab.program, sites | {"included": included}))
            every = [
                log_joint(spike_slab.program, sites | {"included": jnp.asarray(g, float)}) for g in np.ndindex(2, 2, 2)
            ]
            one = log_joint(spike_slab.enumerated, sites)
            total.append(one - jax.nn.logsumexp(jnp.asarray(every)))
    # The library has no weights of features that are out.
    out = 3 - draws["model_size"].values
    np.testing.assert_allclose(np.array(found), lp.values[0] + out * stats.norm.logpdf(0.0, scale=1.5), rtol=1e-9)
    np.testing.assert_allclose(total, 0.0, atol=1e-8)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayesdrop.warnings.MixingWarning")  # a few draws
def test_the_program_of_classes_has_the_joint_density():
    """The program's density of indicators, slab weights and intercepts at draws."""
    X, y = np.random.default_rng(0).normal(size=(21, 2)), np.tile([0, 1, 2], 7)
    model = bd.Model(bd.Softmax(), rates=bd.Fixed(0.0), weight_prior=bd.SpikeSlab([0.2, 0.7], slab=bd.Normal(1.5)))
    post = bd.sample(model, X, y, draws=10, tune=5, chains=1, method=bd.Gibbs(dtype="float64"), progress=False)
    draws, lp = bd.groups.dataset(post, "posterior").isel(chain=0), bd.groups.dataset(post, "sample_stats")["lp"]
    options, found = dict(inclusion=np.array([0.2, 0.7]), scale=1.5, intercept_scale=None), []
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        for s in range(10):
            sites = {name: jnp.asarray(draws[name].values[s], float) for name in ("weight", "intercept", "included")}
            found.append(log_density(spike_slab.of_classes, (X, y), options, sites)[0])
    out = 6 - draws["model_size"].sum("class").values
    np.testing.assert_allclose(np.array(found), lp.values[0] + out * stats.norm.logpdf(0.0, scale=1.5), rtol=1e-9)


@pytest.mark.slow
def test_the_program_with_masks_has_the_density_of_the_sampler():
    """Of every set of masks of two rows, summed, and up to a constant: indicators, slab weights and rates."""
    X, y, rng = np.array([[0.7, -1.2], [1.5, 0.4]]), np.array([0, 1]), np.random.default_rng(3)
    masks = np.array(list(np.ndindex(2, 2, 2, 2)), dtype=bool).reshape(16, 2, 2)  # of sets, features and rows
    model = bd.Model(
        noise=bd.Dropout(centre=None), rates=bd.PerFeature(bd.Beta(1, 3)), fit_intercept=True,
        weight_prior=bd.SpikeSlab([0.2, 0.6], slab=bd.Normal(1.5)),
    )  # fmt: skip
    options = dict(inclusion=np.array([0.2, 0.6]), scale=1.5, intercept_scale=None, rate_prior=(1.0, 3.0))
    gaps = []
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        kernel, operands = Problem.of(model, X, y).bind(bd.Gibbs(dtype="float64"), 10)
        first = jax.jit(kernel.init, static_argnums=2)(operands, jax.random.key(0), 16)
        record = jax.jit(lambda state: kernel.record(operands, state)["lp"])
        log_joint = jax.jit(lambda sites: log_density(spike_slab.program, (jnp.asarray(X), y), options, sites)[0])
        for included in np.ndindex(2, 2):
            weight, rate, level = rng.normal(size=2), rng.uniform(size=2), rng.normal()
            is_in = np.array(included, dtype=bool)
            every = lambda part: jnp.broadcast_to(jnp.asarray(part), (16, *np.shape(part)))  # noqa: E731
            kept = masks & is_in[:, None]
            state = first._replace(
                effective=every(weight), intercept=every(level), logit=every(np.log(rate / (1 - rate))),
                masks=(jnp.asarray(kept.transpose(1, 0, 2)),),
                score=jnp.asarray(np.einsum("d,sdn,nd->sn", weight, kept, X) + level),
                indicators=first.indicators._replace(included=every(is_in)),
            )  # fmt: skip
            # Sets that differ in the masks of excluded features alone are the same one.
            total = jax.nn.logsumexp(record(state)) - 2 * np.log(2) * np.sum(~is_in)
            sites = {"weight": weight, "intercept": level, "rate": rate, "included": is_in.astype(float)}
            sites = {name: jnp.asarray(value) for name, value in sites.items()}
            slab = np.sum(stats.norm.logpdf(weight[~is_in], scale=1.5))
            gaps.append(log_joint(sites) - slab - total)
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-10)
