"""Averages of many classes: the factor of the entries that are left, and rows apart from each other."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.losses.softmax import log_sum_exp
from bayesdrop.posterior.draws.draws import Draws
from bayesdrop.posterior.noise_average.class_chances import class_chances
from bayesdrop.posterior.noise_average.score_pairs import RULES, Pairs

K, P, RATE = 20, 8, 0.3


def _draws(p: int, generator: np.random.Generator, n_classes: int = K) -> Draws:
    weight = 0.5 * generator.normal(size=(2, n_classes, p))
    return Draws(
        model=bd.Model(bd.Softmax(), rates=bd.Fixed(RATE)), feature_names=[], weight=weight,
        intercept=generator.normal(size=(2, n_classes)), free_rate=np.zeros((2, 0)), index=np.arange(p),
        fixed_rate=np.full(p, RATE), C=np.ones(2), marginalised=False, classes=None, steps={},
    )  # fmt: skip


def test_chances_are_those_of_all_masks() -> None:
    generator = np.random.default_rng(0)
    draws, X = _draws(P, generator), generator.normal(size=(6, P))
    exact = np.zeros((len(X), 2, K))
    for mask in itertools.product((0.0, 1.0), repeat=P):
        kept = np.array(mask)
        chance = np.prod(np.where(kept == 1, 1 - RATE, RATE))
        scores = np.einsum("rp,skp->rsk", X * kept, draws.weight) + draws.intercept
        exact += chance * log_sum_exp(scores)[1]
    np.testing.assert_allclose(class_chances(draws, X, masks=2**P), exact, rtol=1e-11)
    for rows in (X, sparse.csr_array(X)):
        assert np.max(np.abs(class_chances(draws, rows, masks=1) - exact)) < RULES.error


def test_rows_do_not_depend_on_each_other() -> None:
    generator = np.random.default_rng(1)
    draws = _draws(30, generator, 40)
    X = generator.normal(size=(12, 30)) * (np.arange(30) < np.arange(12)[:, None] * 2.5)
    rows = sparse.csr_array(X)
    together = class_chances(draws, rows)
    alone = np.concatenate([class_chances(draws, rows[i : i + 1]) for i in range(12)])
    np.testing.assert_allclose(together, alone, rtol=1e-9)


def _first_pairs(draws: Draws, X: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> tuple[Pairs, int]:
    """The pairs of rows and draws whose factors are asked for first, and of how many entries."""
    seen, factors = [], Pairs.factors
    with monkeypatch.context() as patch:
        patch.setattr(Pairs, "factors", lambda pairs, J: seen.append((pairs, J)) or factors(pairs, J))
        class_chances(draws, X, masks=1)
    return seen[0]


def test_points_of_the_factor_have_its_covariance(monkeypatch: pytest.MonkeyPatch) -> None:
    """The logarithm of the exponentials at the points, less that of the last class, has the covariance that is left."""
    generator = np.random.default_rng(2)
    draws, X = _draws(P, generator), generator.normal(size=(3, P))
    pairs, J = _first_pairs(draws, X, monkeypatch)
    assert isinstance(pairs, Pairs)
    _, _, points = pairs.factors(J)
    found = points - points[:, -1:]
    variance = pairs.keep * (1 - pairs.keep)
    entries = (pairs.entries - pairs.entries[..., -1:])[:, J:]
    left = np.einsum("nj,njk,njl->nkl", variance[:, J:], entries, entries)
    np.testing.assert_allclose(found.mean(axis=2), 0, atol=1e-12)
    np.testing.assert_allclose(found @ np.swapaxes(found, 1, 2) / points.shape[2], left, atol=1e-10)


def test_a_row_of_huge_entries_changes_no_other() -> None:
    """Five classes; entries a billion times the others leave the last digits of no score to normal points."""
    generator = np.random.default_rng(3)
    X = generator.normal(size=(5, P))
    X[1] *= 10.0 ** np.array([9, 9, 9, 0, 0, 0, 0, 0])
    draws, others = _draws(P, generator, 5), [0, 2, 3, 4]
    alone = np.concatenate([class_chances(draws, X[i : i + 1], masks=1) for i in others])
    np.testing.assert_allclose(class_chances(draws, X, masks=1)[others], alone, rtol=1e-10, atol=1e-12)
