"""Log likelihoods in a file: the numbers, and the scores, are those in memory; a file is whole or refused."""

import warnings

import h5py
import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.posterior.scores import pointwise, smoothed_loo

N, P = 60, 3


@pytest.fixture(scope="module", name="case")
def _case():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, P)) * (rng.random((N, P)) < 0.8)
    y = X[:, 0] + rng.logistic(size=N) > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few draws
        # The program of ../test_arviz_binary.py.
        post = bd.sample(bd.Model(rates=bd.Fixed(0.3)), X, y, draws=60, tune=20, chains=2, progress=False)
    return post, X, y


def values(post):
    return bd.groups.dataset(post, "log_likelihood")["y"]


def scores(post):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bd.loo(post)


ROWS = {
    "dense": lambda X: X,
    "sparse": sparse.csr_array,
    "blocks": lambda X: bd.Blocks(lambda: iter(np.split(X, [7, 30]))),
    "sparse blocks": lambda X: bd.Blocks(lambda: iter([sparse.csr_array(part) for part in np.split(X, [7, 30])])),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_a_file_has_the_numbers_in_memory(case, name, tmp_path, monkeypatch):
    post, X, y = case
    monkeypatch.setattr(pointwise, "STEP", 5 * 120)  # a few rows at a time, which are not those of a piece
    monkeypatch.setattr(smoothed_loo, "BLOCK", 8 * 3 * 120)
    monkeypatch.setattr(pointwise, "MOST", 1)  # more than memory is thought to hold
    path = tmp_path / "likelihood.nc"
    stored = bd.log_likelihood(post, ROWS[name](X), y, path=path)
    expected = bd.log_likelihood(post, X, y)
    np.testing.assert_allclose(values(stored), values(expected), rtol=1e-12)
    for dim in ("chain", "draw", "obs_id"):
        np.testing.assert_array_equal(values(stored)[dim], values(expected)[dim])
    assert [file.name for file in tmp_path.iterdir()] == ["likelihood.nc"]
    again = bd.log_likelihood(post, path=path)
    np.testing.assert_array_equal(values(again), values(stored))


@pytest.mark.slow
def test_scores_by_blocks_of_rows_are_those_of_all(case, tmp_path, monkeypatch):
    post, X, y = case
    expected = scores(bd.log_likelihood(post, X, y))
    stored = bd.log_likelihood(post, X, y, path=tmp_path / "likelihood.nc")
    read = []
    monkeypatch.setattr(smoothed_loo, "STEP", 7 * 120)
    smoothable = smoothed_loo._smoothable
    monkeypatch.setattr(
        smoothed_loo,
        "_smoothable",
        lambda some: read.append(bd.groups.dataset(some, "log_likelihood").sizes["obs_id"]) or smoothable(some),
    )
    found = scores(stored)
    assert read == [7] * 8 + [4]
    assert type(found) is type(expected)
    assert found.n_data_points == N
    assert found.warning == expected.warning
    np.testing.assert_allclose(found.pareto_k, expected.pareto_k, rtol=1e-9)
    names = ("elpd_loo", "se", "p_loo", "loo_i") if hasattr(found, "loo_i") else ("elpd", "se", "p", "elpd_i")
    for name in names:
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9)


def test_a_file_that_was_not_finished_is_not_there(case, tmp_path, monkeypatch):
    """An older one stays as it was."""
    post, X, y = case
    path = tmp_path / "likelihood.nc"
    bd.log_likelihood(post, X, y, path=path)
    before = path.read_bytes()
    calls = []
    group = pointwise.row_log_likelihoods

    def broken(*arguments, **options):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return group(*arguments, **options)

    monkeypatch.setattr(pointwise, "row_log_likelihoods", broken)
    monkeypatch.setattr(pointwise, "STEP", 5 * 120)
    with pytest.raises(KeyboardInterrupt):
        bd.log_likelihood(post, X, y, path=path)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(FileNotFoundError, match="does not exist"):
        bd.log_likelihood(post, X, y, path=tmp_path / "nowhere" / "likelihood.nc")


def cut(path):
    path.write_bytes(path.read_bytes()[:-2000])


def half(path):
    """As if a program had been killed while it wrote in place."""
    with h5py.File(path, "r+") as file:
        group = file["log_likelihood"]
        held = {name: value for name, value in group["y"].attrs.items() if name not in ("DIMENSION_LIST",)}
        del group["y"]
        group.create_dataset("y", (2, 60, N), "f8", chunks=(2, 60, 10))[:, :, :10] = 1.0
        group["y"].attrs.update({name: value for name, value in held.items() if not name.startswith("_")})


def other(path):
    with h5py.File(path, "w") as file:
        file["x"] = np.zeros(3)


@pytest.mark.parametrize("damage", [cut, half, other, lambda path: path.write_text("nothing of the kind")])
def test_a_damaged_file_is_refused(case, damage, tmp_path):
    post, X, y = case
    path = tmp_path / "likelihood.nc"
    bd.log_likelihood(post, X, y, path=tmp_path / "whole.nc")
    path.write_bytes((tmp_path / "whole.nc").read_bytes())  # a file that is not open
    damage(path)
    with pytest.raises(ValueError, match="cannot be read as log likelihoods .*write it again by bd.log_likelihood"):
        bd.log_likelihood(post, path=path)


def test_the_file_of_another_posterior_is_refused(case, tmp_path):
    post, X, y = case
    path = tmp_path / "likelihood.nc"
    with pytest.raises(FileNotFoundError, match="there is no file"):
        bd.log_likelihood(post, path=path)
    bd.log_likelihood(post, X, y, path=path)
    posterior = bd.groups.dataset(post, "posterior")
    moved = bd.groups.extend(post, {"posterior": posterior.assign(weight=posterior["weight"] + 1)})
    with pytest.raises(ValueError, match="expected the log likelihoods of this posterior, .* of other draws"):
        bd.log_likelihood(moved, path=path)
    fewer = bd.groups.extend(post, {"posterior": posterior.isel(draw=slice(30))})
    with pytest.raises(ValueError, match=r"'draw': 30.* got .*'draw': 60"):
        bd.log_likelihood(fewer, path=path)


def test_rows_on_a_cluster_are_refused(case, tmp_path):
    import dask.array as da

    post, X, y = case
    with pytest.raises(TypeError, match="a Dask collection stays on its workers"):
        bd.log_likelihood(post, da.from_array(X, chunks=(20, P)), y, path=tmp_path / "likelihood.nc")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_streamed_rows_are_centred_once(case):
    """A run that adds log likelihoods, against those of the same rows in memory."""
    _, X, y = case
    model, blocks = bd.Model(noise=bd.Dropout(centre="mean"), rates=bd.Fixed(0.3)), bd.Blocks(np.split(X + 5.0, [20]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few draws
        post = bd.sample(
            model, blocks, y, method=bd.HMC(), draws=5, tune=5, chains=2, progress=False, log_likelihood=True
        )
    np.testing.assert_allclose(values(post), values(bd.log_likelihood(post, X + 5.0, y)), rtol=1e-12)
