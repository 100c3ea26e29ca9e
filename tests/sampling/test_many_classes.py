"""Posteriors of many classes: exact means with all masks summed, two classes against the logistic model, calibration.

False-alarm rate: a mean is allowed 5 standard errors (5.7e-7 under normality); the default suite compares about 60, so
a correct sampler fails with probability below 5e-5.
"""

import itertools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse, stats

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.fitting.problems.many_classes import softmax_energy
from bayesdrop.hmc.approximations.class_density import contrasts
from bayesdrop.hmc.binding import bind_density
from bayesdrop.sampling.protocols import natural
from bayesdrop.sampling.run.runner import as_key, run

LIMIT = 5.0
K, P, N = 3, 3, 12
MASKS = np.array(list(itertools.product((0.0, 1.0), repeat=P)))
PRIOR = bd.Beta(2.0, 3.0)
POOLED = bd.Hierarchical(["a", "b", "a"], bd.Beta(2, 3), bd.Gamma(2.0, 4.0))
WEIGHTS = np.array([2.0, 1.0, 3.0] * 4)


def problem(seed=0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(N, P)) * (generator.random((N, P)) < 0.8)
    y = (X @ generator.normal(size=(P, K)) * 2 + generator.gumbel(size=(N, K))).argmax(axis=1)
    y[:3] = 0, 1, 2
    return X, y


def log_marginal(model, X, y, row_weight, weight, intercept, rate):
    """``log p(y | w, b, η)`` by the sum over all masks of each row; weight (S, K, p), rate (S, p)."""
    kept = weight * (model.noise.coefficients(rate).gain / (1 - rate))[:, None]
    with np.errstate(divide="ignore"):
        chance = np.prod(np.where(MASKS[None] == 1, 1 - rate[:, None], rate[:, None]), axis=-1)
    total = np.zeros(len(weight))
    for i in range(len(y)):
        score = np.einsum("skd,md->smk", kept * X[i], MASKS) + intercept[:, None]
        log_chance = score[..., y[i]] - np.logaddexp.reduce(score, axis=-1)
        total += row_weight[i] * np.log(np.sum(chance * np.exp(model.C * log_chance), axis=1))
    return total


def statistics(draws):
    """First and second moments and products that couple weights and rates, of draws by name; (S, q)."""
    weight, rate, intercept = draws["weight"], draws["rate"], draws["intercept"]
    weight = weight / (1 + np.abs(weight) / 4)  # tails of scale mixtures
    flat = weight.reshape(len(weight), -1)
    columns = [flat, flat**2, weight[:, 0] * weight[:, 1], intercept / (1 + np.abs(intercept)), rate, rate**2]
    if rate.shape[1]:
        columns.append((weight**2).sum(axis=1) * rate[:, -1:])
    if "global_scale" in draws:
        columns.append(np.log(draws["global_scale"]) / 4)
    if "weight_scale" in draws:
        scale = draws["weight_scale"].reshape(len(weight), -1)
        scale = scale / (1 + scale)
        columns += [scale, scale**2, scale * np.abs(weight[:, 0, :1])]
    if "group_rate" in draws:
        mean, strength = draws["group_rate"], np.log(draws["group_strength"])
        columns += [mean, strength, mean * rate[:, :1]]
    return np.concatenate(columns, axis=1)


def exact_means(model, X, y, row_weight, draws=80_000, seed=1):
    """Posterior means of ``statistics`` and their standard errors, by importance sampling from the prior."""
    generator = np.random.default_rng(seed)
    rate_map, found = model.bind([f"x{d}" for d in range(P)]), {}
    learnt = model.weight_prior.learnt_scale(P)
    if learnt is None:
        weight, scales = model.weight_prior.sample_weight(generator, K * draws, P)
        weight = weight.reshape(draws, K, P)
        scales = {name: value.reshape(draws, K) for name, value in scales.items()}
    else:  # all classes share one
        scale = model.weight_prior.scale.sample(generator, draws, learnt.groups)
        weight = generator.normal(size=(draws, K, P)) * (scale[:, learnt.index] * learnt.unit)[:, None]
        scales = {"weight_scale": scale}
    # All K weights, of which the mean over the classes is taken off where no prior but it speaks of that.
    weight -= weight.mean(axis=1, keepdims=True) if model.weight_prior.gaussian or learnt is not None else 0.0
    found |= scales
    intercept, log_proposal = np.zeros((draws, K)), np.zeros(draws)
    if model.fit_intercept:
        contrast = 2.0 * generator.standard_t(5, size=(draws, K - 1))
        log_proposal = -3.0 * np.log1p((contrast / 2.0) ** 2 / 5).sum(axis=1)
        intercept[:, 1:] = contrast
        intercept -= intercept.mean(axis=1, keepdims=True)
    free = np.zeros((draws, 0))
    if rate_map.hierarchy is not None:
        groups, strength_prior = len(rate_map.hierarchy.names), rate_map.hierarchy.strength_prior
        mean = generator.beta(*rate_map.hierarchy.mean_prior.law(np.zeros(groups)), size=(draws, groups))
        strength = generator.gamma(strength_prior.shape, strength_prior.scale, size=(draws, groups))
        found |= {"group_rate": mean, "group_strength": strength}
        a, b = (part[:, rate_map.hierarchy.index] for part in (mean * strength, (1 - mean) * strength))
        free = np.clip(generator.beta(a, b), 1e-12, 1 - 1e-12)
    elif rate_map.is_free:
        law = rate_map.prior.law(np.zeros(rate_map.size))
        free = law.sample(generator, draws)
    rate = free[:, rate_map.index] if rate_map.is_free else np.broadcast_to(rate_map.initial, (draws, P))
    log_weight = log_marginal(model, X, y, row_weight, weight, intercept, rate) - log_proposal
    share = np.exp(log_weight - log_weight.max())
    share /= share.sum()
    values = statistics({"weight": weight, "intercept": intercept, "rate": free, **found})
    mean = share @ values
    assert 1 / np.sum(share**2) > 500
    return mean, np.sqrt((share**2) @ (values - mean) ** 2)


def drawn(model, X, y, method, sample_weight=None, chains=64, tune=150, draws=300, target=None):
    """What a sampler records, by name, (chains · draws, …)."""
    data = as_dataset(X, y, sample_weight, multiclass=True)
    rate_map = model.bind(data.feature_names)
    with jax.enable_x64(method.dtype == "float64"):
        kernel, operands = method.bind(model, data, rate_map, tune, marginalised=target == "marginalised")
        result = run(kernel, operands, as_key(0), tune=tune, draws=draws, chains=chains, progress=False)
    flat = {k: v.astype(float).reshape(chains * draws, *v.shape[2:]) for k, v in natural(result.draws).items()}
    return {"intercept": np.zeros((chains * draws, K)), "rate": np.zeros((chains * draws, 0)), **flat}


def compare(model, method, sample_weight=None, storage=np.asarray, chains=64, **options):
    X, y = problem()
    size = 80_000 if model.weight_prior.learnt_scale(P) is None else 400_000
    exact, exact_error = exact_means(model, X, y, np.ones(N) if sample_weight is None else sample_weight, size)
    found = drawn(model, storage(X), y, method, sample_weight, chains, **options)
    centred = "weight" if isinstance(model.weight_prior, bd.Normal) else "intercept"
    np.testing.assert_allclose(found[centred].sum(axis=1), 0, atol=1e-4)
    means = statistics(found).reshape(chains, -1, len(exact)).mean(axis=1)
    error = np.hypot(means.std(axis=0, ddof=1) / np.sqrt(chains), exact_error)
    there = error > 1e-9
    z = (means.mean(axis=0) - exact)[there] / error[there]
    assert np.max(np.abs(z)) < LIMIT, np.round(z, 1)


UNBIASED = bd.Dropout(unbiased=True)
GIBBS = bd.Gibbs()
CASES = {
    "per feature, sparse": (bd.Model(bd.Softmax()), GIBBS, None, sparse.csr_array),
    "per feature, unbiased": (bd.Model(bd.Softmax(), UNBIASED, bd.PerFeature(PRIOR)), GIBBS, None, np.asarray),
    "groups, sparse, unbiased": (
        bd.Model(bd.Softmax(), UNBIASED, bd.PerGroup(["a", "b", "a"], PRIOR)), GIBBS, None, sparse.csr_array,
    ),
    "hierarchy, learnt scale": (
        bd.Model(bd.Softmax(), rates=POOLED, weight_prior=bd.Normal(bd.HalfNormal(1.0))), GIBBS, None, np.asarray,
    ),
    "groups, unbiased, learnt scales": (
        bd.Model(
            bd.Softmax(), UNBIASED, bd.PerGroup(["a", "b", "a"], PRIOR),
            weight_prior=bd.Normal(bd.HalfNormal([0.5, 1.0]), groups=["u", "v", "v"], unit=[1.0, 0.5, 1.5]),
        ),
        bd.Gibbs(dtype="float64"), None, sparse.csr_array,
    ),
    "fixed, row weights": (
        bd.Model(bd.Softmax(), rates=bd.Fixed([0.3, 0.0, 0.6]), C=0.6), GIBBS, WEIGHTS, np.asarray,
    ),
    "Laplace, unbiased": (
        bd.Model(bd.Softmax(), UNBIASED, bd.PerFeature(PRIOR), weight_prior=bd.Laplace(0.7)), GIBBS, None, np.asarray,
    ),
    "horseshoe, groups, no intercept": (
        bd.Model(
            bd.Softmax(), UNBIASED, bd.PerGroup(["a", "b", "a"], PRIOR), weight_prior=bd.Horseshoe(0.5),
            fit_intercept=False,
        ),
        bd.Gibbs(dtype="float64"), None, np.asarray,
    ),
    "no intercept, prior scales": (
        bd.Model(
            bd.Softmax(), rates=bd.PerFeature(PRIOR), weight_prior=bd.Normal([2.0, 0.5, 1.0]),
            fit_intercept=False,
        ),
        bd.Gibbs(weights="woodbury"), None, np.asarray,
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("model", "method", "weights", "storage"), CASES.values(), ids=CASES)
def test_posterior_means_are_exact(model, method, weights, storage):
    compare(model, method, weights, storage)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayesdrop.warnings.MixingWarning")
def test_scale_mixtures_without_masks_have_exact_means():
    model = bd.Model(bd.Softmax(), rates=bd.Fixed(0.0), weight_prior=bd.Laplace(0.7), C=0.6)
    compare(model, GIBBS, WEIGHTS / 2, sparse.csr_array, target="marginalised")
    post = bd.sample(model, *problem(), draws=4, tune=4, chains=2, progress=False)
    assert "Gibbs" in bd.groups.dataset(post, "posterior").attrs["method"]


@pytest.mark.slow
def test_density_without_masks_is_the_energy_of_the_fit():
    """Value and gradient, for both forms and three kinds of noise; coordinates are contrasts, so is the gradient."""
    X, y = problem()
    rng = np.random.default_rng(3)
    cases = [(bd.Dropout(), bd.Fixed([0.3, 0.0, 0.6])), (bd.GaussianNoise(0.7), None), (bd.Dropout(), bd.Fixed(0.0))]
    with jax.enable_x64(True):
        for form, (noise, rates) in [("gaussian", cases[0]), *(("taylor", case) for case in cases)]:
            model = bd.Model(bd.Softmax(form), noise, rates, C=0.7, weight_prior=bd.Normal([2.0, 0.5, 1.0]))
            data = as_dataset(X, y, WEIGHTS, multiclass=True)
            rate_map = model.bind(data.feature_names)
            density, operands = bind_density("HMC", model, data, rate_map, True, "float64")
            theta = rng.normal(size=(2, (K - 1) * (P + 1)))
            both = jax.jit(lambda ops, t, density=density: (density.evaluate(ops, t), density.record(ops, t)))
            found, drawn = both(operands, jnp.asarray(theta))
            weight = 0.7 * WEIGHTS
            energy = softmax_energy(model, data.design, rate_map.initial, y, K, weight, weight)
            for c in range(2):
                block = np.vstack([np.asarray(drawn["weight"][c]).T, np.asarray(drawn["intercept"][c])])
                value, gradient, _, _ = energy.evaluate(block)
                assert float(jnp.sum(found.cost[c]) - found.prior[c]) == pytest.approx(value, rel=1e-9)
                slope = gradient @ contrasts(K)
                expected = np.append(slope[:-1].T.ravel(), slope[-1])
                np.testing.assert_allclose(found.gradient[c], expected, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("learnt", [False, True])
def test_recorded_density_is_that_of_the_model(learnt):
    """``lp`` of random states against the density of all variables, masks included, by its definition."""
    X, y = problem()
    prior = bd.Normal(bd.HalfNormal([1.0, 0.5]), groups=["u", "v", "u"]) if learnt else bd.Normal()
    model = bd.Model(bd.Softmax(), UNBIASED, bd.PerFeature(PRIOR), C=0.7, weight_prior=prior)
    data = as_dataset(X, y, WEIGHTS, multiclass=True)
    with jax.enable_x64(True):
        kernel, operands = bd.Gibbs(dtype="float64").bind(model, data, model.bind(data.feature_names), 0)

        @jax.jit
        def start(operands, key):
            state = kernel.init(operands, key, 5)
            return state, kernel.record(operands, state)

        state, found = start(operands, jax.random.key(1))
        found = {name: np.asarray(value) for name, value in found.items()}
    rate, weight, kept = 1 / (1 + np.exp(-found["logit_rate"])), found["weight"], np.asarray(state.masks[0])
    # Rows with entries are there as often as their weights say.
    masked = np.any(X != 0, axis=1)
    copies = np.repeat(np.arange(N), np.where(masked, WEIGHTS, 1).astype(int))
    X, y, row_weight = X[copies], y[copies], np.where(masked, 1.0, WEIGHTS)[copies]
    expected = np.zeros(5)
    for c in range(5):
        mask = np.where(X.T != 0, kept[:, c], False)
        score = (X * mask.T) @ (weight[c] / (1 - rate[c])).T + found["intercept"][c]
        np.testing.assert_allclose(np.asarray(state.score)[:, c], score.T, atol=1e-12)
        own = score[np.arange(len(y)), y] - np.logaddexp.reduce(score, axis=1)
        drops = np.sum((X.T != 0) & ~mask, axis=1)
        scale = np.exp(found["log_weight_scale"][c]) if learnt else np.ones(2)
        # Of weights that sum to 0 over the classes K - 1 contrasts are free.
        contrast = stats.norm.logpdf(contrasts(K).T @ weight[c], scale=scale[[0, 1, 0]])
        expected[c] = 0.7 * row_weight @ own + contrast.sum() + stats.beta(2, 3).logpdf(rate[c]).sum()
        expected[c] += stats.halfnorm.logpdf(scale, scale=[1.0, 0.5]).sum() if learnt else 0.0
        expected[c] += np.sum(drops * np.log(rate[c]) + ((X != 0).sum(axis=0) - drops) * np.log1p(-rate[c]))
    np.testing.assert_allclose(found["lp"] - found["lp"][0], expected - expected[0], rtol=1e-9, atol=1e-9)


def test_what_has_no_posterior_sampler_says_what_to_use():
    X, y = problem()
    model = bd.Model(bd.Softmax())
    for options, words in (
        ({"method": bd.HMC()}, "bd.Gibbs"),
        ({"method": bd.Gibbs(), "target": "marginalised"}, "bd.HMC"),
    ):
        fixed = bd.Model(bd.Softmax(), rates=bd.Fixed(0.2))
        with pytest.raises(ValueError, match=words):
            bd.sample(fixed, X, y, progress=False, **options)
    mixture = bd.Model(bd.Softmax(), rates=bd.Fixed(0.2), weight_prior=bd.Laplace())
    with pytest.raises(ValueError, match='target="noising"'):
        bd.sample(mixture, X, y, progress=False, target="marginalised")
    apart = bd.Model(bd.Softmax(), weight_prior=bd.Horseshoe(0.5))
    with pytest.raises(ValueError, match="separate one class from the others.*bd.Laplace"):
        bd.sample(apart, np.where(y == 1, 3.0, -1.0)[:, None] + 0.1 * X[:, :1], y, progress=False)
    with pytest.raises(ValueError, match="bd.variational takes one score.*bd.sample"):
        bd.variational(model, X, y)
    with pytest.raises(ValueError, match="classes: expected two labels or more"):
        bd.prior_draws(model, X, intercept_scale=1.0)
    with pytest.raises(ValueError, match="classes: .* leave them out"):
        bd.prior_draws(bd.Model(), X, intercept_scale=1.0, classes=["a", "b"])
    with pytest.raises(ValueError, match="DropoutSVC has no likelihood"):
        bd.DropoutSVC().sample(X, y)


def test_the_classifier_samples_three_classes():
    """Its posterior is ``bd.sample``'s, class weights are row weights, and the dims are named."""
    X, y = problem()
    y = np.array(["one", "two", "three"])[y]
    options = {"chains": 2, "draws": 25, "tune": 25, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = bd.DropoutLogisticRegression(0.0, class_weight={"one": 2.0, "two": 1.0, "three": 1.0})
        ours = model.sample(X, y, **options)
        weight = np.where(y == "one", 2.0, 1.0)
        plain = bd.sample(bd.Model(bd.Softmax(), rates=bd.Fixed(0.0)), X, y, sample_weight=weight, **options)
    ours, plain = (bd.groups.dataset(post, "posterior") for post in (ours, plain))
    assert ours["weight"].dims == ("chain", "draw", "class", "feature")
    assert ours["intercept"].dims == ("chain", "draw", "class")
    assert ours["class"].values.tolist() == ["one", "three", "two"]
    np.testing.assert_array_equal(ours["weight"], plain["weight"])


FALSE_ALARM, REPLICATIONS, DRAWS, BURN, THIN, ROWS = 1e-5, 512, 31, 60, 6, 16


def ranks(model, method, seed=0):
    """Ranks of the true parameters among draws."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(ROWS, P)) * (generator.random((ROWS, P)) < 0.85) * 1.5
    names = [f"x{d}" for d in range(P)]
    rate_map, shape = model.bind(names), (REPLICATIONS, K, P)
    truth = {"weight": generator.normal(size=shape)}
    if not model.weight_prior.gaussian:
        truth["weight_scale"] = model.weight_prior.scale.sample(generator, REPLICATIONS, 1)[:, 0]
        truth["weight"] *= truth["weight_scale"][:, None, None]
    truth["weight"] -= truth["weight"].mean(axis=1, keepdims=True)
    rate = np.broadcast_to(rate_map.initial, (REPLICATIONS, P))
    if rate_map.is_free:
        truth["rate"] = generator.beta(2.0, 3.0, size=(REPLICATIONS, rate_map.size))
        rate = truth["rate"][:, rate_map.index]
    kept = generator.random((REPLICATIONS, ROWS, P)) >= rate[:, None]
    factor = model.noise.coefficients(rate).gain / (1 - rate)
    score = np.einsum("rnp,np,rkp->rnk", kept, X, truth["weight"] * factor[:, None])
    target = (score + generator.gumbel(size=score.shape)).argmax(axis=2)
    data = as_dataset(X, np.arange(ROWS) % K, multiclass=True)
    marginalised = not (rate_map.is_free or np.any(rate_map.initial > 0))
    with jax.enable_x64(method.dtype == "float64"):
        kernel, operands = method.bind(model, data, rate_map, BURN, marginalised=marginalised)

        def one(target, key):
            if hasattr(operands, "density"):  # a prior's centre and spread, which favour no data set
                ops = operands._replace(
                    density=operands.density._replace(target=target), centre=jnp.zeros_like(operands.centre),
                    factor=jnp.eye(len(operands.centre), dtype=operands.centre.dtype),
                )  # fmt: skip
            else:
                ops = operands._replace(target=target)
            state = kernel.init(ops, key, 1)
            state = jax.lax.fori_loop(0, BURN, lambda _, s: kernel.step(ops, s)[0], state)

            def thinned(state, _):
                state = jax.lax.fori_loop(1, THIN, lambda _, s: kernel.step(ops, s)[0], state)
                state, recorded = kernel.step(ops, state)
                return state, natural(recorded)

            return jax.lax.scan(thinned, state, None, DRAWS)[1]

        keys = jax.random.split(jax.random.key(seed + 1), REPLICATIONS)
        found = jax.jit(jax.vmap(one))(jnp.asarray(target, method.dtype), keys)
        found = {name: np.asarray(value, dtype=float)[:, :, 0] for name, value in found.items()}
    found["length"], truth["length"] = (np.sum(part["weight"] ** 2, axis=(-1, -2)) for part in (found, truth))
    return [
        column
        for name, value in truth.items()
        for column in np.sum(found[name] < value[:, None], axis=1).reshape(REPLICATIONS, -1).T
    ]


CALIBRATED = {
    "Gibbs, per feature": (bd.Model(bd.Softmax(), rates=bd.PerFeature(PRIOR), fit_intercept=False), GIBBS),
    "Gibbs, unbiased, shared": (bd.Model(bd.Softmax(), UNBIASED, bd.Shared(PRIOR), fit_intercept=False), GIBBS),
    "Gibbs, shared, learnt scale": (
        bd.Model(bd.Softmax(), rates=bd.Shared(PRIOR), weight_prior=bd.Normal(bd.HalfNormal(1.0)), fit_intercept=False),
        GIBBS,
    ),
    "HMC": (bd.Model(bd.Softmax(), rates=bd.Fixed(0.0), fit_intercept=False), bd.HMC()),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CALIBRATED)
def test_ranks_are_uniform(name, least):
    assert least(ranks(*CALIBRATED[name]), DRAWS) > FALSE_ALARM


@pytest.mark.slow
def test_a_planted_error_is_found(monkeypatch, least):
    """The pull of the pseudo-observations half too strong; the moves by feature, which are right, repair some of it."""
    right = bd.Logistic.sample_pseudo

    def wrong(self, key, y, mean, var, weight):
        pseudo = right(self, key, y, mean, var, weight)
        return pseudo._replace(kappa=1.5 * pseudo.kappa)

    monkeypatch.setattr(bd.Logistic, "sample_pseudo", wrong)
    assert least(ranks(*CALIBRATED["Gibbs, per feature"]), DRAWS) < FALSE_ALARM
