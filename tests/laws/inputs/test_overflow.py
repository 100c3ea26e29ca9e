"""Numbers beyond double precision: an error in the package's words, never NaN and never half a fit."""

import json

import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop import description

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
Y, THREE = np.arange(30) % 2, np.arange(30) % 3
LEAVES = "double precision"


def _latent(kind=bd.LatentDropoutSVC):
    return kind(0.1, n_hidden=2, n_init=1, max_iter=5, tol=0.1, random_state=0)


FITS = {
    "fit": lambda X, **o: bd.fit(bd.Model(), X, Y, **o),
    "fit at rate 0": lambda X, **o: bd.fit(bd.Model(rates=bd.Fixed(0.0)), X, Y, **o),
    "EM": lambda X, **o: bd.fit(bd.Model(rates=bd.Fixed(0.0)), X, Y, method=bd.EM(), **o),
    "DropoutSVC": lambda X, **o: bd.DropoutSVC().fit(X, Y, **o),
    "DropoutRidge": lambda X, **o: bd.DropoutRidge().fit(X, 1.0 * Y, **o),
    "softmax": lambda X, **o: bd.DropoutLogisticRegression(multiclass="softmax").fit(X, THREE, **o),
    "softmax at rate 0": lambda X, **o: bd.DropoutLogisticRegression(0.0, multiclass="softmax").fit(X, THREE, **o),
    "LatentDropoutSVC": lambda X, **o: _latent().fit(X, Y, **o),
    "LatentDropoutLogisticRegression": lambda X, **o: _latent(bd.LatentDropoutLogisticRegression).fit(X, Y, **o),
    "MCFLogistic": lambda X, **o: bd.baselines.MCFLogistic().fit(X, Y, **o),
    "MCFQuadratic": lambda X, **o: bd.baselines.MCFQuadratic().fit(X, Y, **o),
    "variational": lambda X, **o: bd.variational(bd.Model(), X, Y, **o),
    "DropoutMatrixFactorization": lambda X: bd.DropoutMatrixFactorization().fit(X),
}


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("size", [1e160, 1e250])
def test_features_whose_squares_no_double_holds(name, size):
    """Before, the energy was NaN and the status "Converged"."""
    with pytest.raises(ValueError, match=f"X.*{LEAVES}"):
        FITS[name](size * X)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", [name for name in FITS if name not in ("variational", "DropoutMatrixFactorization")])
def test_weights_whose_sum_overflows(name):
    FITS[name](X, sample_weight=np.ones(30))
    with pytest.raises(ValueError, match="sample_weight: expected weights whose sum is a finite number"):
        FITS[name](X, sample_weight=np.full(30, 1e308))


def test_a_loss_weight_that_overflows():
    with pytest.raises(ValueError, match=f"C: .*{LEAVES}"):
        bd.fit(bd.Model(C=1.7e308), X, Y)
    assert np.isfinite(bd.fit(bd.Model(C=1e100, rates=bd.Fixed(0.3)), X, Y).objective_trace[-1])


def test_probabilities_of_huge_scores_are_numbers_or_refused():
    model = bd.DropoutSVC(0.3).fit(X, Y)
    found = model.predict_proba(np.full((2, 3), 1e200))
    assert np.all((found >= 0) & (found <= 1))
    model.coef_ = np.array([[2.0, -2.0, 1.0]])
    with pytest.raises(ValueError, match=LEAVES):  # infinity less infinity
        model.predict_proba(np.full((2, 3), 1.7e308))


@pytest.mark.parametrize(
    ("model", "y", "options"),
    [
        (lambda: bd.DropoutRidge(), 1.0 * Y, {}),
        (lambda: bd.DropoutSVC(), Y, {"classes": [0, 1]}),
        (lambda: bd.DropoutLogisticRegression(0.2, multiclass="softmax"), THREE, {"classes": [0, 1, 2]}),
    ],
)
def test_a_failed_step_leaves_no_trace(model, y, options):
    """Neither the first, after which nothing is fitted, nor a later one, after which all is as it was."""
    one = model()
    empty = dict(vars(one))
    for bad in (1e200 * X, np.full((30, 3), np.nan), X[:5]):
        with pytest.raises(ValueError, match="X|samples"):
            one.partial_fit(bad, y, **options)
        assert vars(one) == empty
    with pytest.raises(ValueError, match="n_total: expected a finite number above 0"):
        one.partial_fit(X, y, n_total=-1.0, **options)
    assert vars(one) == empty
    one.partial_fit(X, y, **options)
    with pytest.raises(ValueError, match=LEAVES):
        one.partial_fit(1e200 * X, y)
    one.partial_fit(X, y)
    other = model().partial_fit(X, y, **options).partial_fit(X, y)
    np.testing.assert_array_equal(one.coef_, other.coef_)


def test_targets_that_overflow_a_step():
    model = bd.DropoutRidge().partial_fit(X, 1.0 * Y)
    before = model.coef_.copy()
    with pytest.raises(ValueError, match=LEAVES):
        model.partial_fit(X, np.full(30, 1.7e308))
    np.testing.assert_array_equal(model.coef_, before)


def test_a_failed_fit_leaves_the_last_one():
    model = bd.DropoutSVC(0.2).fit(X, Y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="C: expected a finite number"):
        model.set_params(C=-1.0).fit(X[:, :2], Y)
    np.testing.assert_array_equal(model.set_params(C=1.0).predict(X), before)


def test_large_numbers_that_a_double_holds_are_fitted():
    """Scaling features by s and the prior by 1/s leaves the scores, whatever s is."""
    plain = bd.DropoutLogisticRegression(0.2, tol=1e-12).fit(X, Y)
    for size in (1e60, 1e-60):
        prior = bd.Normal(1 / size)
        other = bd.DropoutLogisticRegression(0.2, weight_prior=prior, tol=1e-12).fit(size * X, Y)
        np.testing.assert_allclose(other.decision_function(size * X), plain.decision_function(X), rtol=1e-6)


def _edited(name, value):
    """A posterior as it would be read from a file that was changed."""
    import xarray as xr

    draws = {"weight": RNG.normal(size=(1, 4, 3)), "rate": RNG.random((1, 4, 3))}
    draws[name] = np.full((1, 4, 3), value)
    data = xr.Dataset({key: (("chain", "draw", "feature"), values) for key, values in draws.items()})
    data = data.assign_coords(chain=[0], draw=np.arange(4), feature=["x0", "x1", "x2"])
    return bd.groups.assemble({"posterior": data}, description.attributes(bd.Model(fit_intercept=False)))


@pytest.mark.parametrize("rate", [2.0, -1.0, np.nan])
def test_a_file_with_rates_that_are_none(rate):
    with pytest.raises(ValueError, match="post: (expected rates in|the draws are not finite)"):
        bd.predict(_edited("rate", rate), X)
    for end in (0.0, 1.0):
        assert np.all(np.isfinite(bd.predict(_edited("rate", end), X).mean))


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("fit_intercept",), ["yes"]),
        (("fit_intercept",), "no"),
        (("C",), "1.0"),
        (("C",), True),
        (("noise", "fields", "unbiased"), "yes"),
        (("noise", "fields", "unbiased"), 1),
        (("loss", "fields", "expectation"), ["augmentation"]),
        (("rates", "fields", "start"), [0.5]),
        (("rates", "fields", "class_ratio"), "no"),
        (("rates", "fields", "prior"), 3),
        (("rates", "fields", "prior", "fields", "a"), "1"),
        (("weight_prior", "fields", "scale"), {"tuple": ["a"]}),
    ],
)
def test_a_description_with_a_field_of_another_type(where, value):
    told = description.describe(bd.Model(rates=bd.PerFeature()))
    part = told["model"]["fields"]
    for key in where[:-1]:
        part = part[key]
    assert where[-1] in part
    part[where[-1]] = value
    with pytest.raises(ValueError, match=f"model description: .*{'scale' if where[-1] == 'scale' else where[-1]}"):
        description.rebuild(json.dumps(told))


def test_names():
    with pytest.raises(ValueError, match="feature_names: .*half of a surrogate pair"):
        bd.fit(bd.Model(), X, Y, feature_names=["a", "b", "\ud800"])
    with pytest.raises(TypeError, match="feature_names: expected a sequence of names"):
        bd.fit(bd.Model(), X, Y, feature_names="abc")
    names = list(np.arange(3))  # as a checkpoint once could not store them
    found = bd.fit(bd.Model(), X, Y, feature_names=names)
    assert json.dumps(found.feature_names) == '["0", "1", "2"]'
    with pytest.raises(ValueError, match=r"X: expected a matrix \(n, p\), got shape \(3,\)"):
        bd.prior_draws(bd.Model(), X[0], intercept_scale=1.0)


def test_missing_values_are_not_deleted_around():
    import polars as pl

    with pytest.raises(ValueError, match="X: expected numbers, got missing ones"):
        bd.delete_features(pl.DataFrame({"a": [1, None, 3], "b": [1, 2, 3]}), 0.5, 0)
    with pytest.raises(ValueError, match="X: expected numbers, got missing ones"):
        bd.delete_features(np.array([[np.nan, 1.0]]), 0.5, 0)
