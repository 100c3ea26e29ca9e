"""Groups of chains that move by themselves: the transition is the same, whatever the machine."""

from functools import partial

import jax
import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.mcmc.hmc.approximations import row_factor
from bayesdrop.mcmc.hmc.kernel import HMCKernel
from bayesdrop.mcmc.hmc.parted_kernel import PartedHMCKernel
from bayesdrop.mcmc.run import driving
from bayesdrop.mcmc.run.runner import as_key, run


@pytest.fixture(scope="module")
def bound():
    """Kernel and operands of rates of both kinds."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(12, 9)) * (generator.random((12, 9)) < 0.6)
    data = as_dataset(X, np.where(X[:, 0] + generator.normal(size=12) > 0, 1, -1)).with_weight()
    found = {}
    with pytest.MonkeyPatch.context() as patch, jax.enable_x64(True):
        patch.setattr(row_factor, "_MANY", 2)
        for name, rates in {"each": bd.PerFeature(), "shared": bd.Shared()}.items():
            model = bd.Model(rates=rates)
            found[name] = bd.HMC(dtype="float64").bind(model, data, model.bind(data.feature_names), 5)
    return found


@partial(jax.jit, static_argnums=0)
def whole_and_parts(kernel, operands, state):
    """A step as a whole, and in parts."""
    drawn, parts = kernel.split(operands, state)
    moved = [kernel.move(operands, part) for part in parts]
    return HMCKernel.step(kernel, operands, state), kernel.join(operands, state, drawn, moved)


def test_parts_make_the_step_of_the_whole(bound):
    """Rates that are not drawn beforehand leave both the same keys."""
    kernel, operands = bound["each"]
    assert isinstance(kernel, PartedHMCKernel)
    assert not kernel.slices
    with jax.enable_x64(True):
        state = kernel.init(operands, as_key(1), 5)
        for _ in range(4):
            (state, one), (_, other) = whole_and_parts(kernel, operands, state)
            assert len(one) == len(other)
            for name, value in one.items():
                np.testing.assert_allclose(other[name], value, rtol=1e-9, atol=1e-9, err_msg=name)


def test_groups_draw_rates_of_their_own(bound):
    """Chains that are at one place: their rates differ, within a group and between groups."""
    kernel, operands = bound["shared"]
    assert kernel.slices
    with jax.enable_x64(True):
        state = kernel.init(operands, as_key(1), 4)
        alike = jax.tree.map(
            lambda leaf: np.repeat(np.asarray(leaf)[:1], 4, axis=0), (state.position, state.evaluation)
        )
        state = state._replace(position=alike[0], evaluation=alike[1])
        _, parts = kernel.split(operands, state)
        move = jax.jit(kernel.move)
        starts = np.concatenate([move(operands, part).start for part in parts])
    rate = starts[:, -1]
    assert len(np.unique(rate)) == 4


@pytest.mark.parametrize("chains", [1, 2, 3, 4, 7, 8, 9, 30])
def test_every_chain_is_in_one_group(chains):
    groups = PartedHMCKernel.groups(chains)
    assert np.concatenate([np.arange(chains)[group] for group in groups]).tolist() == list(range(chains))
    assert all(group.stop - group.start <= 4 for group in groups)
    assert len(groups) >= min(chains, 2)


@pytest.mark.parametrize("name", ["each", "shared"])
def test_cores_change_no_bit(bound, name, monkeypatch):
    kernel, operands = bound[name]
    found = []
    for count in (1, 2):
        monkeypatch.setattr(driving, "cores", lambda count=count: count)
        with jax.enable_x64(True):
            found.append(run(kernel, operands, as_key(0), tune=5, draws=6, chains=4, progress=False).draws)
    assert found[0].keys() == found[1].keys()
    for key, value in found[0].items():
        np.testing.assert_array_equal(value, found[1][key])
