"""A fit as a result: what it predicts, shows, saves and reads, against the estimators and against itself."""

import numpy as np
import pandas as pd
import pytest

import bayesdrop as bd
from bayesdrop.fitting.solvers.driver import Status

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.where(X[:, 0] + 0.5 * RNG.normal(size=60) > 0, "yes", "no")
MANY = np.array(["a", "b", "c"])[np.argmax(X + 0.5 * RNG.normal(size=(60, 3)), axis=1)]
NUMBERS = X[:, 0] + 0.1 * RNG.normal(size=60)
COUNTS = RNG.poisson(np.exp(0.5 * X[:, 1]))
FAR = X + [0.0, 9.0, 0.0]  # its second column has noise about its mean
HOLES = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
CASES = {
    "learnt": (bd.Model(), X, Y),
    "group": (bd.Model(rates=bd.PerGroup(["g", "g", "h"])), X, Y),
    "tuned": (bd.Model(rates=bd.Tuned()), X, Y),
    "centred": (bd.Model(bd.Hinge(), rates=bd.Fixed(0.3)), FAR, Y),
    "missing": (bd.Model(missing="nan"), HOLES, Y),
    "softmax": (bd.Model(bd.Softmax(), rates=bd.Fixed(0.2)), X, MANY),
    "classes": (bd.Model(bd.Softmax(), rates=bd.PerFeature()), X, MANY),
    "ridge": (bd.Model(bd.Squared(), rates=bd.Fixed(0.1)), X, NUMBERS),
    "counts": (bd.Model(bd.Poisson(), noise=bd.GaussianNoise(0.3)), X, COUNTS),
}


@pytest.fixture(scope="module")
def fits():
    return {name: bd.fit(*case) for name, case in CASES.items()}


@pytest.mark.parametrize("corrupted", [False, True])
def test_predictions_are_those_of_the_estimators(fits, corrupted):
    """At the same weights, to round-off; those of the estimator are set to the fit's."""
    estimators = {
        "learnt": bd.DropoutLogisticRegression(bd.PerFeature(), corrupted_inputs=corrupted),
        "centred": bd.DropoutSVC(0.3, noise=bd.Dropout(centre=fits["centred"].centre), corrupted_inputs=corrupted),
        "softmax": bd.DropoutLogisticRegression(0.2, multiclass="softmax", corrupted_inputs=corrupted),
        "ridge": bd.DropoutRidge(0.1, corrupted_inputs=corrupted),
        "counts": bd.DropoutPoissonRegressor(noise=bd.GaussianNoise(0.3), corrupted_inputs=corrupted),
    }
    for name, estimator in estimators.items():
        _, data, y = CASES[name]
        fit, estimator = fits[name], estimator.fit(data, y)
        estimator.coef_ = np.reshape(fit.weight, estimator.coef_.shape)
        estimator.intercept_ = np.reshape(fit.intercept, np.shape(estimator.intercept_))
        estimator.rates_ = fit.rates
        found = fit.predict(data, corrupted_inputs=corrupted)
        if hasattr(estimator, "predict_proba"):
            chances = estimator.predict_proba(data)
            np.testing.assert_allclose(found.mean, chances if chances.shape[1] > 2 else chances[:, 1], rtol=1e-12)
            np.testing.assert_array_equal(found.label, estimator.predict(data))
        else:
            np.testing.assert_allclose(found.mean, estimator.predict(data), rtol=1e-12)
        assert found.sd is None
        assert found.low is None


@pytest.mark.parametrize(
    "loss", [bd.EpsilonInsensitive(), bd.Quantile(0.8), bd.NegativeBinomial(2.0), bd.Binomial(9)], ids=repr
)
def test_every_loss_of_numbers_predicts(loss):
    """A finite response, and an interval of a new one."""
    found = bd.fit(bd.Model(loss, rates=bd.Fixed(0.2)), X, COUNTS).predict(X)
    assert np.all(np.isfinite(found.mean))
    assert np.all(found.response_low <= found.response_high)
    assert "by the fitted weights" in str(found)


def test_predictions_keep_the_index_and_match_columns_by_name():
    table = pd.DataFrame(X, columns=["a", "b", "c"], index=[f"row <{i}>" for i in range(60)])
    fit = bd.fit(bd.Model(rates=bd.Fixed(0.2)), table, Y)
    found = fit.predict(table[["c", "a", "b"]])
    np.testing.assert_allclose(found.mean, fit.predict(table).mean, rtol=1e-12)
    frame = found.to_frame()
    assert frame.index.equals(table.index)
    assert list(frame) == ["mean", "label"]
    assert found.to_dataset()["mean"].sel(obs_id="row <3>") == found.mean[3]
    assert "row <3>" in str(found)
    assert "&lt;3&gt;" in found._repr_html_()
    assert "<3>" not in found._repr_html_()
    assert fit.predict(X[:2]).to_frame().index.tolist() == [0, 1]
    many = bd.fit(bd.Model(bd.Softmax(), rates=bd.Fixed(0.2)), table, MANY).predict(table).to_frame()
    assert list(many) == ["a", "b", "c", "label"]
    np.testing.assert_allclose(many[["a", "b", "c"]].sum(axis=1), 1)
    odd = np.where(MANY == "a", "label", MANY)
    assert list(bd.fit(bd.Model(bd.Softmax(), rates=bd.Fixed(0.2)), X, odd).predict(X).to_frame()) == [
        *("b", "c", "label"),
        "label_",
    ]


def test_numbers_have_an_interval_of_a_new_response():
    """Of unit variance about the mean score, ±1.645, widened by the features' noise; 40,000 draws, 5σ or so."""
    fit = bd.fit(bd.Model(bd.Squared(variance=1.0), rates=bd.Fixed(0.1)), X, NUMBERS)
    found = fit.predict(X[:5])
    spread = np.sqrt(1 + (X[:5] ** 2 * 0.1 * 0.9) @ fit.weight**2)
    np.testing.assert_allclose(found.response_high - found.response_low, 2 * 1.645 * spread, rtol=0.04)


@pytest.mark.parametrize("name", CASES)
def test_saved_and_read_again(fits, tmp_path, name):
    fit, path = fits[name], tmp_path / "fit.nc"
    fit.save(path)
    again = bd.Fit.load(path)
    for field in ("weight", "intercept", "rates", "objective_trace", "centre", "classes"):
        one, other = getattr(fit, field), getattr(again, field)
        assert (one is None) == (other is None), field
        if one is not None:
            np.testing.assert_array_equal(other, one)
    assert again.model == fit.model
    assert (again.status, again.n_iter, again.feature_names) == (fit.status, fit.n_iter, fit.feature_names)
    if fit.rate_posterior is not None:
        np.testing.assert_array_equal(again.rate_posterior.interval(0.8), fit.rate_posterior.interval(0.8))
        assert (again.rate_posterior.names, again.rate_posterior.dim) == (
            fit.rate_posterior.names,
            fit.rate_posterior.dim,
        )
    assert str(again) == str(fit)
    pd.testing.assert_frame_equal(again.summary(), fit.summary())
    np.testing.assert_array_equal(again.predict(CASES[name][1]).mean, fit.predict(CASES[name][1]).mean)
    with pytest.raises(ValueError, match="auxiliary: "):
        again.auxiliary  # noqa: B018


def test_files_that_are_no_fits(fits, tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file .*Fit.save writes one"):
        bd.Fit.load(tmp_path / "none.nc")
    (tmp_path / "text.nc").write_text("no fit")
    with pytest.raises(ValueError, match="cannot be read as a fit"):
        bd.Fit.load(tmp_path / "text.nc")
    data = fits["learnt"].to_dataset()
    del data.attrs["model_description"]
    assert bd.Fit.from_dataset(data).model is fits["learnt"].model  # which the dataset carries
    data.encoding.clear()
    with pytest.raises(ValueError, match="got none: another library"):
        bd.Fit.from_dataset(data)


def test_summary_has_a_row_for_each_feature_and_class(fits):
    for name, fit in fits.items():
        table = fit.summary(probability=0.8)
        np.testing.assert_array_equal(table["weight"], np.ravel(fit.weight))
        gain = 1.0 if name == "counts" else 1 - table["rate"]
        np.testing.assert_allclose(table["scaled_weight"], gain * table["weight"])
        assert ("rate_low" in table) == (fit.rate_posterior is not None)
        if fit.rate_posterior is not None:
            assert ((table["rate_low"] <= table["rate"]) & (table["rate"] <= table["rate_high"])).all()
    assert fits["softmax"].summary().index.names == ["class", "feature"]
    classes = fits["classes"]
    low = classes.rate_posterior.interval(0.9)[0]
    np.testing.assert_array_equal(classes.summary().loc["b", "rate_low"], low)
    shared = fits["group"]
    low = shared.rate_posterior.interval(0.9)[0]
    np.testing.assert_array_equal(shared.summary()["rate_low"], low[[0, 0, 1]])


def test_short_in_a_line_and_whole_in_a_notebook(fits):
    design = bd.from_formula("y ~ a", {"y": [0, 1], "a": [1.0, 2.0]})
    diagnosis = bd.Diagnosis(4, 1000, None, None, None)
    shown = [fits["learnt"], fits["tuned"].selection, design, diagnosis, fits["softmax"].predict(X)]
    for one in shown:
        assert len(repr(one)) < 160
        assert repr(one).startswith(f"<{type(one).__name__}: ")
        assert "\n" not in repr(one)
        assert one._repr_html_().startswith("<pre>")
    strange = bd.fit(bd.Model(), X, Y, feature_names=["<script>", "b", "c"])
    assert "<script>" not in strange._repr_html_()
    assert "&lt;script&gt;" in strange._repr_html_()


def test_status_is_made_again_by_the_call_that_skops_and_pickle_ask_for():
    """Skops saves what ``__reduce__`` says if that calls the type itself, and otherwise calls ``__new__`` bare."""
    for status in Status:
        kind, arguments = status.__reduce__()
        assert kind is type(status)
        assert all(isinstance(argument, str) for argument in arguments)
        assert kind(*arguments) is status


def test_estimators_go_through_skops():
    skops = pytest.importorskip("skops.io")
    for estimator in (bd.DropoutLogisticRegression(), bd.DropoutLogisticRegression(0.2), bd.DropoutRidge(0.1)):
        fitted = estimator.fit(X, NUMBERS if "Ridge" in type(estimator).__name__ else Y)
        stored = skops.dumps(fitted)
        again = skops.loads(stored, trusted=skops.get_untrusted_types(data=stored))
        assert again.status_ is fitted.status_
        np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
