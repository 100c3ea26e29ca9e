"""Simulated tables: a recipe each, whose first line says what it draws. Weights and rows are new in every split."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

__all__ = ["RECIPES", "TEST_ROWS", "Recipe"]

TEST_ROWS = 1000
"""Test rows of each split of each recipe."""

Rows = tuple[np.ndarray, np.ndarray]
Draw = Callable[[np.random.Generator, int], Rows]


@dataclass(frozen=True)
class Recipe:
    """A distribution of tables.

    Attributes
    ----------
    draw : callable
        Weights anew and so many rows: features (n, p) and classes (n,), 0 to K − 1.
    rows : int
        Training rows.
    columns : int
        Columns, p.
    classes : int
        Classes, K.
    """

    draw: Draw
    rows: int
    columns: int
    classes: int = 2

    @property
    def label(self) -> str:
        """First line of the function that draws."""
        return (self.draw.__doc__ or "").split("\n")[0].rstrip(".")

    def split(self, number: int) -> tuple[Rows, Rows]:
        """Training and test rows of a split, the same every time; two splits share nothing but the recipe."""
        X, y = self.draw(np.random.default_rng(number), self.rows + TEST_ROWS)
        return (X[: self.rows], y[: self.rows]), (X[self.rows :], y[self.rows :])


def _labels(rng: np.random.Generator, score: np.ndarray, share: float = 0.5) -> np.ndarray:
    """Classes of a logistic model, whose intercept gives class 1 its share."""
    shift = brentq(lambda shift: expit(score + shift).mean() - share, -100, 100)
    return (rng.random(len(score)) < expit(score + shift)).astype(int)


def _correlated(rng: np.random.Generator, n: int) -> Rows:
    """Neighbouring columns correlated by 0.9.

    A quarter of them have effects.
    """
    noise = rng.normal(size=(n, 40))
    X = np.empty_like(noise)
    X[:, 0] = noise[:, 0]
    for j in range(1, 40):
        X[:, j] = 0.9 * X[:, j - 1] + np.sqrt(1 - 0.9**2) * noise[:, j]
    return X, _labels(rng, X @ np.where(rng.random(40) < 0.25, rng.normal(size=40), 0.0))


def _factors(rng: np.random.Generator, n: int) -> Rows:
    """More columns than rows, from five factors.

    The factors decide the class.
    """
    factors = rng.normal(size=(n, 5))
    X = factors @ rng.normal(size=(5, 300)) + 2 * rng.normal(size=(n, 300))
    return X, _labels(rng, factors @ rng.normal(size=5))


def _rare(rng: np.random.Generator, n: int) -> Rows:
    """A rare class, 5 % of the rows."""
    X = rng.normal(size=(n, 20))
    return X, _labels(rng, X @ rng.normal(scale=0.4, size=20), 0.05)


def _wide(rng: np.random.Generator, n: int) -> Rows:
    """More columns than rows, independent.

    One of ten has an effect.
    """
    X = rng.normal(size=(n, 400))
    return X, _labels(rng, X @ np.where(rng.random(400) < 0.1, rng.normal(scale=0.7, size=400), 0.0))


def _nothing(rng: np.random.Generator, n: int) -> Rows:
    """No signal at all."""
    return rng.normal(size=(n, 30)), rng.integers(0, 2, n)


def _indicators(rng: np.random.Generator, n: int) -> Rows:
    """Indicators only, each set in 2 to 20 % of the rows."""
    X = (rng.random((n, 60)) < rng.uniform(0.02, 0.2, 60)).astype(float)
    return X, _labels(rng, X @ rng.normal(size=60))


def _tails(rng: np.random.Generator, n: int) -> Rows:
    """Heavy tails, Student's t with two degrees of freedom.

    The signed roots of the entries have the effects.
    """
    X = rng.standard_t(2, size=(n, 20))
    return X, _labels(rng, (np.sign(X) * np.sqrt(np.abs(X))) @ rng.normal(scale=0.7, size=20))


def _few(rng: np.random.Generator, n: int) -> Rows:
    """Few rows, forty of ten columns."""
    X = rng.normal(size=(n, 10))
    return X, _labels(rng, X @ rng.normal(scale=0.7, size=10))


def _three(rng: np.random.Generator, n: int) -> Rows:
    """Three strong columns among a hundred."""
    X = rng.normal(size=(n, 100))
    return X, _labels(rng, X[:, :3] @ np.array([2.0, -2.0, 1.5]))


def _products(rng: np.random.Generator, n: int) -> Rows:
    """Products of columns decide, which no linear model sees."""
    X = rng.normal(size=(n, 15))
    return X, _labels(rng, X @ rng.normal(scale=0.3, size=15) + 2 * X[:, 0] * X[:, 1] + 2 * X[:, 2] * X[:, 3])


def _glass(rng: np.random.Generator, n: int) -> Rows:
    """Glass-like: six unequal classes, nine skewed columns."""
    y = rng.choice(6, size=n, p=[0.33, 0.36, 0.08, 0.06, 0.04, 0.13])
    return np.exp(0.5 * (rng.normal(size=(6, 9))[y] + rng.normal(size=(n, 9)))), y


def _soybeans(rng: np.random.Generator, n: int) -> Rows:
    """Soybean-like: fifteen classes, 35 categories as indicators."""
    y, columns = rng.integers(0, 15, n), []
    for levels in rng.choice([2, 3, 4], size=35):
        chance = rng.dirichlet(np.ones(levels), size=15)
        level = (rng.random(n)[:, None] > np.cumsum(chance, axis=1)[y, :-1]).sum(axis=1)
        columns.append(np.arange(4) == level[:, None])
    return np.hstack(columns).astype(float), y


RECIPES = {
    "correlated": Recipe(_correlated, 300, 40),
    "factors": Recipe(_factors, 100, 300),
    "rare": Recipe(_rare, 600, 20),
    "wide": Recipe(_wide, 120, 400),
    "nothing": Recipe(_nothing, 200, 30),
    "indicators": Recipe(_indicators, 400, 60),
    "tails": Recipe(_tails, 300, 20),
    "few": Recipe(_few, 40, 10),
    "three": Recipe(_three, 250, 100),
    "products": Recipe(_products, 400, 15),
    "glass-like": Recipe(_glass, 214, 9, 6),
    "soybean-like": Recipe(_soybeans, 300, 140, 15),
}
