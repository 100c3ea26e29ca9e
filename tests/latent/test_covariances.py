"""Covariances of the scores are sums over the entries of a row, and one score has those of several."""

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.designs import as_design
from bayesdrop.latent.objective.covariances import ScoreCovariances
from bayesdrop.moments import ScoreMoments

N, P, K = 31, 13, 5
NOISES = {"dropout": bd.Dropout(), "additive": bd.GaussianNoise(0.4), "poisson": bd.PoissonNoise()}


def rows(noise, storage):
    rng = np.random.default_rng(0)
    X = rng.poisson(0.9, size=(N, P)).astype(float)
    X[3] = 0
    rate = np.linspace(0.1, 0.7, P)
    return ScoreMoments(as_design(storage(X)), NOISES[noise], rate[:, None], True), X, rate, rng


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_one_score_has_the_slopes_of_several(noise, storage):
    """The first of two scores, by pairs of units, and the same score alone: to 1e-12, slopes of either sign."""
    moments, _, _, rng = rows(noise, storage)
    hidden, weight, pair = rng.normal(size=(P, K)), rng.normal(size=(K, 2)), (np.zeros(1, dtype=int),) * 2
    whole, one = ScoreCovariances(hidden, weight, pair), ScoreCovariances(hidden, weight[:, :1], pair)
    for _ in range(2):
        slope, for_cov = rng.random((N, K)), rng.normal(size=(N, 1))
        by_pairs, alone = (
            part.backward(moments, slope, for_cov, part.forward(moments, slope)[1]) for part in (whole, one)
        )
        np.testing.assert_allclose(alone, by_pairs, rtol=0, atol=1e-12 * np.max(np.abs(by_pairs)))
    for found, expected in ((one.for_hidden, whole.for_hidden), (one.for_output, whole.for_output[:, :1])):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.max(np.abs(expected)))
