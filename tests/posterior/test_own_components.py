"""A posterior and a fit carry their model: components of a user's own work in every function of a result.

The components here are those of the package under other names, so that every answer must equal that of the package's.
"""

import copy
import io
import pickle
from functools import cache

import joblib
import numpy as np
import pytest
import xarray as xr

import bayesdrop as bd
from bayesdrop.posterior.arviz_groups import groups as arviz_groups
from bayesdrop.posterior.draws.draws import read_draws

X = np.random.default_rng(0).normal(size=(30, 3))
Y = np.where(X[:, 0] + 0.5 * X[:, 1] > 0, "up", "down")
SHORT = {"draws": 20, "tune": 20, "chains": 2, "seed": 7, "progress": False}


class OwnLoss(bd.Logistic):
    """A loss that no file knows."""


class OwnNoise(bd.Dropout):
    """A noise that no file knows."""


class OwnRates(bd.PerFeature):
    """A rate structure that no file knows."""


class OwnRatePrior(bd.Beta):
    """A prior of rates that no file knows."""


class OwnPrior(bd.Normal):
    """A weight prior that no file knows."""


OWN = {
    "loss": bd.Model(OwnLoss()),
    "noise": bd.Model(noise=OwnNoise(centre="mean")),
    "rates": bd.Model(rates=OwnRates(bd.Beta(2.0, 3.0))),
    "rates.prior": bd.Model(rates=bd.PerFeature(OwnRatePrior(2.0, 3.0))),
    "weight_prior": bd.Model(weight_prior=OwnPrior(0.7)),
}
PACKAGE = {
    "loss": bd.Model(),
    "noise": bd.Model(noise=bd.Dropout(centre="mean")),
    "rates": bd.Model(rates=bd.PerFeature(bd.Beta(2.0, 3.0))),
    "rates.prior": bd.Model(rates=bd.PerFeature(bd.Beta(2.0, 3.0))),
    "weight_prior": bd.Model(weight_prior=bd.Normal(0.7)),
}
METHOD = bd.HMC(n_leapfrog_steps=4, correct=False)
pytestmark = pytest.mark.filterwarnings(
    "ignore::bayesdrop.MixingWarning", "ignore::bayesdrop.ApproximationWarning", "ignore::bayesdrop.InfluenceWarning"
)


@cache
def sampled(place):
    """The posteriors of a component of one's own and of the package's."""
    with pytest.warns():
        return [bd.sample(models[place], X, Y, method=METHOD, **SHORT) for models in (OWN, PACKAGE)]


@pytest.fixture(scope="module", params=list(OWN))
def pair(request):
    """Name of a component, and both posteriors."""
    return request.param, *sampled(request.param)


def _values(group):
    return {name: part.values for name, part in group.data_vars.items()}


def _group(post, name):
    return _values(bd.groups.dataset(post, name))


def _elpd(found):
    """By the name of either line of ArviZ."""
    return found.elpd if hasattr(found, "elpd") else found.elpd_loo


DOORS = {
    "predict": lambda post: bd.predict(post, X).mean,
    "log_likelihood": lambda post: _group(bd.log_likelihood(post, X, Y), "log_likelihood"),
    "loo": lambda post: _elpd(bd.loo(bd.log_likelihood(post, X, Y))),
    "elpd": lambda post: bd.elpd(post, X, Y).pointwise,
    "reweight": lambda post: _group(bd.reweight(post, X, Y), "posterior"),
    "posterior_predictive": lambda post: _group(bd.posterior_predictive(post, X), "posterior_predictive"),
    "log_prior": lambda post: _group(bd.log_prior(post), "log_prior"),
    "weights_table": lambda post: bd.weights_table(post).to_numpy(float, na_value=np.nan),
    "comparisons": lambda post: bd.comparisons(post, X[:5]).select_dtypes("number").to_numpy(),
    "diagnose": lambda post: str(bd.diagnose(post)),
    "draws_table": lambda post: bd.draws_table(post).to_numpy(float),
    "prior interval": lambda post: np.array(bd.plots.rates_forest(post).get_xlim()),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_function_of_a_posterior_takes_it(pair, door):
    _, own, package = pair
    np.testing.assert_equal(DOORS[door](own), DOORS[door](package))


def _tree(post, _):
    """The posterior as ArviZ 1 has it."""
    tree = xr.DataTree.from_dict({f"/{name}": bd.groups.dataset(post, name) for name in bd.groups.group_names(post)})
    tree.attrs.update(post.attrs)
    return tree


def _loaded(post, folder):
    bd.groups.save(post, folder / "post.nc")
    return bd.groups.load(folder / "post.nc", model=read_draws(post).model)


def _by_joblib(value):
    buffer = io.BytesIO()
    joblib.dump(value, buffer)
    buffer.seek(0)
    return joblib.load(buffer)


WAYS = {
    "pickle": lambda post: pickle.loads(pickle.dumps(post)),
    "joblib": _by_joblib,
    "deep copy": copy.deepcopy,
    "copy": lambda post: post.copy(),
    "sel": lambda post: post.sel(draw=slice(0, 9)),
    "isel": lambda post: post.isel(chain=[1]),
    "extend": lambda post: bd.groups.extend(post, {"posterior": bd.groups.dataset(post, "posterior")}),
    "another group": lambda post: bd.groups.extend(
        post, {"posterior": xr.Dataset(dict(bd.groups.dataset(post, "posterior")))}
    ),
    "log_likelihood": lambda post: bd.log_likelihood(post, X, Y),
}


KINDS = {"as made": lambda post, _: post, "DataTree": _tree, "loaded": _loaded}
CASES = [(way, kind) for way in WAYS for kind in KINDS if kind != "loaded" or way in ("deep copy", "joblib")]


@pytest.mark.slow
@pytest.mark.parametrize(("way", "kind"), CASES)
def test_copies_and_selections_keep_the_model(way, kind, tmp_path):
    """Whichever part is one's own: the object goes as a whole."""
    found, expected = (WAYS[way](KINDS[kind](post, tmp_path)) for post in sampled("rates.prior"))
    np.testing.assert_array_equal(bd.predict(found, X).mean, bd.predict(expected, X).mean)
    assert type(read_draws(found).model) is bd.Model


def test_no_attribute_holds_the_object(pair):
    _, own, package = pair
    for post in (own, package):
        every = [post.attrs, *(bd.groups.dataset(post, name).attrs for name in bd.groups.group_names(post))]
        assert {type(value) for attrs in every for value in attrs.values()} <= {str, int, float}


@pytest.mark.slow
def test_a_file_names_what_it_needs(pair, tmp_path):
    place, own, _ = pair
    bd.groups.save(own, tmp_path / "post.nc")
    read = bd.groups.load(tmp_path / "post.nc")
    bd.diagnose(read)  # which needs no model
    kind = type(read_draws(own).model.noise if place == "noise" else _at(OWN[place], place))
    named = rf"post: model\.{place} is '{kind.__module__}\.{kind.__qualname__}', a component of your own.*import it.*"
    with pytest.raises(ValueError, match=named + r"bd\.groups\.load\(path, model=model\)"):
        bd.predict(read, X)
    with pytest.raises(ValueError, match=rf"post\.nc.*{kind.__qualname__}"):
        bd.groups.load(tmp_path / "post.nc", model=bd.Model())
    with pytest.raises(TypeError, match="model: expected an object such as"):
        bd.groups.load(tmp_path / "post.nc", model=kind)
    again = bd.groups.load(tmp_path / "post.nc", model=OWN[place])
    np.testing.assert_array_equal(bd.predict(again, X).mean, bd.predict(own, X).mean)
    assert type(_at(read_draws(again).model, place)) is kind


def _at(model, place):
    for name in place.split("."):
        model = getattr(model, name)
    return model


def test_settings_are_those_of_the_file(pair, tmp_path):
    place, own, _ = pair
    bd.groups.save(own, tmp_path / "post.nc")
    others = {
        "loss": bd.Model(OwnLoss(expectation="gaussian"), C=3.0),
        "noise": bd.Model(noise=OwnNoise(unbiased=True)),
        "rates": bd.Model(rates=OwnRates(bd.Beta(5.0, 1.0))),
        "rates.prior": bd.Model(rates=bd.PerFeature(OwnRatePrior(5.0, 1.0))),
        "weight_prior": bd.Model(weight_prior=OwnPrior(9.0)),
    }
    again = bd.groups.load(tmp_path / "post.nc", model=others[place])
    assert read_draws(again).model == read_draws(own).model
    np.testing.assert_array_equal(bd.predict(again, X).mean, bd.predict(own, X).mean)


def test_prior_draws_carry_the_model():
    prior = bd.prior_draws(OWN["loss"], X, draws=4, intercept_scale=1.0, seed=1)
    assert arviz_groups.read_attributes(prior)["bayesdrop_model"].loss == OwnLoss()


@pytest.mark.parametrize("place", OWN)
def test_a_fit_travels(place, tmp_path):
    fit = bd.fit(OWN[place], X, Y)
    expected = fit.predict(X).mean
    for again in (pickle.loads(pickle.dumps(fit)), copy.deepcopy(fit), bd.Fit.from_dataset(fit.to_dataset())):
        np.testing.assert_array_equal(again.predict(X).mean, expected)
    fit.save(tmp_path / "fit.nc")
    with pytest.raises(ValueError, match=r"component of your own.*bd\.Fit\.load\(path, model=model\)"):
        bd.Fit.load(tmp_path / "fit.nc")
    again = _by_joblib(copy.deepcopy(bd.Fit.load(tmp_path / "fit.nc", model=OWN[place])))
    np.testing.assert_array_equal(again.predict(X).mean, expected)
    assert again.model == fit.model
