"""Every option of a gradient sampler reaches every kernel of it: a new one without a line in ``OPTIONS`` fails here."""

from dataclasses import fields

import jax
import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.designs import as_sampling_design
from bayesdrop.hmc.approximations.choices import CHOICES, Limits
from bayesdrop.sampling.run.runner import as_key, run

PLAIN, SHARED, MANY = bd.Fixed(0.0), bd.Shared(), bd.Model(bd.Softmax(), rates=bd.Fixed(0.0), C=20.0)
KERNELS = {
    "scores": (bd.Model(rates=PLAIN, C=20.0), Limits(dense=2)),
    "rows": (bd.Model(rates=SHARED, C=20.0), Limits(dense=2)),
    "directions": (bd.Model(rates=SHARED, C=20.0), Limits(dense=2, rows=0)),
    "eigenvectors": (MANY, Limits(dense=2)),
    "dense": (bd.Model(rates=PLAIN, C=20.0), Limits()),
    "diagonal": (MANY, Limits(dense=2, eigenvectors=1)),
    "dense, streamed": (bd.Model(rates=PLAIN, C=20.0), Limits()),
}
# What each option does to a kernel and to the draws of a few trajectories with it, beside those with the default; those
# that leave no number of steps to be chosen are tried together.
OPTIONS = {
    "n_leapfrog_steps": (7, lambda draws, plain: np.all(draws["n_steps"] == 7)),
    "target_accept": (0.97, lambda draws, plain: draws["n_steps"].mean() > plain["n_steps"].mean()),
    "turn": (0.3, lambda draws, plain: np.all(np.abs(draws["step_size"] * draws["n_steps"] / 0.3 - 1) < 0.201)),
    "dtype": ("float64", lambda draws, plain: draws["weight"].dtype != plain["weight"].dtype),
    "max_tree_depth": (1, lambda draws, plain: np.all(draws["n_steps"] == 1)),
}
# Of the whole call and of the choice of a kernel, which have tests of their own.
ELSEWHERE = {"correct", "limits"}


def bound(method, name, **options):
    """The kernel of a method, and its operands."""
    model, limits = KERNELS[name]
    method, many = method(limits=limits, **options), model.loss.multiclass
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 10))
    y = np.arange(12) % 3 if many else np.arange(12) % 2 * 2.0 - 1
    rows = bd.Blocks(lambda: iter(np.split(X, [5]))) if "streamed" in name else X
    data = as_dataset(rows, y, None, None, False, as_sampling_design, many).with_weight()
    bind = method.bind_streamed if data.design.is_streamed else method.bind
    with jax.enable_x64(method.dtype == "float64"):
        return bind(model, data, model.bind(data.feature_names), 60, model.loss.multiclass)


def inner(kernel, name):
    """The kernel of the rows of a streamed one; of its choice."""
    kernel = getattr(kernel, "inner", kernel)
    assert kernel.choice == name.removesuffix(", streamed")
    return kernel


def drawn(method, name, **options):
    """The draws after a short warm-up."""
    kernel, operands = bound(method, name, **options)
    with jax.enable_x64(options.get("dtype", method().dtype) == "float64"):
        return run(kernel, operands, as_key(1), tune=60, draws=6, chains=2, progress=False).draws


@pytest.mark.parametrize("method", [bd.HMC, bd.NUTS])
def test_every_option_has_a_line(method):
    assert {field.name for field in fields(method)} <= OPTIONS.keys() | ELSEWHERE
    assert {choice.name for choice in CHOICES} <= KERNELS.keys()


def changes(method):
    """Another value of each option and what it does; those that are tried together."""
    changed = {field.name: OPTIONS[field.name] for field in fields(method) if field.name not in ELSEWHERE}
    if method().dtype == changed["dtype"][0]:
        changed["dtype"] = ("float32", changed["dtype"][1])
    for together in ({"target_accept"}, changed.keys() - {"target_accept"}):
        yield {option: changed[option] for option in together}


@pytest.mark.slow_cases("rows", "directions")  # as the draws of rows below, and as eigenvectors
@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_has_every_option(name):
    for changed in changes(bd.HMC):
        kernel = inner(bound(bd.HMC, name, **{option: value for option, (value, _) in changed.items()})[0], name)
        assert all(getattr(kernel.options, option) == value for option, (value, _) in changed.items())


def check(method, name):
    plain = drawn(method, name)
    for changed in changes(method):
        draws = drawn(method, name, **{option: value for option, (value, _) in changed.items()})
        for option, (_, reached) in changed.items():
            assert reached(draws, plain), option


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_every_option_reaches_the_draws_of_every_kernel(name):
    check(bd.HMC, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rows", "dense"])
def test_every_option_reaches_nuts(name):
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):  # NumPyro's own code needs both
        check(bd.NUTS, name)
