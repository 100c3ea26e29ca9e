"""What ArviZ's own functions make of a posterior of two classes, against numbers worked out in loops.

Both lines of ArviZ: the newer one has metrics and calibration curves, the older one separation plots. Nothing is random
beyond fixed seeds, and nothing is compared but numbers that must be equal.
"""

import warnings

import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop._arviz import arviz
from bayesdrop.posterior.arviz_groups.groups import dataset, extend
from bayesdrop.warnings import MixingWarning

LABELS = np.array(["ill", "well"])


@pytest.fixture(scope="module")
def problem():
    """Posterior with log likelihood and simulated responses of rows that a line separates but for a few."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 3))
    y = (X @ [3.0, -2.0, 0.0] + 0.5 * rng.normal(size=60) > 0.3).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixingWarning)
        post = bd.sample(
            bd.Model(rates=bd.Fixed(0.1)), X, LABELS[y], draws=200, tune=200, chains=2, seed=1, progress=False
        )
    post = bd.log_likelihood(bd.posterior_predictive(post, X), X, LABELS[y])
    return post, y


def _chances(post):
    """Share of the draws in which each row is simulated as 1, in a loop."""
    simulated = dataset(post, "posterior_predictive")["y"].transpose("chain", "draw", "obs_id").values
    draws = simulated.reshape(-1, simulated.shape[2])
    return np.array([sum(int(v) for v in row) / len(draws) for row in draws.T])


def _accuracies(chance, y):
    right = [(c > 0.5) == bool(v) for c, v in zip(chance, y, strict=True)]
    each = [np.mean([r for r, v in zip(right, y, strict=True) if v == k]) for k in (0, 1)]
    return np.mean(right), np.mean(each)


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


def test_metrics_of_arviz(problem):
    """Accuracies and the root of the Brier score; the mean of the responses is what ArviZ takes for a probability."""
    post, y = problem
    az = arviz()
    chance = _chances(post)
    plain, balanced = _accuracies(chance, y)
    assert plain > 0.9
    if hasattr(az, "metrics"):
        assert az.metrics(post, kind="acc", round_to="none").mean == pytest.approx(plain, abs=1e-12)
        assert az.metrics(post, kind="acc_balanced", round_to="none").mean == pytest.approx(balanced, abs=1e-12)
        brier = np.mean([(c - v) ** 2 for c, v in zip(chance, y, strict=True)])
        assert az.metrics(post, kind="mse", round_to="none").mean == pytest.approx(brier, abs=1e-12)
    else:  # what there is of the kind in the older line
        found = az.apply_test_function(
            post, func=lambda y, theta: float(np.mean(y)), group="both", var_names={"posterior_predictive": ["y"]}
        )
        assert float(np.mean(found.observed_data["T"])) == pytest.approx(np.mean(y), abs=1e-12)
        assert float(np.mean(found.posterior_predictive["T"])) == pytest.approx(np.mean(chance), abs=1e-12)


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
