"""Results travel to other processes: pickle, copies and joblib, as they were made and as they were loaded."""

import copy
import io
import pickle

import joblib
import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.posterior.arviz_groups.groups import dataset

X = np.random.default_rng(0).normal(size=(40, 3))
Y = np.where(X[:, 0] > 0, "up", "down")
SHORT = {"draws": 4, "tune": 3, "chains": 3, "seed": 7, "progress": False}  # the program of test_groups.py


def by_joblib(value):
    buffer = io.BytesIO()
    joblib.dump(value, buffer)
    buffer.seek(0)
    return joblib.load(buffer)


WAYS = {"pickle": lambda value: pickle.loads(pickle.dumps(value)), "deepcopy": copy.deepcopy, "joblib": by_joblib}


@pytest.fixture(scope="module")
def posteriors(tmp_path_factory):
    path = tmp_path_factory.mktemp("posterior") / "post.nc"
    with pytest.warns(bd.MixingWarning):
        post = bd.sample(bd.Model(), X, Y, **SHORT)
    bd.groups.save(post, path)
    return {"sampled": post, "loaded": bd.groups.load(path)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("origin", ["sampled", "loaded"])
def test_a_posterior_can_be_copied(posteriors, origin, way):
    post = posteriors[origin]
    again = WAYS[way](post)
    assert dataset(again, "posterior").identical(dataset(post, "posterior"))
    np.testing.assert_array_equal(bd.predict(again, X).mean, bd.predict(post, X).mean)


@pytest.mark.parametrize("way", WAYS)
def test_a_loaded_fit_can_be_copied(tmp_path, way):
    fit = bd.fit(bd.Model(rates=bd.Fixed(0.2)), X, Y)
    fit.save(tmp_path / "fit.nc")
    loaded = bd.Fit.load(tmp_path / "fit.nc")
    np.testing.assert_array_equal(WAYS[way](loaded).weight, fit.weight)


@pytest.mark.parametrize("way", WAYS)
def test_a_posterior_read_piece_by_piece_can_be_copied_after_loo(posteriors, way):
    scored = bd.log_likelihood(posteriors["loaded"], X, Y)
    assert dataset(WAYS[way](scored), "log_likelihood").identical(dataset(scored, "log_likelihood"))
