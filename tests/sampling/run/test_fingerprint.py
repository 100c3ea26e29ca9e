"""The sampler goes on from its checkpoint, and refuses that of other data or settings by name."""

import shutil
import warnings

import jax
import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.sampling.run import fingerprint
from bayesdrop.warnings import IncompleteWarning, MixingWarning

X = np.random.default_rng(0).normal(size=(12, 3))
Y = np.arange(12) % 2
MODEL = bd.Model(bd.Hinge(), rates=bd.PerFeature(bd.Beta(1, 2)))


def sample(model=MODEL, X=X, y=Y, **options):
    options = {"draws": 8, "tune": 6, "chains": 2, "progress": False, "method": bd.Gibbs(joint_moves=0)} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixingWarning)
        return bd.sample(model, X, y, **options)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Checkpoint of eight draws, and what was returned."""
    folder = tmp_path_factory.mktemp("sampler") / "run"
    return folder, sample(checkpoint=folder)


@pytest.mark.slow
def test_the_sampler_goes_on_where_it_was(kept, tmp_path):
    folder = shutil.copytree(kept[0], tmp_path / "copy")
    expected, found = sample(draws=20), sample(draws=20, checkpoint=folder)
    for group in ("posterior", "sample_stats"):
        assert bd.groups.dataset(found, group).equals(bd.groups.dataset(expected, group))
    first = bd.groups.dataset(expected, "posterior").isel(draw=slice(8))
    assert bd.groups.dataset(kept[1], "posterior").equals(first)
    attributes = bd.groups.dataset(found, "posterior").attrs
    assert (attributes["stopped"], attributes["complete"]) == ("draws", 1)


@pytest.mark.slow
def test_the_sampler_says_why_it_ended(kept, tmp_path):
    folder = shutil.copytree(kept[0], tmp_path / "copy")
    found = sample(draws=200, checkpoint=folder, stop=bd.Stop(ess=1, r_hat=100, min_draws=10))
    posterior = bd.groups.dataset(found, "posterior")
    assert (posterior.sizes["draw"], posterior.attrs["stopped"], posterior.attrs["complete"]) == (10, "target", 1)
    with pytest.warns(IncompleteWarning, match="11 of 200 draws .*call again with the same"):
        found = sample(draws=200, checkpoint=folder, max_seconds=1e-6)
    posterior = bd.groups.dataset(found, "posterior")
    assert (posterior.sizes["draw"], posterior.attrs["stopped"], posterior.attrs["complete"]) == (11, "budget", 0)


@pytest.mark.filterwarnings("ignore::bayesdrop.warnings.MixingWarning")
def test_an_estimator_passes_it_on(kept, refused):
    estimator = bd.DropoutSVC(bd.PerFeature(bd.Beta(1, 2)), C=1.0)
    options = {"draws": 8, "tune": 6, "chains": 2, "progress": False, "method": bd.Gibbs(joint_moves=0)}
    found = estimator.sample(X, Y, checkpoint=kept[0], **options)
    assert bd.groups.dataset(found, "posterior").equals(bd.groups.dataset(kept[1], "posterior"))
    with refused("belongs to another run: chains was 2 and is 3", kept[0]):
        estimator.sample(X, Y, checkpoint=kept[0], **options | {"chains": 3})


OTHER = X.copy()
OTHER[3, 1] += 1e-9


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"X": OTHER}, "X differs"),
        ({"X": X.astype(np.float32)}, r"X was float64 \(12, 3\) and is float32 \(12, 3\)"),
        ({"X": X[:11], "y": Y[:11]}, r"X was .*y was .*sample_weight was"),
        ({"y": 1 - Y}, "y differs"),
        ({"sample_weight": np.where(Y, 2.0, 1.0)}, "sample_weight differs"),
        ({"feature_names": ["a", "b", "c"]}, "feature_names differs"),
        ({"model": bd.Model(bd.Hinge(), rates=bd.PerFeature(bd.Beta(1, 2)), C=2)}, "model.C was 1 and is 2"),
        ({"model": bd.Model(bd.Hinge(2.0), rates=bd.PerFeature(bd.Beta(1, 2)))}, "model.loss.margin was 1 and is 2"),
        ({"model": bd.Model(bd.Hinge(), rates=bd.PerFeature(bd.Beta(1, 3)))}, r"model.rates.prior.b was 2 and is 3"),
        ({"model": bd.Model(rates=bd.PerFeature(bd.Beta(1, 2)))}, "model.loss was Hinge and is Logistic"),
        ({"model": bd.Model(bd.Hinge(), rates=bd.PerGroup([0, 0, 1]))}, "model.rates was PerFeature and is PerGroup"),
        (
            {"model": bd.Model(bd.Hinge(), rates=bd.Fixed([0.1, 0.2, 0.3])), "target": "marginalised"},
            "model.rates was PerFeature and is Fixed.*target was noising and is marginalised",
        ),
        ({"method": bd.Gibbs(joint_moves=0, dtype="float64")}, "method.dtype was float32 and is float64"),
        ({"method": bd.Gibbs(2, joint_moves=0)}, "method.sweeps_per_draw was 1 and is 2"),
        ({"seed": 1}, "seed was 0 and is 1"),
        ({"seed": jax.random.key(7, impl="rbg")}, "seed was 0 and is rbg"),
        ({"chains": 3}, "chains was 2 and is 3"),
        ({"tune": 7}, "tune was 6 and is 7"),
    ],
)
def test_other_data_and_settings_are_refused_by_name(kept, change, difference, refused):
    if change.get("target") == "marginalised":
        change = change | {"method": bd.Gibbs(joint_moves=0)}
    with refused(f"belongs to another run: .*{difference}", kept[0]):
        sample(checkpoint=kept[0], **change)


def test_other_versions_are_refused_by_name(kept, monkeypatch, refused):
    monkeypatch.setattr(fingerprint, "version", lambda package: "99.1")
    with refused(r"bayesdrop version was [\d.]+ and is 99.1; jax version was", kept[0]):
        sample(checkpoint=kept[0])


def test_sparse_data_are_told_from_dense_and_by_their_structure(kept):
    def print_of(X):
        return fingerprint.fingerprint(as_dataset(X, Y), jax.random.key(0))["X"]

    holes = X * (X > 0)
    stored = sparse.csr_array(holes)
    zero = stored.copy()
    zero.data[0] = 0.0
    short = zero.copy()
    short.eliminate_zeros()
    prints = [print_of(matrix) for matrix in (holes, stored, zero, short)]
    assert len(set(prints)) == 4
    long = stored.copy()
    long.indices, long.indptr = long.indices.astype(np.int64), long.indptr.astype(np.int64)
    assert print_of(long) == prints[1]


def test_the_same_seed_in_other_words_is_the_same(kept):
    assert bd.groups.dataset(sample(checkpoint=kept[0], seed=jax.random.key(0)), "posterior").equals(
        bd.groups.dataset(kept[1], "posterior")
    )
