"""Both orders of the sums have the same covariances and slopes; other coordinates change no energy."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.designs import as_design
from bayesdrop.latent.minimisers.whitening import Whitening
from bayesdrop.latent.objective.covariances import EntryScores, ScoreCovariances
from bayesdrop.latent.objective.criteria import OneVersusRest, Softmax, UnitPairs
from bayesdrop.latent.objective.energy import LatentEnergy, Parameters, blocks_of
from bayesdrop.moments import ScoreMoments

N, P, K = 31, 13, 5
NOISES = {"dropout": bd.Dropout(), "additive": bd.GaussianNoise(0.4), "poisson": bd.PoissonNoise()}


def features(rng):
    X = rng.poisson(0.9, size=(N, P)).astype(float)
    X[3] = 0
    return X


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array, np.float32])
@pytest.mark.parametrize(("scores", "joint"), [(1, False), (3, True), (7, False), (10, True)])
def test_entry_by_entry_and_pair_by_pair_are_the_same(noise, storage, scores, joint):
    """Quadratic, linear and constant noise, with rows of no entries: to 1e-13 of the largest number."""
    pytest.importorskip("numba")
    rng = np.random.default_rng(0)
    hidden, weight = rng.normal(size=(P, K)), rng.normal(size=(K, scores))
    problems = np.triu_indices(scores) if joint else (np.arange(scores), np.arange(scores))
    moments = ScoreMoments(as_design(storage(features(rng))), NOISES[noise], np.linspace(0.1, 0.7, P)[:, None], True)
    found = []
    for kind in (EntryScores, UnitPairs):
        route, generator = kind(hidden, weight, problems), np.random.default_rng(1)
        for _ in range(2):
            slope, for_cov = generator.random((N, K)), generator.normal(size=(N, len(problems[0])))
            cov, kept = route.forward(moments, slope)
            for_slope = route.backward(moments, slope, for_cov, kept)
        found.append((cov, for_slope, route.for_hidden, route.for_output))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-13 * np.max(np.abs(other)))


def test_the_cheaper_order_is_taken():
    """Few scores go entry by entry; many scores of a few units of features without zeros, pair by pair."""
    pytest.importorskip("numba")
    moments = ScoreMoments(as_design(np.ones((N, P))), bd.Dropout(), np.full((P, 1), 0.3), True)

    def kind(units, scores):
        arguments = np.ones((P, units)), np.ones((units, scores)), np.triu_indices(scores)
        return type(ScoreCovariances(*arguments).route(moments, N * P))

    assert kind(20, 1) is EntryScores
    assert kind(3, 10) is UnitPairs


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("noise", NOISES)
def test_whitened_coordinates_are_those_of_the_weights(noise, intercept):
    """There and back to 1e-10, and a slope is the adjoint of the map to 1e-10; a fixed intercept stays at zero."""
    rng = np.random.default_rng(2)
    X = features(rng)
    energy = LatentEnergy(
        blocks_of(X, rng.integers(0, 3, N), rng.gamma(2.0, size=N), K),
        NOISES[noise],
        np.linspace(0.1, 0.7, P),
        Softmax("taylor"),
        np.linspace(0.5, 2.0, P),
        intercept,
    )
    last = np.full((1, 1), float(intercept))
    draw = [
        np.vstack([rng.normal(size=(rows, cols)), last * rng.normal(size=(1, cols))]) for rows, cols in ((P, K), (K, 3))
    ]
    here = Parameters(*draw)
    axes = Whitening(energy, here)
    flat = axes.coordinates(here)
    for one, other in zip(axes.weights(flat), here, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-10)
    along, gradient = rng.normal(size=flat.size), Parameters(*(rng.normal(size=part.shape) for part in here))
    inner = sum(np.vdot(a, b) for a, b in zip(axes.weights(along), gradient, strict=True))
    assert along @ axes.slope(gradient) == pytest.approx(inner, rel=1e-10)
    if not intercept:
        assert not np.any(axes.weights(flat).hidden[-1])
        assert not np.any(axes.weights(flat).output[-1])


def test_axes_of_the_inputs_are_those_of_noised_rows():
    """``Σ s E x̃x̃ᵀ`` by the moments of each entry, to 1e-12."""
    rng = np.random.default_rng(3)
    X, weight, rate = features(rng), rng.gamma(2.0, size=N), np.linspace(0.1, 0.7, P)
    for noise in NOISES.values():
        energy = LatentEnergy(
            blocks_of(X, np.ones((N, 1)), weight, K), noise, rate, OneVersusRest(bd.Logistic()), np.full(P, 4.0)
        )
        gain, shift, a, b, c = noise.coefficients(rate)
        mean = np.hstack([(gain * X + shift) / 2, np.ones((N, 1))])
        expected = (mean * weight[:, None]).T @ mean
        for part, extra in ((energy, (a * X**2 + b * X + c) / 4), (energy.without_variance, np.zeros((N, P)))):
            values, vectors = part.input_axes
            stated = expected + np.diag(np.append(weight @ extra, 0.0))
            np.testing.assert_allclose((vectors * values) @ vectors.T, stated, rtol=0, atol=1e-12 * np.max(stated))
    assert replace(energy, rate=rate / 2).blocks.second_moments is energy.blocks.second_moments
