"""A posterior of two classes holds zeros and ones beside its labels; ArviZ's functions: test_arviz_families.py."""

import warnings

import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.posterior.arviz_groups.groups import dataset, extend
from bayesdrop.warnings import MixingWarning

LABELS = np.array(["ill", "well"])


@pytest.fixture(scope="module")
def problem():
    """Posterior with simulated responses."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 3))
    y = (X @ [3.0, -2.0, 0.0] + 0.5 * rng.normal(size=60) > 0.3).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixingWarning)
        post = bd.sample(
            bd.Model(rates=bd.Fixed(0.1)), X, LABELS[y], draws=20, tune=20, chains=2, seed=1, progress=False
        )
    return bd.posterior_predictive(post, X), y


def test_responses_are_zeros_and_ones_with_their_labels(problem):
    post, y = problem
    for group in ("observed_data", "posterior_predictive"):
        found = dataset(post, group)
        assert set(np.unique(found["y"])) == {0, 1}
        assert found["y"].dtype == np.int8
        assert found["class"].values.tolist() == LABELS.tolist()
    np.testing.assert_array_equal(dataset(post, "observed_data")["y"], y)


def test_labels_survive_a_file(problem, tmp_path):
    post, y = problem
    bd.groups.save(post, tmp_path / "post.nc")
    found = dataset(bd.groups.load(tmp_path / "post.nc"), "observed_data")
    assert found["class"].values[found["y"].values].tolist() == LABELS[y].tolist()


@pytest.mark.parametrize("stored", [[-1, 1, 1], [0, 2, 1]])
def test_other_codes_are_refused(problem, stored):
    """Files of earlier releases hold signs: read as they stand, every −1 would be a third class."""
    post, _ = problem
    observed = dataset(post, "observed_data")
    y = np.resize(stored, observed.sizes["obs_id"]).astype(np.int8)
    changed = extend(post, {"observed_data": observed.assign(y=("obs_id", y))})
    X = np.zeros((observed.sizes["obs_id"], 3))
    with pytest.raises(ValueError, match="coded 0 and 1"):
        bd.log_likelihood(changed, X, LABELS[np.zeros(len(X), int)])


def test_the_variational_draws_are_coded_alike():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bd.NarrowIntervalsWarning)
        result = bd.variational(bd.Model(), [[0.0], [1.0], [2.0], [3.0]], LABELS[[0, 1, 0, 1]])
    observed = dataset(result.to_arviz(draws=10), "observed_data")
    assert observed["y"].values.tolist() == [0, 1, 0, 1]
    assert observed["class"].values.tolist() == LABELS.tolist()
