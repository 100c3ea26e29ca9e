r"""Choose coordinates in which the energy of a hidden layer has about equal curvature in all directions, for L-BFGS.

The curvature of a layer is approximated by a Kronecker product (Martens & Grosse 2015, section 3), with ``r`` the slope
of the loss in the scores and ``t_k = (σ'_k)² Σ_m W_km² r_m²``:

    in α_k:  t̄_k A + P,   A = Σ_i s_i E x̃x̃ᵀ        in W_m:  r̄²_m H + I,   H = Σ_i s_i hhᵀ

where a bar is a mean over the rows and both ``x̃`` and ``h`` end with a 1. Without these coordinates quasi-Newton
methods need very many steps for correlated inputs.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from ..._typing import Float
from ..objective.energy import LatentEnergy, Parameters, principal_axes

__all__ = ["Axes", "Whitening"]


class Axes:
    """The weights themselves as coordinates."""

    def __init__(self, parameters: Parameters) -> None:
        self._like = parameters

    def weights(self, flat: Float[np.ndarray, " D"]) -> Parameters:
        """Weights at the given coordinates."""
        return self._like.like(flat)

    def slope(self, gradient: Parameters) -> Float[np.ndarray, " D"]:
        """Slope in the coordinates, given the slope in the weights."""
        return gradient.flatten()

    def coordinates(self, parameters: Parameters) -> Float[np.ndarray, " D"]:
        """Coordinates of given weights."""
        return parameters.flatten()


class Whitening(Axes):
    """Map from these coordinates to weights, with the curvature at given weights.

    Parameters
    ----------
    energy : LatentEnergy
        Energy to minimise.
    parameters : Parameters
        Weights at which the curvature is taken.
    """

    def __init__(self, energy: LatentEnergy, parameters: Parameters) -> None:
        super().__init__(parameters)
        weight = parameters.output[:-1]
        (K, M), total = weight.shape, energy.row_weight
        for_units, for_scores, second = np.zeros(K), np.zeros(M), np.zeros((K + 1, K + 1))
        for block in energy.blocks:
            unit = expit(energy.moments_of(block).mean(parameters.hidden))
            _, slope, _ = energy.criterion(block.target, unit @ weight + parameters.output[-1], None)
            square = block.weight[:, None] * slope**2
            for_units += np.sum((unit * (1 - unit)) ** 2 * (square @ (weight**2).T), axis=0)
            for_scores += square.sum(axis=0)
            extended = np.concatenate([unit, np.ones((len(unit), 1))], axis=1)
            second += (extended * block.weight[:, None]).T @ extended
        values, self._inputs = energy.input_axes
        self._scale = self._inverse_roots(values, for_units / total)
        values, self._units = principal_axes(second, energy.fit_intercept)
        self._output_scale = self._inverse_roots(values, for_scores / total)
        precision = np.append(energy.precision, 1.0)
        self._prior = np.where(precision > 0, precision, 1.0)[:, None] ** -0.5

    @staticmethod
    def _inverse_roots(values: Float[np.ndarray, " q"], mean: Float[np.ndarray, " K"]) -> Float[np.ndarray, "q K"]:
        return (np.maximum(values, 0.0)[:, None] * mean + 1) ** -0.5

    def weights(self, flat: Float[np.ndarray, " D"]) -> Parameters:
        """Weights at the given coordinates."""
        at = self._like.like(flat)
        return Parameters(
            self._prior * (self._inputs @ (self._scale * at.hidden)), self._units @ (self._output_scale * at.output)
        )

    def slope(self, gradient: Parameters) -> Float[np.ndarray, " D"]:
        """Slope in the coordinates, given the slope in the weights."""
        return Parameters(
            self._scale * (self._inputs.T @ (self._prior * gradient.hidden)),
            self._output_scale * (self._units.T @ gradient.output),
        ).flatten()

    def coordinates(self, parameters: Parameters) -> Float[np.ndarray, " D"]:
        """Coordinates of given weights."""
        return Parameters(
            (self._inputs.T @ (parameters.hidden / self._prior)) / self._scale,
            (self._units.T @ parameters.output) / self._output_scale,
        ).flatten()
