r"""Project draws on some columns: find the submodel without noise whose predictions are nearest to those of each draw.

The Kullback–Leibler divergence from the predictions of a draw to those of a submodel with weights ``v`` is, up to a
constant, the loss of the submodel averaged over the responses that the draw expects,

    Σ_i E[loss(y_i, c + v'x_i + o_i) | w, b, η] + ½ ridge |v|²,

so a projection is a fit to *expected* responses ``μ_i = E(y_i | w, b, η)``, over the noise of the draw, instead of
observed ones (Piironen, Paasiniemi & Vehtari 2020, section 3). For two classes the average is over
the two values of the loss; any other loss must be linear in ``y``, up to terms without the score, and is then evaluated
at ``μ_i``. Columns are standardised, and the ridge on standardised weights is small: it keeps the weights finite where
the expected responses are nearly separated, and where columns are collinear.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import diags_array, issparse

from ..._typing import Float, Int
from ...losses.base import Scores
from ...losses.protocols import Curved, require
from ..draws.draws import blocks

__all__ = ["RULES", "Columns", "ExpectedLoss", "Rules", "Submodel"]


@dataclass(frozen=True)
class Rules:
    """Settings of projections.

    Attributes
    ----------
    ridge : float
        Penalty of a standardised weight, per row: small compared with a curvature ``p(1 − p)`` of 0.09 or more.
    tolerance : float
        Predicted decrease of the loss per row at which a fit ends.
    steps : int
        Maximum number of Newton steps of a fit, and of halvings of a step.
    refits : int
        Number of terms with the largest estimated gains that the search fits in each step.
    """

    ridge: float = 1e-6
    tolerance: float = 1e-10
    steps: int = 50
    refits: int = 5


RULES = Rules()


@dataclass(frozen=True)
class ExpectedLoss:
    """A loss averaged over responses with known means: probabilities of the positive class, or numbers.

    Examples
    --------
    >>> from bayesdrop.losses import Logistic
    >>> slope, curvature = ExpectedLoss(Logistic()).derivatives(np.array([0.75]), np.array([0.0]))
    >>> slope.tolist(), curvature.tolist()  # σ(s) − μ and σ(s)σ(−s)
    ([-0.25], [0.25])
    """

    loss: Any

    def value(self, mean: Scores, score: Scores) -> Scores:
        """Averaged loss, up to terms without the score."""
        loss, none = self.loss.plain, np.zeros_like(score)
        if not loss.binary:
            return np.asarray(loss.value(mean, score, none))
        one = np.ones_like(score)
        return np.asarray(mean * loss.value(one, score, none) + (1 - mean) * loss.value(-one, score, none))

    def derivatives(self, mean: Scores, score: Scores) -> tuple[Scores, Scores]:
        """First and second derivative of the averaged loss in the score."""
        loss, none = require(self.loss.plain, Curved, "bd.project", "take a smooth loss"), np.zeros_like(score)
        if not loss.binary:
            expected = loss.derivatives(mean, score, none)
            return np.asarray(expected.mean), np.asarray(expected.mean_mean)
        one = np.ones_like(score)
        up, down = loss.derivatives(one, score, none), loss.derivatives(-one, score, none)
        slope = mean * up.mean + (1 - mean) * down.mean
        return slope, mean * up.mean_mean + (1 - mean) * down.mean_mean

    def check(self, mean: Float[np.ndarray, " n"]) -> None:
        """Raise ValueError unless the average depends on the expected response only."""
        loss = require(self.loss.plain, Curved, "bd.project", "take a smooth loss")
        if loss.binary:
            return
        score = np.asarray(loss.first_score(mean))
        first, second, third = (loss.derivatives(mean + step, score, 0 * mean).mean for step in (0.0, 1.0, 2.0))
        bend = np.max(np.abs(first - 2 * second + third), initial=0.0)
        if bend > 1e-6 * np.max(np.abs(third - first), initial=1e-300):
            raise ValueError(
                f"loss: bd.project needs a loss that is linear in the response, as those of exponential families are, "
                f"and {self.loss!r} is not; compare submodels by bd.loo, each sampled by itself."
            )


@dataclass(frozen=True)
class Columns:
    """Standardised columns of the features, from which submodels select.

    Attributes
    ----------
    matrix : array or scipy sparse csc (n, p)
        Features divided by their scale; centred if they are dense and there is an intercept.
    centre, scale : array (p,)
        Centres and scales of the features.
    has_intercept : bool
        Whether a submodel has an intercept.
    """

    matrix: Any
    centre: Float[np.ndarray, " p"]
    scale: Float[np.ndarray, " p"]
    has_intercept: bool

    @classmethod
    def of(cls, X: Any, has_intercept: bool) -> Columns:
        """Standardise features; sparse features are not centred, and a constant column keeps its scale."""
        if issparse(X):
            X = X.tocsc().astype(np.float64)
            centre, scale = np.zeros(X.shape[1]), np.sqrt(np.asarray(X.multiply(X).mean(axis=0)).ravel())
            scale = np.where(scale > 0, scale, 1.0)
            return cls((X @ diags_array(1 / scale)).tocsc(), centre, scale, has_intercept)
        X = np.asarray(X, dtype=np.float64)
        centre = X.mean(axis=0) if has_intercept else np.zeros(X.shape[1])
        scale = np.sqrt(np.mean((X - centre) ** 2, axis=0))
        scale = np.where(scale > 1e-12 * np.abs(centre), scale, 1.0)
        return cls((X - centre) / scale, centre, scale, has_intercept)

    def rows(self, numbers: Int[np.ndarray, " m"]) -> Columns:
        """Columns of the rows ``numbers``."""
        return Columns(self.matrix[numbers], self.centre, self.scale, self.has_intercept)

    def take(self, columns: list[int]) -> Float[np.ndarray, "n k"]:
        """Some columns, after a column of ones if there is an intercept."""
        block = self.matrix[:, columns]
        block = block.toarray() if hasattr(block, "toarray") else block
        return np.hstack([np.ones((len(block), 1)), block]) if self.has_intercept else block

    def original(
        self, columns: list[int], weight: Float[np.ndarray, "S k"]
    ) -> tuple[Float[np.ndarray, "S p"], Float[np.ndarray, " S"]]:
        """Weights of all features, 0 for excluded ones, and intercepts, on the scale of the features."""
        whole, first = np.zeros((len(weight), len(self.scale))), int(self.has_intercept)
        whole[:, columns] = weight[:, first:] / self.scale[columns]
        intercept = weight[:, 0] if self.has_intercept else np.zeros(len(weight))
        return whole, intercept - whole @ self.centre


@dataclass(frozen=True)
class Submodel:
    """The problem of projecting draws: their expected responses of some rows, and the columns of these rows.

    Attributes
    ----------
    loss : ExpectedLoss
        The loss of the model.
    columns : Columns (n, p)
        Features.
    mean : array (n, S)
        Expected responses of each row under each draw.
    offset : array (n,)
        Known part of each row's score.
    """

    loss: ExpectedLoss
    columns: Columns
    mean: Float[np.ndarray, "n S"]
    offset: Float[np.ndarray, " n"]

    def penalty(self, width: int) -> Float[np.ndarray, " k"]:
        """Ridge of each of the ``width`` coefficients; 0 for the intercept."""
        penalties = np.full(width, RULES.ridge * len(self.mean))
        if self.columns.has_intercept:
            penalties[0] = 0.0
        return penalties

    def score(self, matrix: Float[np.ndarray, "n k"], weight: Float[np.ndarray, "S k"]) -> Float[np.ndarray, "n S"]:
        """Scores of all rows for coefficients of each draw."""
        return matrix @ weight.T + self.offset[:, None]

    def energies(self, matrix: Float[np.ndarray, "n k"], weight: Float[np.ndarray, "S k"]) -> Float[np.ndarray, " S"]:
        """Energy that a projection minimises, for coefficients of each draw."""
        loss = self.loss.value(self.mean, self.score(matrix, weight)).sum(axis=0)
        return np.asarray(loss + 0.5 * weight**2 @ self.penalty(matrix.shape[1]))

    def project(
        self, columns: list[int], start: Float[np.ndarray, "S j"] | None = None
    ) -> tuple[Float[np.ndarray, "S k"], Float[np.ndarray, " S"]]:
        """Coefficients of each draw on some columns, the intercept first, and their energies.

        Newton's method for all draws at once, a step halved until the energy of its draw falls. ``start`` has
        coefficients of the first columns; the others begin at 0.
        """
        matrix = self.columns.take(columns)
        width, draws = matrix.shape[1], self.mean.shape[1]
        weight, penalty = np.zeros((draws, width)), self.penalty(width)
        if start is not None:
            weight[:, : start.shape[1]] = start
        energy = self.energies(matrix, weight)
        for number in range(RULES.steps):
            slope, curvature = self.loss.derivatives(self.mean, self.score(matrix, weight))
            gradient = slope.T @ matrix + penalty * weight
            hessian = weighted_grams(matrix, curvature) + np.diag(penalty)
            step = -np.linalg.solve(hessian, gradient[..., None])[..., 0]
            fall = -np.einsum("sk,sk->s", gradient, step)
            # A quadratic loss is in units of the squared response, and its first step is exact.
            if number and np.max(fall, initial=0.0) <= RULES.tolerance * len(matrix):
                break
            length = np.ones(draws)
            for _ in range(RULES.steps):
                tried = weight + length[:, None] * step
                tried_energy = self.energies(matrix, tried)
                if not np.any(rose := ~(tried_energy <= energy - 1e-4 * length * fall)):
                    break
                length[rose] /= 2
            better = tried_energy <= energy
            weight[better], energy = tried[better], np.where(better, tried_energy, energy)
            if not np.any(better & (fall > RULES.tolerance * len(matrix))):
                break
        return weight, energy


def weighted_grams(matrix: Float[np.ndarray, "n k"], weights: Float[np.ndarray, "n S"]) -> Float[np.ndarray, "S k k"]:
    """``Z' diag(ω_s) Z`` for each column of weights, as one product with the pairs of columns.

    Examples
    --------
    >>> weighted_grams(np.array([[1.0], [2.0]]), np.array([[1.0, 0.0], [1.0, 1.0]])).ravel().tolist()
    [5.0, 4.0]
    """
    n, k = matrix.shape
    first, second = np.triu_indices(k)
    upper = np.zeros((weights.shape[1], len(first)))
    for rows in blocks(n, len(first)):
        upper += weights[rows].T @ (matrix[rows][:, first] * matrix[rows][:, second])
    grams = np.empty((len(upper), k, k))
    grams[:, first, second] = grams[:, second, first] = upper
    return grams
