"""Fits and draws of sharded data are those of the same data in memory; :mod:`test_sharded` runs it on four devices."""

import warnings

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.designs import as_design
from bayesdrop.sampling.run import runner

GROUPS = ["a", "a", "a", "b", "b", "b", "b", "c", "c", "c"]
MODELS = {
    "logistic": bd.Model(rates=bd.Fixed(0.3)),
    "hinge": bd.Model(bd.Hinge(), rates=bd.Fixed(0.3)),
    "learnt rates": bd.Model(rates=bd.PerFeature(bd.Beta(1, 1))),
    "groups": bd.Model(bd.Hinge(), rates=bd.PerGroup(GROUPS, bd.Beta(2, 3))),
    "gaussian bound": bd.Model(bd.Logistic(expectation="gaussian"), rates=bd.Fixed(0.3)),
    "other noise": bd.Model(noise=bd.LaplaceNoise(0.3)),
}


def problem(n=400, p=10):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    score = X @ rng.normal(size=p)
    return X, (score + rng.normal(size=n) > 0).astype(int), score + 0.3 * rng.normal(size=n)


def on_devices(X, chains=1):
    mesh = Mesh(np.array(jax.devices()).reshape(chains, -1), ("chains", "rows"))
    with jax.enable_x64(True):
        return jax.device_put(X, NamedSharding(mesh, P("rows", None)))


def same_fit(got, expected, rtol=1e-8):
    np.testing.assert_allclose(got.objective_trace[-1], expected.objective_trace[-1], rtol=rtol)
    np.testing.assert_allclose(got.weight, expected.weight, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(got.rates, expected.rates, rtol=1e-12)
    assert got.status is expected.status


@pytest.mark.parametrize("name", MODELS)
def test_fit(name):
    X, y, _ = problem()
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    method = bd.Newton(tol=1e-13)
    got = bd.fit(MODELS[name], on_devices(X, 2), y, method=method, sample_weight=weight)
    same_fit(got, bd.fit(MODELS[name], X, y, method=method, sample_weight=weight))


def test_an_offset():
    X, y, _ = problem()
    method, offset = bd.Newton(tol=1e-13), np.random.default_rng(2).normal(size=len(y))
    got = bd.fit(MODELS["logistic"], on_devices(X, 2), y, method=method, offset=offset)
    same_fit(got, bd.fit(MODELS["logistic"], X, y, method=method, offset=offset))


def test_expectation_maximisation_and_other_preconditioners():
    from bayesdrop.fitting.solvers.preconditioners import Jacobi, Woodbury

    X, y, _ = problem(40)
    for method in (bd.EM(tol=1e-13), bd.Newton(1e-13, preconditioner=Woodbury()), bd.Newton(1e-13, 200, Jacobi())):
        model = MODELS["logistic"]
        same_fit(bd.fit(model, on_devices(X), y, method=method), bd.fit(model, X, y, method=method))


def test_single_precision_is_summed_in_double():
    X, y, _ = problem()
    X, method = X.astype(np.float32), bd.Newton(tol=1e-13)
    same_fit(bd.fit(bd.Model(), on_devices(X), y, method=method), bd.fit(bd.Model(), X, y, method=method))


def test_estimators():
    X, y, target = problem()
    placed, many = on_devices(X), np.digitize(target, [-2, 0, 2])
    for estimator, labels in (
        (bd.DropoutSVC(bd.PerFeature(), class_weight="balanced", tol=1e-13), np.array(["no", "yes"])[y]),
        (bd.DropoutLogisticRegression(bd.PerFeature(), tol=1e-13), many),
        (bd.DropoutLogisticRegression(0.3, multiclass="softmax", tol=1e-13), many),
        (bd.DropoutLogisticRegression(0.3, multiclass="softmax", expectation="gaussian", tol=1e-13), many),
        (bd.DropoutSVR(0.2, tol=1e-13), target),
        (bd.DropoutRidge(0.2, tol=1e-13), target),
    ):
        estimator.fit(placed, labels)
        assert estimator.n_features_in_ == 10
        got = [estimator.coef_, estimator.intercept_, estimator.rates_]
        got += [getattr(estimator, name)(placed) for name in _methods(estimator)]
        here = [getattr(estimator, name)(X) for name in _methods(estimator)]
        estimator.fit(X, labels)
        expected = [estimator.coef_, estimator.intercept_, estimator.rates_]
        for one, other in zip(got[3:], here, strict=True):
            assert isinstance(one, np.ndarray)
            if one.dtype.kind == "f":
                np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)
            else:
                np.testing.assert_array_equal(one, other)
        for one, other in zip(got[:3], expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)
        assert estimator.score(placed, labels) == pytest.approx(estimator.score(X, labels))
        with pytest.raises(ValueError, match="fitted to 10 features, and these rows have 4"):
            estimator.predict(on_devices(X[:, :4]))


def _methods(estimator):
    return [name for name in ("predict", "decision_function", "predict_proba") if hasattr(estimator, name)]


def test_unlabelled_rows_are_refused():
    X, y, _ = problem()
    with pytest.raises(TypeError, match="unlabelled: rows without labels join rows in memory only"):
        bd.DropoutLogisticRegression(0.3).fit(on_devices(X), y, unlabelled=X)


def test_what_takes_arrays_alone_takes_them_from_the_devices():
    X, y, _ = problem()
    placed = on_devices(X)
    path = bd.RatePath(bd.DropoutLogisticRegression(), [0.0, 0.3], cv=2).fit(placed, y)
    np.testing.assert_allclose(path.coefs_, bd.RatePath(bd.DropoutLogisticRegression(), [0.0, 0.3]).fit(X, y).coefs_)
    online = [bd.DropoutLogisticRegression(0.3).partial_fit(matrix, y, [0, 1]).coef_ for matrix in (placed, X)]
    np.testing.assert_allclose(*online)


# The hinge is not among them: its sampler divides by how far a score is from the kink, and what round-off does to the
# draws grows a thousandfold a sweep, on one device as on many.
GIBBS = bd.Gibbs(dtype="float64", joint_moves=0)
SAMPLERS = {
    "masks": (bd.Model(), {"method": GIBBS}, 1e-8),
    "joint moves": (bd.Model(), {"method": bd.Gibbs(dtype="float64")}, 1e-8),
    "groups": (bd.Model(rates=bd.PerGroup(GROUPS, bd.Beta(2, 3))), {"method": GIBBS}, 1e-8),
    "normal response": (bd.Model(bd.Squared()), {"method": GIBBS}, 1e-8),
    "single precision": (bd.Model(), {"method": bd.Gibbs(joint_moves=0)}, 1e-3),
    "marginalised": (MODELS["logistic"], {"method": bd.Gibbs(dtype="float64"), "target": "marginalised"}, 1e-8),
    "integrated masks": (bd.Model(), {"method": bd.HMC(dtype="float64")}, 1e-8),
}


# They take long to compile.
LONG = ["marginalised", "joint moves", "groups", "normal response", "single precision"]


def draw(model, X, y, draws=4, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return bd.sample(model, X, y, draws=draws, tune=4, chains=4, progress=False, **options)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in SAMPLERS]
)
def test_draws(name):
    """Same seed, same draws but for the order of sums: random numbers do not depend on where they are made."""
    model, options, tolerance = SAMPLERS[name]
    X, y, target = problem(120)
    y = y if model.loss.binary else target
    got, expected = (draw(model, matrix, y, log_likelihood=True, **options) for matrix in (on_devices(X, 2), X))
    for group, variables in (("posterior", ("weight", "intercept")), ("log_likelihood", ("y",))):
        for variable in variables:
            one, other = (bd.groups.dataset(post, group)[variable].values for post in (got, expected))
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
    assert np.ptp(bd.groups.dataset(got, "posterior")["weight"].values[:, -1], axis=0).min() > 0


def test_the_state_of_the_chains_lies_with_the_chains_and_the_rows():
    X, y, _ = problem(120)
    model, n, p = bd.Model(), 120, 10
    data = as_dataset(on_devices(X, 2), y, wrap=as_design)
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        kernel, operands = GIBBS.bind(model, data, model.bind(data.feature_names), 4)
        assert operands.columns.blocks[0].values.sharding.spec == P(None, "rows")
        state = runner.run(kernel, operands, runner.as_key(0), tune=1, draws=2, chains=4, progress=False).state
    for array, whole, part in (
        (state.effective, (4, p), (2, p)),
        (state.score, (4, n), (2, n // 2)),
        (state.kept[0], (p, 4, n), (p, 2, n // 2)),
        (state.logit, (4, p), (2, p)),
    ):
        assert array.shape == whole
        assert {shard.data.shape for shard in array.addressable_shards} == {part}


def test_a_checkpoint_of_sharded_data_goes_on(tmp_path):
    X, y, _ = problem(120)
    placed, options = on_devices(X, 2), {"method": GIBBS, "seed": 3}
    draw(bd.Model(), placed, y, checkpoint=tmp_path / "run", **options)
    more = draw(bd.Model(), placed, y, 6, checkpoint=tmp_path / "run", **options)
    whole = draw(bd.Model(), placed, y, 6, **options)
    one, other = (bd.groups.dataset(post, "posterior")["weight"].values for post in (more, whole))
    np.testing.assert_array_equal(one, other)


def test_samplers_refuse_what_they_cannot_do():
    X, y, _ = problem(120)
    with pytest.raises(ValueError, match="chains: 2 devices hold the same rows .* multiple of 2, got 3"):
        bd.sample(bd.Model(), on_devices(X, 2), y, draws=2, tune=2, chains=3, progress=False)
    with pytest.raises(ValueError, match="sample_weight: rows of weight zero"):
        bd.sample(bd.Model(), on_devices(X), y, draws=2, tune=2, sample_weight=np.arange(120.0))
