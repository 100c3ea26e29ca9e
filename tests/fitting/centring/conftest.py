"""Small problems with columns far from zero, and the energy of a fit with every mask written out."""

import itertools

import numpy as np
import pytest

CENTRE = np.array([12.0, -40.0, 0.0])


@pytest.fixture(scope="session")
def far():
    """X (60, 3): a positive column, a negative one and one about zero; labels (60,) of 0 and 1."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 3)) * np.array([1.5, 4.0, 1.0]) + CENTRE
    logits = (X - CENTRE) @ np.array([1.0, -0.4, 0.8])
    return X, (rng.random(60) < 1 / (1 + np.exp(-logits))).astype(int)


def all_masks(p):
    return np.array(list(itertools.product((0.0, 1.0), repeat=p)))


def scores_of_masks(X, weight, intercept, centre, rate):
    """Scores (n, 2^p) of rows of which dropped entries become ``centre``, and the masks' chances (2^p,)."""
    masks = all_masks(X.shape[1])
    rows = np.where(masks[None] == 1, X[:, None, :], centre)
    return rows @ weight + intercept, np.prod(np.where(masks == 1, 1 - rate, rate), axis=1)


@pytest.fixture(scope="session")
def enumerated():
    return scores_of_masks
