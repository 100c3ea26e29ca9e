"""Variational Bayes: its bound, its coordinate updates, its limits, and what it refuses."""

import contextlib
import itertools
import warnings

import numpy as np
import pytest
from scipy import integrate, sparse, special, stats

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.priors import Horseshoe, InverseGamma
from bayesdrop.rates import Hierarchical
from bayesdrop.variational_bayes.fitting import _problem, _start
from bayesdrop.warnings import NarrowIntervalsWarning

LOSSES = [bd.Logistic(), bd.Hinge(), bd.EpsilonInsensitive(0.3), bd.Quantile(0.8, 1.0), bd.Squared(variance=1.0)]
COVARIANCES = ["full", "diagonal"]


def data(n=30, p=4, seed=0, binary=True):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.7)
    score = X[:, 0] - 0.5 * X[:, 1] + 0.7 * rng.normal(size=n) + 0.2
    return X, np.where(score > 0, 1.0, -1.0) if binary else score


def rates(kind, p):
    return {
        "fixed": bd.Fixed(np.linspace(0.0, 0.6, p)),
        "shared": bd.Shared(bd.Beta(2, 3)),
        "group": bd.PerGroup(["a"] * (p // 2) + ["b"] * (p - p // 2), bd.Beta(1, 2)),
        "feature": bd.PerFeature(bd.Beta.from_mode(0.2, relative_strength=0.3)),
    }[kind]


def run(model, X, y, **options):
    with pytest.warns(NarrowIntervalsWarning):
        return bd.variational(model, X, y, **options)


def field_at(model, X, y, covariance, rounds=2, weight=None, number=1):
    """A mean field a few rounds from a jittered start: no coordinate is at its best."""
    checked = as_dataset(X, y, weight, None, model.loss.binary)
    rate_map = model.bind(checked.feature_names)
    field = _start(_problem(model, checked, rate_map, covariance), rate_map, 0, number)
    for _ in range(rounds):
        field.iterate()
    return field


def brute_force(field, X):
    """The bound by its definition, every term on its own.

    The masks of a row are enumerated, which gives the expectation of the squared score exactly; the best q(λ) is found
    by a search over tilts of the auxiliary density, not by the formula of the loss; the entropies are scipy's.
    """
    problem = field.problem
    covariance = np.diag(field.covariance) if problem.diagonal else field.covariance
    n, p = X.shape
    keep = np.ones((n, p))
    keep[problem.entries.row, problem.entries.column] = field.keep
    second = covariance + np.outer(field.mean, field.mean)
    free = p + problem.fit_intercept
    total = stats.multivariate_normal(field.mean[:free], covariance[:free, :free]).entropy()
    # E log N(w; 0, 1/P) by Gauss-Hermite nodes, exact for a quadratic.
    node, share = np.polynomial.hermite_e.hermegauss(8)
    for d in range(p):
        w = field.mean[d] + np.sqrt(covariance[d, d]) * node
        total += share @ stats.norm(0, 1 / np.sqrt(problem.precision[d])).logpdf(w) / share.sum()
    for a, b, first, other in zip(*field.rates, *problem.rate_prior, strict=True):
        q, prior = stats.beta(a, b), stats.beta(first, other)
        total += under_beta(lambda t, q=q, prior=prior: prior.logpdf(t) - q.logpdf(t), a, b)
    for i in range(n):
        shown = np.flatnonzero(X[i])
        local = 0.0
        mean = square = 0.0
        for mask in itertools.product([0, 1], repeat=len(shown)):
            chance = np.prod(np.where(mask, keep[i, shown], 1 - keep[i, shown]))
            z = np.zeros(p + 1)
            z[shown], z[-1] = X[i, shown] * np.array(mask), 1.0
            mean += chance * (z @ field.mean)
            square += chance * (z @ second @ z)
            if chance > 0:
                local -= chance * np.log(chance)
        for d in shown:
            rho = keep[i, d]
            if problem.is_free:
                shape = field.rates.a[problem.index[d]], field.rates.b[problem.index[d]]
                up, down = under_beta(np.log, *shape), under_beta(np.log1p, *shape, sign=-1)
            else:
                up = np.log(problem.fixed_rate[d]) if problem.fixed_rate[d] > 0 else 0.0
                down = np.log1p(-problem.fixed_rate[d])
            local += rho * down + (1 - rho) * up
        total += problem.weight[i] * (local + auxiliary(problem, i, mean, square))
    return total


def under_beta(function, a, b, sign=1):
    """``E f(t)`` (or ``E f(−t)``) under Beta(a, b), by quadrature over the log-odds, where nothing is singular."""

    def integrand(odds):
        weight = np.exp(a * special.log_expit(odds) + b * special.log_expit(-odds) - special.betaln(a, b))
        return function(sign * special.expit(odds)) * weight

    return integrate.quad(integrand, -25, 25, epsabs=1e-13, epsrel=1e-12, limit=400)[0]


def auxiliary(problem, i, mean, square):
    """``max_q(λ)`` of the expected augmented log-likelihood: a logarithm of an integral over λ."""
    loss, C, y = problem.loss, problem.C, problem.target[i]
    if isinstance(loss, bd.Squared):
        return -0.5 * C * (y * y - 2 * y * mean + square)
    if isinstance(loss, bd.Logistic):
        # PG(C, 0) has the Laplace transform cosh(√(λ/2))^{−C}: that of exp(−λ s²/2) at s² = E ψ².
        return -C * np.log(2) + 0.5 * C * y * mean - C * np.log(np.cosh(0.5 * np.sqrt(square)))
    half = C / 2

    def positive_part(slack, slack_square):
        """log ∫ (2πλ)^{−1/2} exp E{−(λ + cζ)²/(2λ)} dλ, by quadrature over √λ."""

        def density(t):
            return 2 / np.sqrt(2 * np.pi) * np.exp(-0.5 * t * t - half * slack - half**2 * slack_square / (2 * t * t))

        return np.log(integrate.quad(density, 0, np.inf, epsabs=1e-13, epsrel=1e-12, limit=400)[0])

    if isinstance(loss, bd.Hinge):
        return positive_part(loss.margin - y * mean, loss.margin**2 - 2 * loss.margin * y * mean + square)
    gap, gap_square = y - mean, y * y - 2 * y * mean + square
    if isinstance(loss, bd.Quantile):  # ρ(u) = max(0, u) − (1 − τ)u
        return positive_part(gap, gap_square) + C * (1 - loss.tau) * gap
    e = loss.epsilon
    return positive_part(gap - e, gap_square - 2 * e * gap + e * e) + positive_part(
        -gap - e, gap_square + 2 * e * gap + e * e
    )


@pytest.mark.slow_cases("fixed-full", "feature-diagonal")
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("kind", ["fixed", "feature"])
def test_the_bound_equals_its_definition(loss, covariance, kind):
    """To 1e-9: a few dozen quadratures, each of them to 1e-12 or so, and tails of the rates cut off below 1e-10."""
    X, y = data(n=6, p=3, seed=1, binary=loss.binary)
    model = bd.Model(loss, rates=rates(kind, 3), C=0.7, weight_prior=bd.Normal([1.0, 2.0, 0.5]))
    field = field_at(model, X, y, covariance, rounds=1, weight=[1.0, 2.0, 0.5, 1.0, 1.0, 3.0])
    assert field.elbo() == pytest.approx(brute_force(field, X), abs=1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("kind", ["shared", "feature", "fixed"])
def test_each_update_is_the_best_of_its_coordinate(loss, covariance, kind):
    """Any move away from where an update leads lowers the bound; to 1e-11 of it, which is rounding.

    Weights and rates are moved with the auxiliary variables at their best for the old scores, as the update has them:
    the bound with q(λ) held lies below the profiled one and touches it there.
    """
    X, y = data(binary=loss.binary)
    model = bd.Model(loss, rates=rates(kind, 4), C=1.3)
    rng = np.random.default_rng(3)

    def held(field, omega, kappa, offset):
        m, v = field.moments()
        weight = field.problem.weight
        quadratic = weight @ (kappa * m - 0.5 * omega * (m * m + v))
        return quadratic + offset + field._mask_term() + field._weight_term() + field._rate_term()

    field = field_at(model, X, y, covariance)
    before = field.elbo()
    field.update_auxiliary()
    omega, kappa = field.omega, field.kappa
    offset = 0.0
    offset = before - held(field, omega, kappa, 0.0)
    assert held(field, omega, kappa, offset) == pytest.approx(before)

    field.update_weights()
    best = held(field, omega, kappa, offset)
    slack = 1e-11 * abs(best)
    assert best >= before - slack
    assert field.elbo() >= best - slack, "profiling q(λ) again can only raise the bound"
    size = len(field.mean)
    for scale in (1e-3, 0.1):
        for _ in range(6):
            other = field.copy()
            other.mean = field.mean + scale * rng.normal(size=size)
            assert held(other, omega, kappa, offset) < best
            other = field.copy()
            tilt = 1 + scale * rng.normal(size=size)
            other.covariance = field.covariance * (tilt if covariance == "diagonal" else np.outer(tilt, tilt))
            if covariance == "diagonal":
                other.covariance = np.abs(other.covariance)
            assert held(other, omega, kappa, offset) < best

    before = held(field, omega, kappa, offset)
    field.update_masks()
    best = held(field, omega, kappa, offset)
    assert best >= before - slack
    # Only the last mask of a row was taken with all the others where they are now.
    entries = field.problem.entries
    last = [np.flatnonzero(entries.row == i) for i in np.unique(entries.row)]
    last = [inside[np.argmax(entries.column[inside])] for inside in last]
    for place in last:
        for change in (-0.02, 0.02):
            moved = np.clip(field.keep[place] + change, 1e-9, 1 - 1e-9)
            if kind == "fixed" and field.problem.fixed_rate[entries.column[place]] == 0 or moved == field.keep[place]:
                continue
            other = field.copy()
            other.keep[place] = moved
            assert held(other, omega, kappa, offset) < best

    if kind != "fixed":
        before = field.elbo()
        field.update_rates()
        best = field.elbo()
        assert best >= before - slack
        for scale in (1e-2, 0.3):
            for name in ("a", "b"):
                for sign in (-1, 1):
                    other = field.copy()
                    other.rates = field.rates._replace(**{name: getattr(field.rates, name) * (1 + sign * scale)})
                    assert other.elbo() < best


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_a_sweep_takes_every_mask_with_the_others_where_they_are(storage, covariance):
    """Against a loop over single masks that computes everything afresh: nothing kept up to date may go stale."""
    X, y = data(n=12, p=70, seed=8)
    X[:, 1::2] += X[:, ::2]
    field = field_at(bd.Model(rates=rates("shared", 70)), storage(X), y, covariance, rounds=0)
    field.keep = np.random.default_rng(1).random(len(field.keep))
    field.mean = field.mean + np.random.default_rng(2).normal(size=71)
    field.update_auxiliary()
    mean = field.mean
    square = np.diag(field.covariance) if covariance == "diagonal" else field.covariance + 0.02
    if covariance == "full":
        field.covariance = square
    second = square + np.outer(mean, mean)
    entries = field.problem.entries
    keep = np.zeros(X.shape)
    keep[entries.row, entries.column] = field.keep
    prior = special.digamma(field.rates.b[0]) - special.digamma(field.rates.a[0])
    for i, d in itertools.product(range(12), range(70)):
        if X[i, d]:
            others = np.append(X[i] * keep[i], 1.0)
            others[d] = 0.0
            gain = field.kappa[i] * mean[d] - field.omega[i] * (0.5 * X[i, d] * second[d, d] + others @ second[d])
            keep[i, d] = special.expit(prior + X[i, d] * gain)
    field.update_masks()
    np.testing.assert_allclose(field.keep, keep[entries.row, entries.column], rtol=1e-9, atol=1e-12)


@pytest.mark.slow_cases("group-full", "feature-full", "EpsilonInsensitive")
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("kind", ["group", "feature"])
def test_storage_does_not_matter_and_a_run_climbs(loss, covariance, kind):
    """Dense and sparse agree to 1e-10, of which the conjugate gradients need most."""
    X, y = data(n=60, p=40, seed=2, binary=loss.binary)
    model = bd.Model(loss, rates=rates(kind, 40), C=0.5, fit_intercept=kind != "group")
    weight = np.random.default_rng(0).random(60) + 0.2
    fields = [field_at(model, storage(X), y, covariance, 6, weight) for storage in (np.asarray, sparse.csr_array)]
    reached = [(field.elbo(), field.mean, field.variance, field.keep.sum()) for field in fields]
    for first, second in zip(*reached, strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-10, atol=1e-10)
    result = run(model, X, y, covariance=covariance, sample_weight=weight, n_init=2, tol=1e-6)
    assert np.all(np.diff(result.elbo_trace) >= -1e-10 * np.abs(result.elbo_trace[1:]))
    assert result.status.name == "CONVERGED"


def test_memory_follows_the_entries_where_p_is_large():
    """5,000 features without a p × p matrix, chosen on its own."""
    X = sparse.random_array((60, 5000), density=0.002, rng=np.random.default_rng(0), format="csr")
    y = np.arange(60) % 2
    result = run(bd.Model(), X, y, n_init=1, tol=1e-4)
    assert result.covariance is None
    assert np.all(np.isfinite(result.weight_sd))
    assert np.all(np.isfinite(result.rates))


@pytest.mark.parametrize("loss", [bd.Logistic(), bd.Hinge()], ids=repr)
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_the_bound_lies_below_the_evidence(loss, covariance):
    """Evidence by quadrature over two weights, masks enumerated, the rates' Beta integrals in closed form."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(5, 2))
    y = np.array([1.0, -1.0, 1.0, 1.0, -1.0])
    model = bd.Model(loss, rates=bd.PerFeature(bd.Beta(1, 2)), fit_intercept=False)
    result = run(model, X, y, covariance=covariance, n_init=3, tol=1e-9)
    node, share = np.polynomial.hermite_e.hermegauss(40)
    share = share / share.sum()
    w = np.stack([part.ravel() for part in np.meshgrid(node, node)])
    weight = np.outer(share, share).ravel()
    evidence = 0.0
    patterns = np.array(list(itertools.product([0, 1], repeat=5)))
    dropped = 5 - patterns.sum(axis=1)
    chance = np.exp(special.betaln(1 + dropped, 2 + 5 - dropped) - special.betaln(1, 2))
    zero = np.zeros(w.shape[1])
    for first, first_chance in zip(patterns, chance, strict=True):
        for second, second_chance in zip(patterns, chance, strict=True):
            score = (X[:, :1] * first[:, None]) * w[0] + (X[:, 1:] * second[:, None]) * w[1]
            cost = sum(loss.value(np.full(w.shape[1], y[i]), score[i], zero) for i in range(5))
            evidence += first_chance * second_chance * (weight @ np.exp(-cost))
    # The hinge's kink costs the quadrature a few units in the fourth digit; the gap of a mean field is larger.
    assert result.elbo < np.log(evidence)
    assert result.elbo > np.log(evidence) - 2.0


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_doubling_a_row_is_weight_two_and_weight_zero_is_removal(loss, covariance):
    X, y = data(binary=loss.binary)
    model = bd.Model(loss, rates=bd.PerFeature(bd.Beta(2, 3)))
    weight = np.ones(30)
    weight[:4] = 2
    # The coordinates of start 0 know nothing of the number of rows but the scale of the perturbation.
    one = field_at(model, X, y, covariance, 0, weight, number=0)
    two = field_at(model, np.vstack([X, X[:4]]), np.append(y, y[:4]), covariance, 0, number=0)
    two.mean, two.covariance = one.mean, one.covariance
    for _ in range(10):
        one.iterate()
        two.iterate()
    np.testing.assert_allclose(one.mean, two.mean, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(one.rates.a, two.rates.a, rtol=1e-9)
    assert one.elbo() == pytest.approx(two.elbo(), rel=1e-10)
    weight[:4] = 0
    zero = run(model, X, y, covariance=covariance, sample_weight=weight, n_init=2, tol=1e-5)
    gone = run(model, X[4:], y[4:], covariance=covariance, n_init=2, tol=1e-5)
    np.testing.assert_allclose(zero.weight_mean, gone.weight_mean, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(zero.elbo_trace, gone.elbo_trace, rtol=1e-10)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_squared_loss_without_dropout_is_the_exact_posterior(storage):
    X, y = data(n=40, p=5, binary=False)
    scale = np.array([1.0, 0.5, 2.0, 1.0, 3.0])
    model = bd.Model(bd.Squared(variance=1.0), rates=bd.Fixed(0.0), C=2.5, weight_prior=bd.Normal(scale))
    result = run(model, storage(X), y)
    Z = np.column_stack([X, np.ones(40)])
    precision = 2.5 * Z.T @ Z + np.diag(np.append(1 / scale**2, 0.0))
    np.testing.assert_allclose(result.covariance, np.linalg.inv(precision), rtol=1e-10, atol=1e-13)
    mean = np.linalg.solve(precision, 2.5 * Z.T @ y)
    np.testing.assert_allclose(np.append(result.weight_mean, result.intercept_mean), mean, rtol=1e-10)
    # Where the approximation is exact, the bound is the evidence, here in closed form.
    evidence = 0.5 * (6 - 5) * np.log(2 * np.pi) - np.sum(np.log(scale)) - 0.5 * np.linalg.slogdet(precision)[1]
    evidence += -0.5 * 2.5 * y @ y + 0.5 * mean @ precision @ mean
    assert result.elbo == pytest.approx(evidence, rel=1e-10)
    # Factorised: the same mean, and the inverse of the diagonal.
    apart = run(model, storage(X), y, covariance="diagonal")
    np.testing.assert_allclose(apart.weight_mean, mean[:5], rtol=1e-8)
    np.testing.assert_allclose(apart.weight_sd, 1 / np.sqrt(np.diag(precision)[:5]), rtol=1e-10)


@pytest.mark.slow
def test_starts_follow_the_seed():
    X, y = data(n=80, p=6, seed=4)
    model = bd.Model(rates=bd.PerFeature())
    one, two = (run(model, X, y, seed=3, tol=1e-5) for _ in range(2))
    np.testing.assert_array_equal(one.weight_mean, two.weight_mean)
    np.testing.assert_array_equal(one.elbos, two.elbos)
    other = run(model, X, y, seed=4, tol=1e-5)
    assert not np.array_equal(one.elbos, other.elbos)
    assert len(one.elbos) == 4
    assert one.elbo == one.elbos.max() == one.elbo_trace[-1]
    fewer = run(model, X, y, seed=3, n_init=2, tol=1e-5)
    assert np.all(fewer.elbos >= one.elbos[:2] - 1e-9), (
        "a start does not depend on how many there are; the best goes on"
    )


@pytest.mark.slow_cases("diagonal-fixed", "full-shared", "diagonal-feature")
@pytest.mark.parametrize("kind", ["fixed", "shared", "feature"])
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_draws_follow_the_approximation_and_the_file_keeps_them(kind, covariance, tmp_path):
    X, y = data()
    X[:, 1:3] += 2 * X[:, :1]  # correlated weights
    names = ["age", "weight", "iron", "dose"]
    model = bd.Model(rates=rates(kind, 4))
    result = run(model, X, y, covariance=covariance, feature_names=names, n_init=1)
    tree = result.to_arviz(draws=4000, seed=1)
    bd.groups.save(tree, tmp_path / "vb.nc")
    tree = bd.groups.load(tmp_path / "vb.nc")
    post = bd.groups.dataset(tree, "posterior")
    assert post.attrs["inference_method"] == "variational"
    assert post["feature"].values.tolist() == names
    assert post["weight"].shape == (1, 4000, 4)
    # 4,000 independent draws: means to 5 standard errors, deviations to 5 of theirs.
    error = 5 / np.sqrt(4000)
    drawn = np.append(post["weight"].mean(("chain", "draw")), post["intercept"].mean())
    mean = np.append(result.weight_mean, result.intercept_mean)
    deviation = np.append(result.weight_sd, result.intercept_sd)
    assert np.all(np.abs(drawn - mean) < error * deviation)
    every = np.column_stack([post["weight"].values[0], post["intercept"].values[0]])
    expected = np.diag(deviation**2) if result.covariance is None else result.covariance
    # A product of two unit normal variables has a deviation of at most √2.
    gap = np.abs(np.cov(every.T) - expected) / np.outer(deviation, deviation)
    assert np.all(gap < np.sqrt(2) * error)
    if kind == "fixed":
        assert "rate" not in post
        np.testing.assert_array_equal(bd.groups.dataset(tree, "constant_data")["fixed_rate"], result.rates)
    else:
        dim = "feature" if kind == "feature" else "group"
        assert post["rate"].dims == ("chain", "draw", dim)
        found = post["rate"].mean(("chain", "draw")).values
        assert np.all(np.abs(found - result.rate_posterior.mean) < 0.5 * error)
    # The average over many draws of the noised score at the mean weights, on the side that the weights say.
    chance = bd.predict(tree, X).mean
    kept = (1 - result.rates) * result.weight_mean
    assert np.corrcoef(chance, X @ kept)[0, 1] > 0.95
    text = str(result)
    assert "full" in text or "diagonal" in text
    assert "nan" not in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise": bd.GaussianNoise(0.3)}, "noise: .* has none; use bd.Dropout"),
        ({"noise": bd.Dropout(unbiased=True)}, r"noise: .*unbiased=False"),
        ({"loss": bd.Logistic(expectation="gaussian")}, 'loss: .*expectation="augmentation"'),
        ({"loss": bd.Hinge(expectation="gaussian")}, 'loss: .*expectation="augmentation"'),
        ({"loss": bd.Squared(variance=InverseGamma(2.0, 1.0))}, "loss: the sigma of .* is unknown"),
        ({"weight_prior": Horseshoe()}, "weight_prior: expected a normal prior"),
        ({"rates": Hierarchical(list("aabb"))}, "rates: .*bd.variational"),
    ],
    ids=repr,
)
def test_what_has_no_closed_form_is_refused(change, message):
    X, y = data()
    with pytest.raises(ValueError, match=message):
        bd.variational(bd.Model(**change), X, y)


def test_bad_data_are_named():
    X, y = data()
    with pytest.raises(ValueError, match='covariance: expected "full", "diagonal" or None'):
        bd.variational(bd.Model(), X, y, covariance="blocks")
    with pytest.raises(ValueError, match="columns whose squares double precision holds.*'x0', 'x1', 'x2', 'x3'"):
        bd.variational(bd.Model(), X * 1e200, y)
    with pytest.raises(ValueError, match="common scale"):
        bd.variational(bd.Model(C=1e100), X * 1e150, y)
    for count in (0, 2.5):
        with pytest.raises(ValueError, match="draws"):
            run(bd.Model(), X, y, n_init=1).to_arviz(draws=count)


def test_it_warns_once_where_it_was_called_and_says_when_it_stopped_early():
    from sklearn.exceptions import ConvergenceWarning

    X, y = data()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = bd.variational(bd.Model(), X, y, max_iter=3, n_init=2)
    kinds = [warning.category for warning in seen]
    assert kinds == [NarrowIntervalsWarning, ConvergenceWarning]
    assert all(warning.filename == __file__ for warning in seen)
    assert "bd.sample" in str(seen[0].message)
    assert result.status.name == "MAX_ITERATIONS"
    assert "max_iter" in str(result)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_extreme_data_give_numbers(covariance):
    """Empty columns and rows, one column, separable classes, unlike scales, 0/1 data in single precision."""
    X, y = data()
    empty = X.copy()
    empty[:, 2] = 0
    empty[3] = 0
    result = run(bd.Model(rates=bd.PerFeature(bd.Beta(2, 4))), empty, y, covariance=covariance, n_init=2, tol=1e-5)
    assert result.rates[2] == pytest.approx(1 / 3), "at its prior"
    assert result.rate_posterior.never_seen == ["x2"]
    assert "never seen" in str(result)
    assert result.weight_sd[2] == pytest.approx(1.0)
    for other in (X[:, :1], X * np.array([1e-4, 1.0, 1e4, 1.0]), (X > 0).astype(np.float32), 50 * y[:, None] + X):
        for loss in (bd.Logistic(), bd.Hinge()):
            unlike = np.ptp(np.log(other.std(axis=0))) > np.log(1e6)
            told = pytest.warns(bd.UnscaledWarning, match="differ by a factor") if unlike else contextlib.nullcontext()
            with told:
                result = run(bd.Model(loss), other, y, covariance=covariance, n_init=2, tol=1e-4, max_iter=5000)
            assert np.all(np.isfinite(result.weight_mean))
            assert np.all(np.isfinite(result.weight_sd))
            assert np.all((result.rates > 0) & (result.rates < 1))


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("loss", [bd.EpsilonInsensitive(0.3), bd.Squared(variance=1.0)])
def test_an_offset_of_numbers_is_taken_off_the_response(loss, covariance):
    X, y = data(binary=False)
    offset = np.random.default_rng(8).normal(size=len(y))
    model = bd.Model(loss, rates=bd.PerFeature(bd.Beta(2, 3)))
    known = run(model, X, y, offset=offset, covariance=covariance)
    less = run(model, X, y - offset, covariance=covariance)
    np.testing.assert_allclose(known.weight_mean, less.weight_mean, rtol=1e-6)
    np.testing.assert_allclose(known.elbo, less.elbo, rtol=1e-9)
    post = known.to_arviz(draws=20)
    np.testing.assert_array_equal(bd.groups.dataset(post, "constant_data")["offset"], offset)
    one, other = (bd.predict(post, X, offset=o).mean for o in (offset, 0.0))
    np.testing.assert_allclose(one, other + offset)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_a_constant_offset_is_the_intercept(covariance):
    X, y = data()
    model = bd.Model(rates=bd.PerFeature(bd.Beta(2, 3)))
    one, other = (run(model, X, y, offset=offset, covariance=covariance, n_init=1, tol=1e-12) for offset in (None, 0.4))
    np.testing.assert_allclose(other.elbo, one.elbo, rtol=1e-8)
    np.testing.assert_allclose(other.intercept_mean + 0.4, one.intercept_mean, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_the_warning_says_that_weights_shrink_where_they_do(rate):
    """Weights of 200 rows against draws of the posterior: shrunk by a quarter at least with masks, not without."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    y = (X @ (2 * rng.normal(size=5)) + rng.logistic(size=200) > 0).astype(int)
    model = bd.Model(rates=bd.Fixed(rate))
    with pytest.warns(NarrowIntervalsWarning) as said:
        found = bd.variational(model, X, y, n_init=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bd.MixingWarning)  # 200 draws
        post = bd.sample(model, X, y, method=bd.Gibbs(), draws=100, tune=100, chains=2, progress=False)
    weight = bd.groups.dataset(post, "posterior")["weight"]
    mean = weight.mean(("chain", "draw")).values
    slope = found.weight_mean @ mean / (mean @ mean)
    assert (slope < 0.75) == (rate > 0)
    assert slope > 0.95 or rate > 0
    assert ("shrunk towards 0" in str(said[0].message)) == (rate > 0)
    off = np.abs(found.weight_mean - mean) / weight.std(("chain", "draw")).values
    assert (off.max() > 1) == (rate > 0)
