"""The two ways to run dropout: expected loss and sampled masks, against each other and the closed form."""

import itertools

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.factorization.entries import Complete, Observed
from benchmarks.factorization import gap_of_averages, noisy_product

MF = bd.DropoutMatrixFactorization


def storages(seed=0, n=7, p=5, width=4):
    """Data in every storage, with the pattern that each sees, and factors."""
    rng = np.random.default_rng(seed)
    X, pattern = rng.normal(size=(n, p)), rng.random((n, p)) < 0.6
    hidden = sparse.coo_array((X[pattern], np.nonzero(pattern)), shape=X.shape)
    everything, shift = np.ones_like(pattern), np.arange(p) / p
    cases = {
        "dense": (Complete(X), X, everything),
        "zeros": (Complete(sparse.csr_array(X * pattern)), X * pattern, everything),
        "centred": (Complete(sparse.csr_array(X * pattern), shift), X * pattern - shift, everything),
        "dense, missing": (Observed(X * pattern, pattern * 1.0), X, pattern),
        "sparse, missing": (Observed(hidden.tocsr()), X, pattern),
    }  # fmt: skip
    return cases, rng.normal(size=(n, width)), rng.normal(size=(p, width))


NAMES = list(storages()[0])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("theta", [0.2, 0.7])
def test_the_expected_loss_is_the_mean_over_all_masks(name, theta):
    """Every one of the 2^4 masks with its probability; loss and gradients both."""
    cases, left, right = storages()
    entries, X, pattern = cases[name]
    mean, left_mean, right_mean = 0.0, np.zeros_like(left), np.zeros_like(right)
    for mask in itertools.product((False, True), repeat=4):
        kept = np.flatnonzero(mask)
        chance = np.prod(np.where(mask, theta, 1 - theta))
        value, left_slope, right_slope = entries.sampled(left[:, kept], right[:, kept], theta)
        residual = (X - left[:, kept] @ right[:, kept].T / theta) * pattern
        assert value == pytest.approx(np.sum(residual**2), rel=1e-12)
        mean += chance * value
        left_mean[:, kept] += chance * left_slope
        right_mean[:, kept] += chance * right_slope
    assert entries.objective(left, right, theta) == pytest.approx(mean, rel=1e-12)
    for part, slope in ((left, left_mean), (right, right_mean)):
        for place in ((0, 0), (2, 3), (4, 1)):
            ends = []
            for step in (1e-4, -1e-4):
                part[place] += step
                ends.append(entries.objective(left, right, theta))
                part[place] -= step
            # The loss is a quadratic in each entry: the central difference has no error but round-off.
            assert (ends[0] - ends[1]) / 2e-4 == pytest.approx(slope[place], rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_a_half_sweep_is_a_minimum(name):
    cases, left, right = storages()
    entries = cases[name][0]
    for theta in (0.2, 0.7):
        for solved in (
            (entries.solve_left(right, theta), right),
            (left, entries.solve_right(left, theta)),
        ):
            least = entries.objective(*solved, theta)
            for seed in range(5):
                move = np.random.default_rng(seed).normal(size=(7 if solved[1] is right else 5, 4))
                for size in (1e-3, -1e-3):
                    near = (solved[0] + size * move, right) if solved[1] is right else (left, solved[1] + size * move)
                    assert entries.objective(*near, theta) > least


@pytest.mark.parametrize(
    ("solver", "width", "steps"),
    [
        ("deterministic", 40, None),
        pytest.param("stochastic", 20, 20_000, marks=pytest.mark.slow),
    ],
)
def test_the_rank_is_recovered(solver, width, steps):
    """Cavazza et al. (2018), figure 3: rank 10 and noise of standard deviation 0.01, ``p = 0.9``."""
    X = noisy_product()
    exact = MF(retain=0.9).fit(X)
    assert exact.n_components_ == 10
    best = exact.inverse_transform(exact.transform(X))
    model = MF(width, retain=0.9, solver=solver, max_iter=steps, random_state=0).fit(X)
    assert model.n_components_ == 10
    near = model.inverse_transform(model.transform(X))
    assert np.linalg.norm(near - best) <= 1e-2 * np.linalg.norm(best)
    assert model.objective_ == pytest.approx(exact.objective_, rel=1e-3)
    assert model.shrinkage_ == pytest.approx(exact.shrinkage_, rel=1e-2)


def check_cell(width, theta):
    X = np.random.default_rng(0).normal(size=(100, 100))
    settings = {"retain": theta, "adaptive": False, "random_state": 0}
    least = MF(width, **settings).fit(X).objective_
    model = MF(width, **settings, solver="stochastic", max_iter=20_000).fit(X)
    assert gap_of_averages(model) < 0.01
    assert least < model.objective_ < 1.01 * least


@pytest.mark.slow
@pytest.mark.parametrize(("width", "theta"), [(10, 0.5), (40, 0.3)])
def test_sampled_and_expected_loss_agree(width, theta):
    """Cavazza et al. (2018), figure 1: moving averages over 4,000 steps, and the closed form's minimum."""
    check_cell(width, theta)


@pytest.mark.slow
@pytest.mark.parametrize("width", [10, 40, 160])
@pytest.mark.parametrize("theta", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_sampled_and_expected_loss_agree_on_the_whole_grid(width, theta):
    check_cell(width, theta)
