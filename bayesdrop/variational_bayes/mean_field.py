r"""Compute the mean field of the feature-noising model for :mod:`.fitting`: its bound, and exact coordinate updates.

    q(w, b) = N(μ, Σ),   q(α_id) = Bernoulli(ρ_id) where x_id ≠ 0,   q(η_j),   q(λ) profiled out.

With ``z_id = x_id ρ_id`` and ``S = Σ + μμᵀ`` the score ``ψ_i = b + Σ_d w_d x_id α_id`` has the moments

    m_i = o_i + μ_b + z_iᵀμ,      v_i = (z_i, 1)ᵀ Σ (z_i, 1) + Σ_d x_id² ρ_id (1 − ρ_id) S_dd.

Given these, the best ``q(λ)`` of the augmentations of Polson & Scott (2011, theorem 1) and of Polson, Scott & Windle
(2013, theorem 1) leaves exactly ``−C φ(y_i, m_i, v_i)`` of the expected log-likelihood, ``φ`` being the augmentation
bound. So the evidence lower bound (ELBO) is

    Σ_i s_i [−C φ(y_i, m_i, v_i) − KL(q(α_i) ‖ p(α_i | η))] − KL(q(w, b) ‖ p) − Σ_j KL(q(η_j) ‖ p(η_j)),

the average of the second term taken over ``q(η)``, and the flat intercept entering by its entropy. A row weight
``s_i`` is a power of ``p(y_i | w, η)``, masks summed out: a row of weight 2 is that row twice.

Updates (Jaakkola & Jordan 2000; Bishop 2006, section 10.2), with ``(ω, κ)`` the loss's expected pseudo-observation:

    q(w, b)   precision P + E Zᵀ diag(sω) Z, mean from Zᵀ{s(κ − ωo)};  factorised: the same mean, variances 1/diagonal
    q(α_id)   logit ρ_id = E log(1 − η) − E log η + x_id {κ_i μ_d − ω_i (½ x_id S_dd + E[w_d ψ_i without d])}
    q(η_j)    ∝ p(η_j) η_j^d (1 − η_j)^k,  d = Σ s_i (1 − ρ_id), k = Σ s_i ρ_id;  Beta(A + d, B + k) of Beta(A, B)

Masks of different rows are conditionally independent, so that a sweep may update a column at a time (full covariance),
or the k-th entry of every row at a time (factorised), with the same result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from scipy import linalg, sparse, special
from scipy.sparse import linalg as iterative

from .._typing import Float, Int
from ..losses.protocols import Augmented
from .mask_entries import Entries

__all__ = ["MeanField", "Problem"]

PerEntry: TypeAlias = Float[np.ndarray, " N"]
PerRow: TypeAlias = Float[np.ndarray, " n"]
PerFeature: TypeAlias = Float[np.ndarray, " p"]
PerWeight: TypeAlias = Float[np.ndarray, " D"]


@dataclass(frozen=True)
class Rules:
    """Sizes and accuracies of the updates.

    Attributes
    ----------
    block : int
        Columns for which ``ZΣ`` is held at a time.
    accuracy, steps : float, int
        Relative residual and maximum number of conjugate-gradient steps; any number of steps raises the bound.
    extreme : float
        Log-odds beyond which a mask counts as certain.
    """

    block: int = 32
    accuracy: float = 1e-10
    steps: int = 200
    extreme: float = 30.0


RULES = Rules()


@dataclass(frozen=True)
class Problem:
    """Data, loss and priors of the model.

    Attributes
    ----------
    entries : Entries
        The matrix.
    target, weight : array (n,)
        Labels −1 and +1 or numbers, and row weights above 0.
    loss : Loss
        A loss in its augmentation form.
    C : float
        Weight of the loss.
    precision, location : array (p,)
        Prior precision and mean of the weights.
    fit_intercept, diagonal : bool
        Whether there is an intercept; whether ``q(w, b)`` is fully factorised.
    index : int array (p,)
        Free rate of each feature.
    n_rates : int
        Number ``k`` of free rates; 0 if the rates are fixed.
    rate_prior : BetaLaw of shape (k,)
        Prior of the free rates.
    fixed_rate : array (p,)
        The rates, if they are fixed.
    offset : array (n,) or float
        Known part ``o`` of the scores.
    """

    entries: Entries
    target: PerRow
    weight: PerRow
    loss: Augmented
    C: float
    precision: PerFeature
    location: PerFeature
    fit_intercept: bool
    diagonal: bool
    index: Int[np.ndarray, " p"]
    n_rates: int
    rate_prior: Any
    fixed_rate: PerFeature
    offset: Any = 0.0

    @property
    def is_free(self) -> bool:
        """True if there are rates to learn."""
        return self.n_rates > 0

    def counts(self, keep: PerEntry) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
        """Weighted number of dropped and of kept entries behind each free rate, two of (k,)."""
        entries, k = self.entries, self.n_rates
        rate, weight = self.index[entries.column], self.weight[entries.row]
        kept_count = np.bincount(rate, weights=weight * keep, minlength=k)
        dropped_count = np.bincount(rate, weights=weight * (1 - keep), minlength=k)
        return dropped_count, kept_count


@dataclass
class MeanField:
    """A point of the mean field, changed in place by its updates.

    Attributes
    ----------
    problem : Problem
        Data, loss and priors.
    mean : array (p + 1,)
        Means of the weights and, last, of the intercept (0 without one).
    covariance : array (p + 1, p + 1) or (p + 1,)
        Covariance, or variances where it is fully factorised.
    keep : array (N,)
        Probability ``ρ`` that an entry is kept.
    rates : BetaLaw of shape (k,)
        Law of the free rates.
    """

    problem: Problem
    mean: PerWeight
    covariance: Float[np.ndarray, "D D"] | PerWeight
    keep: PerEntry
    rates: Any
    # Pseudo-observations (n,); a number before the first update, hence Any.
    omega: Any = 0.0
    kappa: Any = 0.0

    def copy(self) -> MeanField:
        """Copy of this point; updates change no array in place but ``keep``."""
        return replace(self, keep=self.keep.copy())

    def iterate(self) -> None:
        """Update every coordinate once; the bound never falls."""
        self.update_auxiliary()
        self.update_weights()
        self.update_auxiliary()
        self.update_masks()
        self.update_rates()

    def coordinates(self) -> tuple[Float[np.ndarray, " leading"], PerEntry]:
        """Free numbers without bounds: means of the weights and log-odds of the rates; log-odds of the masks."""
        return np.append(self.mean, self.rates.log_odds()), np.clip(
            special.logit(self.keep), -RULES.extreme, RULES.extreme
        )

    def move_to(self, leading: Float[np.ndarray, " leading"], masks: PerEntry) -> None:
        """Set the :meth:`coordinates`; the covariance and the strength of the rates do not change."""
        size = len(self.mean)
        self.mean, self.rates = leading[:size].copy(), self.rates.with_log_odds(leading[size:])
        if self.problem.is_free:
            self.keep = special.expit(masks)
        else:
            never = self.problem.fixed_rate[self.problem.entries.column] == 0
            self.keep = np.where(never, 1.0, special.expit(masks))

    @property
    def variance(self) -> PerWeight:
        """Variances of weights and intercept, (p + 1,)."""
        return self.covariance if self.problem.diagonal else np.diag(self.covariance)

    def expected(self) -> PerEntry:
        """``z = xρ`` on the entries."""
        return self.problem.entries.value * self.keep

    def score_mean(self) -> PerRow:
        """``m``, (n,)."""
        linear = self.problem.entries.row_sums(self.expected(), self.mean[:-1]) + self.mean[-1]
        return linear + self.problem.offset

    def moments(self) -> tuple[PerRow, PerRow]:
        """Mean and variance of the scores, (n,) each."""
        entries = self.problem.entries
        z, second = self.expected(), self.variance + self.mean**2
        spread = entries.value * z * (1 - self.keep)
        if self.problem.diagonal:
            var = entries.row_sums(spread, second[:-1]) + entries.row_sums(z * z, self.variance[:-1])
        else:
            var = entries.row_sums(spread, second[:-1]) + 2 * entries.row_sums(z, self.covariance[:-1, -1])
            matrix = entries.matrix(z)
            for start in range(0, entries.shape[1], RULES.block):
                block = matrix @ self.covariance[:-1, start : min(start + RULES.block, entries.shape[1])]
                stop = start + block.shape[1]
                part = slice(entries.ends[start], entries.ends[stop])
                row = entries.row[part]
                crossed = z[part] * block[row, entries.column[part] - start]
                var += np.bincount(row, weights=crossed, minlength=entries.shape[0])
        # By rounding a variance near 0 may be negative.
        return self.score_mean(), np.maximum(var + self.variance[-1], 0.0)

    def log_odds(self) -> tuple[PerFeature, PerFeature]:
        """``E log(1 − η)`` and ``E log η`` of each feature, (p,) each."""
        problem = self.problem
        if not problem.is_free:
            with np.errstate(divide="ignore"):
                return np.log1p(-problem.fixed_rate), np.log(problem.fixed_rate)
        log_drop, log_keep = self.rates.expected_logs()
        return log_keep[problem.index], log_drop[problem.index]

    def elbo(self) -> float:
        """The evidence lower bound."""
        problem = self.problem
        return float(
            -problem.C * (problem.weight @ problem.loss.value(problem.target, *self.moments()))
            + self._mask_term()
            + self._weight_term()
            + self._rate_term()
        )

    def _mask_term(self) -> float:
        """``E log p(α | η) + H(q(α))``; an entry that is never dropped has none."""
        entries = self.problem.entries
        log_keep, log_drop = self.log_odds()
        drop = 1 - self.keep
        chance = np.where(drop > 0, log_drop[entries.column], 0.0)
        terms = self.keep * log_keep[entries.column] + drop * chance + special.entr(self.keep) + special.entr(drop)
        return float(self.problem.weight[entries.row] @ terms)

    def _weight_term(self) -> float:
        """``E log p(w) + H(q(w, b))``."""
        problem = self.problem
        size = len(problem.precision)
        second = self.variance[:size] + (self.mean[:size] - problem.location) ** 2
        free = size + 1 if problem.fit_intercept else size
        if problem.diagonal:
            volume = np.sum(np.log(self.covariance[:free]))
        else:
            volume = 2 * np.sum(np.log(np.diag(linalg.cholesky(self._scaled()[:free, :free], lower=True))))
            volume += np.sum(np.log(self.variance[:free]))
        prior = np.sum(np.log(problem.precision)) - size * np.log(2 * np.pi) - problem.precision @ second
        return float(0.5 * (prior + volume + free * (1 + np.log(2 * np.pi))))

    def _scaled(self) -> Float[np.ndarray, "D D"]:
        """Correlations of weights and intercept, whose determinant is accurate for features on different scales."""
        root = np.sqrt(np.where(self.variance > 0, self.variance, 1.0))
        return self.covariance / root[:, None] / root

    def _rate_term(self) -> float:
        """``−KL(q(η) ‖ p(η))``."""
        if not self.problem.is_free:
            return 0.0
        return -float(np.sum(self.rates.divergence(self.problem.rate_prior)))

    def update_auxiliary(self) -> None:
        """Profile ``q(λ)``: the pseudo-observation ``(ω, κ)`` of a row of weight 1."""
        problem = self.problem
        self.omega, self.kappa = problem.loss.pseudo(problem.target, *self.moments(), problem.C)

    def update_weights(self) -> None:
        """Best ``q(w, b)`` given the rest; if it is factorised, means jointly and all variances."""
        problem, entries = self.problem, self.problem.entries
        z = self.expected()
        omega = problem.weight * self.omega
        kappa = problem.weight * self.kappa - omega * problem.offset
        separate = problem.precision + entries.column_sums(entries.value * z * (1 - self.keep), omega)
        right = np.append(entries.column_sums(z, kappa) + problem.precision * problem.location, np.sum(kappa))
        size = len(right) if problem.fit_intercept else len(right) - 1
        if problem.diagonal:
            diagonal = np.append(separate + entries.column_sums(z * z, omega), np.sum(omega))
            variance = np.zeros_like(diagonal)
            variance[:size] = 1 / diagonal[:size]
            self.mean, self.covariance = self._solve_means(z, omega, separate, right, size, variance), variance
            return
        precision = np.zeros((len(right), len(right)))
        precision[:-1, :-1] = entries.gram(z, omega)
        precision[np.arange(len(separate)), np.arange(len(separate))] += separate
        precision[:-1, -1] = precision[-1, :-1] = entries.column_sums(z, omega)
        precision[-1, -1] = np.sum(omega)
        # A unit diagonal keeps the inverse accurate for features on different scales.
        root = np.sqrt(np.diag(precision)[:size])
        scaled = precision[:size, :size] / root[:, None] / root
        inverse = linalg.cho_solve(linalg.cho_factor(scaled, lower=True), np.eye(size)) / root[:, None] / root
        covariance, mean = np.zeros_like(precision), np.zeros_like(right)
        covariance[:size, :size] = 0.5 * (inverse + inverse.T)
        mean[:size] = covariance[:size, :size] @ right[:size]
        self.mean, self.covariance = mean, covariance

    def _solve_means(
        self, z: PerEntry, omega: PerRow, separate: PerFeature, right: PerWeight, size: int, variance: PerWeight
    ) -> PerWeight:
        """Solve for the means by conjugate gradients from the current means, so that every step raises the bound."""
        entries = self.problem.entries
        csr = sparse.csr_array((z, (entries.row, entries.column)), shape=entries.shape)
        back = sparse.csr_array(csr.T)

        def product(u: Float[np.ndarray, " free"]) -> Float[np.ndarray, " free"]:
            u = np.append(u, np.zeros(len(right) - size))
            r = omega * (csr @ u[:-1] + u[-1])
            return np.append(back @ r + separate * u[:-1], np.sum(r))[:size]

        operator = iterative.LinearOperator((size, size), matvec=product, dtype=np.float64)
        shrink = iterative.LinearOperator((size, size), matvec=lambda u: variance[:size] * u, dtype=np.float64)
        start = self.mean[:size]
        solution, _ = iterative.cg(
            operator, right[:size], x0=start, rtol=RULES.accuracy, atol=0.0, maxiter=RULES.steps, M=shrink
        )
        return np.append(solution, np.zeros(len(right) - size))

    def update_masks(self) -> None:
        """One sweep: every mask in turn, exactly given all the others."""
        problem, entries = self.problem, self.problem.entries
        if not problem.is_free and not np.any(problem.fixed_rate):
            return
        log_keep, log_drop = self.log_odds()
        prior = log_keep - log_drop
        mean, variance = self.mean, self.variance
        second = variance + mean**2
        current = self.score_mean()
        column, row, value = entries.column, entries.row, entries.value
        # The constant part of the log-odds, and the factor of the current mean of the score.
        slope = value * mean[column]
        fixed = prior[column] + slope * self.kappa[row] - 0.5 * self.omega[row] * value**2 * second[column]
        if problem.diagonal:
            self._sweep(current, slope, fixed)
        else:
            self._sweep_columns(current, slope, fixed)

    def _sweep(self, current: PerRow, slope: PerEntry, fixed: PerEntry) -> None:
        """Sweep for factorised weights, where the masks of a row interact through the mean of its score alone."""
        entries, keep = self.problem.entries, self.keep
        for start, stop in zip(entries.ends[:-1], entries.ends[1:], strict=True):
            part = slice(start, stop)
            row, step, old = entries.row[part], slope[part], keep[part]
            without = current[row] - step * old
            new = special.expit(fixed[part] - self.omega[row] * step * without)
            current[row] = without + step * new
            keep[part] = new

    def _sweep_columns(self, current: PerRow, slope: PerEntry, fixed: PerEntry) -> None:
        """Sweep for a full covariance, with ``ZΣ`` for a block of columns at a time, updated within the block."""
        entries, keep = self.problem.entries, self.keep
        p = entries.shape[1]
        weights, cross = self.covariance[:-1, :-1], self.covariance[:-1, -1]
        matrix = entries.matrix(self.expected())
        for first in range(0, p, RULES.block):
            last = min(first + RULES.block, p)
            spread = matrix @ weights[:, first:last]
            for d in range(first, last):
                part = slice(entries.ends[d], entries.ends[d + 1])
                row, value, step, old = entries.row[part], entries.value[part], slope[part], keep[part]
                if not len(row):
                    continue
                without = current[row] - step * old
                tied = spread[row, d - first] - value * old * weights[d, d] + cross[d]
                new = special.expit(fixed[part] - self.omega[row] * (step * without + value * tied))
                current[row] = without + step * new
                if d + 1 < last:
                    change = value * (new - old)
                    spread[row, d + 1 - first :] += change[:, None] * weights[d, d + 1 : last]
                keep[part] = new
                matrix.data[part] = value * new

    def update_rates(self) -> None:
        """Best ``q(η)`` given the masks."""
        if self.problem.is_free:
            dropped_count, kept_count = self.problem.counts(self.keep)
            self.rates = self.problem.rate_prior.given(dropped_count, dropped_count + kept_count)
