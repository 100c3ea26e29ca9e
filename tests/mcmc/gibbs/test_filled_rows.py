"""Rows that only fill up are no data to the sampler of masks, and data of nearly as many rows share its programs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.mcmc.gibbs import method

N, P, CHAINS = 19, 3, 2
RNG = np.random.default_rng(0)
X = RNG.poisson(0.8, size=(N, P)).astype(float)
SCORE = X @ [1.0, -1.0, 0.5] + RNG.normal(size=N)
SIGNS = np.where(SCORE > 0, 1.0, -1.0)
WEIGHTS = RNG.random(N) + 0.5
# Model, sampler, response, weights of rows, offset.
CASES = {
    "logistic": (bd.Model(), bd.Gibbs(dtype="float64"), SIGNS, None, None),
    "hinge, weights, offset": (bd.Model(bd.Hinge()), bd.Gibbs(dtype="float64"), SIGNS, WEIGHTS, 0.3 * SCORE),
    "squared, groups, variance": (
        bd.Model(bd.Squared(variance_prior=bd.InverseGamma(2.0, 1.0)), rates=bd.PerGroup(["a", "b", "a"])),
        bd.Gibbs(dtype="float64"),
        SCORE,
        WEIGHTS,
        None,
    ),
    "logistic, woodbury": (bd.Model(), bd.Gibbs(dtype="float64", weights="woodbury", joint_moves=0), SIGNS, None, None),
}


def bound(case, monkeypatch, fill):
    model, gibbs, y, weight, offset = CASES[case]
    data = as_dataset(X, y, weight, None, model.loss.binary).with_offset(offset)
    with monkeypatch.context() as patch:
        if not fill:
            patch.setattr(method, "filled_up", lambda operands: operands)
        return gibbs.bind(model, data, model.bind(data.feature_names), tune=5)


def same_numbers(monkeypatch, loss):
    """Random numbers of the rows that are data do not depend on how many rows fill up."""
    pseudo = type(loss).sample_pseudo

    def of_data(draw):
        def drawn(key, shape=(), dtype=float, *limits):
            if not shape or shape[-1] != N + 1:
                return draw(key, shape, dtype, *limits)
            found = draw(key, (*shape[:-1], N), dtype, *limits)
            return jnp.pad(found, [(0, 0)] * (len(shape) - 1) + [(0, 1)], constant_values=0.3)

        return drawn

    def pseudo_of_data(self, key, y, mean, var, weight):
        rows = mean.reshape(CHAINS, -1)

        def cut(part):
            return part.reshape(CHAINS, -1)[:, :N].reshape(-1) if np.ndim(part) else part

        drawn = pseudo(self, key, *map(cut, (y, mean, var, weight)))
        more = [(0, 0), (0, rows.shape[1] - N)]
        return [jnp.pad(part.reshape(CHAINS, N), more, constant_values=7.0).reshape(-1) for part in drawn]

    monkeypatch.setattr(jax.random, "uniform", of_data(jax.random.uniform))
    monkeypatch.setattr(jax.random, "normal", of_data(jax.random.normal))
    monkeypatch.setattr(type(loss), "sample_pseudo", pseudo_of_data)


@pytest.mark.default_cases("logistic", "logistic, woodbury")
@pytest.mark.parametrize("case", CASES)
def test_sweeps_are_the_same_with_the_same_random_numbers(case, monkeypatch):
    found = []
    with jax.enable_x64(True):
        for fill in (False, True):
            kernel, operands = bound(case, monkeypatch, fill)
            assert operands.target.shape == (N + fill,)
            same_numbers(monkeypatch, kernel.loss)
            state, record = kernel.init(operands, jax.random.key(1), CHAINS), None
            sweep = jax.jit(kernel.step)
            for _ in range(3):
                state, record = sweep(operands, state)
            found.append((record, state.score[:, :N], [mask[..., :N] for mask in state.kept]))
            monkeypatch.undo()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9), *found)


def test_filled_rows_have_no_masks_that_are_counted(monkeypatch):
    kernel, operands = bound("logistic", monkeypatch, True)
    assert int(operands.columns.occurrences.sum()) == np.count_nonzero(X)
    assert not np.asarray(operands.columns.blocks[0].occurs)[:, N:].any()
    assert operands.counted(jnp.ones(N + 1)).tolist() == [1.0] * N + [0.0]


def test_data_of_nearly_as_many_rows_share_a_program():
    model, kinds = bd.Model(), set()
    for n in (17, 18):
        data = as_dataset(X[:n], SIGNS[:n])
        kernel, operands = bd.Gibbs().bind(model, data, model.bind(data.feature_names), tune=5)
        kinds.add((kernel, str(jax.tree.map(jnp.shape, operands))))
    assert len(kinds) == 1
