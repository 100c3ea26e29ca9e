r"""Compute expected responses of the draws of a posterior, and project the draws on some columns.

For a Gaussian prediction the projection also has a variance: that of the draw plus its noise plus the mean squared
distance of the scores of the submodel from those of the draw,

    σ⊥² = σ² + (1/n) Σ_i {v_i + (m_i − s_i)²}.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from ..._typing import Float, Int, PerRow
from ...designs import as_design
from ...noise import Dropout
from ...priors import Normal
from ...rates import Fixed
from ..draws.draws import Draws
from ..draws.new_rows import centred_matrix
from ..noise_average.expectation import expected_response
from ..scores.pointwise import row_log_likelihoods
from .submodel import Columns, ExpectedLoss, Submodel

__all__ = ["Reference"]


@dataclass(frozen=True)
class Reference:
    """Draws with their expected responses of some rows, and the observed responses.

    Attributes
    ----------
    draws : Draws
        ``S`` draws of the model.
    matrix : array or scipy sparse (n, p)
        Features, not centred.
    target : array (n,)
        Responses.
    submodel : Submodel
        The problem of projecting the draws, for all rows.
    variance : array (n, S) or None
        Variances of the responses about the expected ones, if the variance is learnt.
    logs : array (n, S)
        Log-likelihood of each row and draw, averaged over the noise.
    """

    draws: Draws
    matrix: Any
    target: PerRow
    submodel: Submodel
    variance: Float[np.ndarray, "n S"] | None
    logs: Float[np.ndarray, "n S"]

    @classmethod
    def of(cls, draws: Draws, design: Any, target: PerRow, offset: Float[np.ndarray, " n"] | None) -> Reference:
        """Compute the expected responses of rows (n, p) with responses and offsets (n,)."""
        loss, centred, n = ExpectedLoss(draws.model.loss), centred_matrix(design, draws.model), design.shape[0]
        mean = expected_response(draws, centred, offset=offset)
        loss.check(mean[:, 0])
        variance = None
        if draws.model.loss.quadratic and draws.parameter is not None:
            _, noise = draws.moments(as_design(centred), slice(0, draws.size))
            variance = noise + 1 / draws.C
        offsets = np.zeros(n) if offset is None else np.asarray(offset, dtype=np.float64)
        matrix = design.matrix()
        submodel = Submodel(loss, Columns.of(matrix, draws.model.fit_intercept), mean, offsets)
        logs = row_log_likelihoods(draws, centred, target, np.ones(n), offset).T
        return cls(draws, matrix, target, submodel, variance, logs)

    def rows(self, rows: Int[np.ndarray, " m"]) -> Submodel:
        """The problem of projecting the draws, for some rows."""
        whole = self.submodel
        return Submodel(whole.loss, whole.columns.rows(rows), whole.mean[rows], whole.offset[rows])

    def projected(self, columns: list[int], rows: Int[np.ndarray, " m"]) -> Draws:
        """Each draw, projected on some columns by its predictions of some rows."""
        problem = self.rows(rows)
        coefficients, _ = problem.project(columns)
        weight, intercept = problem.columns.original(columns, coefficients)
        C = self.draws.C
        if self.variance is not None:
            score = problem.score(problem.columns.take(columns), coefficients)
            C = 1 / np.mean(self.variance[rows] + (problem.mean - score) ** 2, axis=0)
        model = replace(
            self.draws.model, noise=Dropout(), rates=Fixed(0.0), weight_prior=Normal(), intercept_prior=None
        )
        return replace(
            self.draws, model=model, weight=weight, intercept=intercept,
            free_rate=np.zeros((len(weight), 0)), index=np.zeros(weight.shape[1], dtype=int),
            fixed_rate=np.zeros(weight.shape[1]), C=C, weight_scale=None,
            parameter=self.draws.parameter if self.variance is None else C**-0.5,
        )  # fmt: skip

    def scores(
        self,
        columns: list[int],
        train: Int[np.ndarray, " m"],
        test: Int[np.ndarray, " k"],
        log_weight: Float[np.ndarray, "k S"],
    ) -> Float[np.ndarray, " k"]:
        """Log predictive density of the rows ``test`` from draws projected on the rows ``train``."""
        drawn, one = self.projected(columns, train), np.ones(len(test))
        offset = self.submodel.offset[test]
        logs = row_log_likelihoods(drawn, self.matrix[test], self.target[test], one, offset)
        return np.asarray(logsumexp(log_weight + logs.T, axis=1))
