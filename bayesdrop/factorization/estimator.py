"""Matrix factorisation with dropout on its columns, as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import svd_flip
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from .._typing import Float
from .._validation import check_random_state, takes_random_state
from ..designs import in_memory
from ..estimators.validation import FLOATS, intact, match_rows
from ..linalg.systems import double_range, refuse_overflow
from ..warnings import warn
from .alternating import alternate, descend
from .entries import Complete, Entries, Observed, ridge
from .leading import leading
from .shrinkage import (
    adaptive_retain,
    check_observed,
    check_settings,
    equalise,
    minimum,
    nuclear_weight,
    shrink,
    widest,
)

__all__ = ["DropoutMatrixFactorization"]

_STEPS = {"deterministic": 1000, "stochastic": 10_000}
# Share of the largest singular value below which an iterative solver's value counts as zero.
_NEGLIGIBLE = 1e-3


class DropoutMatrixFactorization(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Low-rank factorisation ``X ≈ UVᵀ`` regularised by dropping columns of the factors.

    With a mask ``r`` that retains each of the ``d`` columns with probability ``θ`` it minimises the expected loss

        E‖X − θ⁻¹U diag(r)Vᵀ‖² = ‖X − UVᵀ‖² + λ Σ_k ‖u_k‖²‖v_k‖²,   λ = (1 − θ)/θ

    (Cavazza et al. 2018). With ``θ(d) = p/(d − (d−1)p)`` the optimum over all ``U``, ``V`` and ``d`` is that of
    ``‖X − A‖² + γ‖A‖*²`` with ``γ = (1 − p)/p``: singular values shrunk by one threshold, so that the rank is learnt.

    Missing entries are left out: both sums run over the observed entries ``Ω`` alone,

        Σ_Ω (x_ij − u_iᵀv_j)² + λ Σ_k Σ_Ω u_ik² v_jk²,

    which is the expected loss of the observed entries under the same masks.

    Parameters
    ----------
    n_components : int, optional
        Maximum number of components, up to min(n, p); by default as many as the penalty leaves (at most 50 for an
        iterative solver). With ``adaptive=False`` it is the width ``d`` of the factors, which then changes the penalty,
        is required, and may exceed min(n, p).
    retain : float, default=0.9
        Retain probability in (0, 1): ``p`` of ``θ(d)``, or ``θ`` itself if not ``adaptive``. The closer to 1, the
        weaker the penalty.
    adaptive : bool, default=True
        Whether ``θ = θ(d)``. If False, ``θ = retain`` at any width, and the penalty of a product falls as ``1/d``
        (Cavazza et al. 2018, remark 2).
    solver : str, default="closed_form"
        ``"closed_form"``: the global optimum from a truncated singular value decomposition; no entry may be missing. At
        a fixed ``θ`` it is the optimum with ``γ = λ/d`` and rank ``d`` at most
        (:mod:`bayesdrop.factorization.shrinkage`).
        ``"deterministic"``: alternating least squares on the expected loss. ``"stochastic"``: gradient steps with masks
        (Cavazza et al. 2018, algorithm 1).
    missing : str, optional
        Which entries are missing. ``"nan"``: NaN, in a dense ``X``. ``"zeros"``: entries that a sparse matrix does not
        store (a stored zero is observed), or zeros of a dense one; a sparse ``X`` is never made dense. By default none
        is: entries that a sparse matrix does not store are zeros.
    centre : bool, default=False
        Subtract the mean of the observed entries of each column first; a sparse ``X`` is not made dense. By default
        ``X`` is used unchanged.
    learning_rate : float, default=1.0
        Factor on all step sizes of ``"stochastic"``.
    tol : float, default=1e-08
        ``"deterministic"`` stops when a sweep lowers the loss by less than this share of the loss.
    max_iter : int, optional
        Maximum number of sweeps of ``"deterministic"`` (1,000), or number of steps of ``"stochastic"`` (10,000).
    random_state : int, numpy.random.Generator, RandomState or None, optional
        Seed of the start and of the masks of the iterative solvers.

    Attributes
    ----------
    components_ : array ``(n_components_, p)``
        Right singular vectors of the fitted product, orthonormal rows.
    n_components_ : int
        Rank learnt.
    singular_values_ : array ``(n_components_,)``
        Singular values of the fitted product, after shrinkage.
    shrinkage_ : float
        ``μ = γ‖UVᵀ‖*``, by which the optimum lowers each singular value of ``X`` (centred if ``centre``); NaN if
        entries are missing.
    data_singular_values_ : array or None
        Singular values of ``X`` that the closed form computed, the kept ones first; None for iterative solvers.
    loadings_ : array (p, d)
        Factor ``V`` whose columns are dropped; at the optimum all columns have the same norm.
    retain_ : float
        ``θ`` of these ``d`` columns.
    mean_ : array (p,) or None
        Means that were subtracted.
    objective_ : float
        Expected loss of the fit, in squared units of ``X``.
    objective_trace_ : array
        Expected loss after each sweep, or before every tenth step and of the result.
    sampled_objective_trace_ : array ``(n_iter_,)`` or None
        Loss under the mask of each step, for ``"stochastic"``.
    n_iter_ : int
        Number of sweeps or steps; 1 for the closed form.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Raises
    ------
    ValueError
        On fitting: a setting out of its range, an entry that is not finite and not marked as missing, a row or a column
        without an observed entry, missing entries with ``solver="closed_form"``, factors that diverge with
        ``solver="stochastic"``.

    Warns
    -----
    ConvergenceWarning
        If ``max_iter`` sweeps did not meet ``tol``, or the rank learnt is all of the 50 columns taken by default.

    See Also
    --------
    sample_factorization

    References
    ----------
    Cavazza, Morerio, Haeffele, Lane, Murino & Vidal (2018), Dropout as a low-rank regularizer for matrix
    factorization, AISTATS, theorem 4.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 20)) + 0.01 * rng.normal(size=(60, 20))
    >>> model = DropoutMatrixFactorization(retain=0.9).fit(X)
    >>> model.n_components_, model.transform(X).shape
    (3, (60, 3))
    """

    mean_: Float[np.ndarray, " p"] | None
    sampled_objective_trace_: Float[np.ndarray, " steps"] | None
    data_singular_values_: Float[np.ndarray, " k"] | None

    @takes_random_state
    def __init__(
        self,
        n_components: int | None = None,
        *,
        retain: float = 0.9,
        adaptive: bool = True,
        solver: str = "closed_form",
        missing: str | None = None,
        centre: bool = False,
        learning_rate: float = 1.0,
        tol: float = 1e-8,
        max_iter: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.retain = retain
        self.adaptive = adaptive
        self.solver = solver
        self.missing = missing
        self.centre = centre
        self.learning_rate = learning_rate
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.missing != "nan"
        tags.input_tags.allow_nan = self.missing == "nan"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    @intact
    def fit(self, X: Any, y: Any = None) -> DropoutMatrixFactorization:
        """Factorise ``X``.

        Parameters
        ----------
        X : array, data frame or scipy sparse (n, p)
            Data; float32 stays float32.
        y : None
            Ignored.
        """
        check_settings(self)
        X = self._validated(X, reset=True)
        width = widest(self, X.shape)
        generator = check_random_state(self.random_state)
        self.mean_ = None
        entries = self._entries(X, fitting=True)
        with double_range():
            if self.solver == "closed_form":
                self._fit_closed_form(entries, width, generator)
            else:
                self._fit_iteratively(entries, width, generator)
        refuse_overflow(components=self.components_, singular_values=self.singular_values_, objective=self.objective_)
        return self

    def transform(self, X: Any) -> Float[np.ndarray, "n d"]:
        """Scores of rows, such that ``scores @ components_`` (plus ``mean_``) is their reconstruction.

        The factor of a row minimises the expected loss of its observed entries under the masks, given ``loadings_``; a
        row without observed entries has scores 0.

        Parameters
        ----------
        X : array, data frame or scipy sparse (n, p)
            Rows; missing entries as in the fit.

        Returns
        -------
        array ``(n, n_components_)``
        """
        check_is_fitted(self)
        entries = self._entries(self._validated(X, reset=False), fitting=False)
        right = self.loadings_
        turn = right.T.astype(np.float64) @ self.components_.T
        if isinstance(entries, Complete):
            gram = ridge(right.T.astype(np.float64) @ right, self.retain_)
            return entries.times((right @ np.linalg.solve(gram, turn)).astype(entries.dtype))
        return np.asarray(entries.solve_left(right.astype(entries.dtype), self.retain_) @ turn.astype(entries.dtype))

    def inverse_transform(self, X: Any) -> Float[np.ndarray, "n p"]:
        """Rows from their scores: ``X @ components_``, plus ``mean_``; the missing entries are filled in.

        Parameters
        ----------
        X : array ``(n, n_components_)``
            Scores.

        Returns
        -------
        array (n, p)
        """
        check_is_fitted(self)
        scores = check_array(X, dtype=FLOATS, ensure_min_features=0)
        if scores.shape[1] != self.n_components_:
            raise ValueError(f"X: expected {self.n_components_} columns of scores, got {scores.shape[1]}.")
        rows = scores @ self.components_.astype(scores.dtype)
        return np.asarray(rows if self.mean_ is None else rows + self.mean_.astype(scores.dtype))

    def _validated(self, X: Any, *, reset: bool) -> Any:
        if sparse.issparse(X) and self.missing == "nan":
            raise ValueError(
                'X: missing="nan" marks the entries of a dense array, got a sparse matrix; with missing="zeros" the '
                "entries that it does not store are the missing ones."
            )
        X = in_memory(X) if reset else match_rows(self, in_memory(X))
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, ensure_all_finite="allow-nan", reset=reset)
        if sparse.issparse(X) and not X.has_canonical_format:
            X = X.copy()  # the caller's matrix is unchanged
            X.sum_duplicates()
        values = X.data if sparse.issparse(X) else X
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.nansum(np.square(values, dtype=np.float64))
        refuse_overflow(sum_of_squares=size)
        if self.missing != "nan" and np.isnan(np.sum(values)) and np.any(np.isnan(values)):
            raise ValueError(
                'X: contains NaN, which is not marked as missing; use missing="nan" with solver="deterministic" if '
                "these entries are missing, or fill them in."
            )
        return X

    def _entries(self, X: Any, *, fitting: bool) -> Any:
        """Observed entries, centred; in a fit the mean is computed first."""
        if self.missing is None or (sparse.issparse(X) and X.nnz == X.shape[0] * X.shape[1]):
            return self._complete(X, fitting)
        if sparse.issparse(X):
            counts = (np.diff(X.indptr), np.bincount(X.indices, minlength=X.shape[1]))
            pattern = None
        else:
            seen = ~np.isnan(X) if self.missing == "nan" else X != 0
            if seen.all():
                return self._complete(X, fitting)
            counts = (seen.sum(axis=1), seen.sum(axis=0))
            pattern = seen.astype(X.dtype)
        if fitting:
            check_observed(self, *counts)
        values: Any = X if pattern is None else np.where(seen, X, X.dtype.type(0))
        if fitting and self.centre:
            self.mean_ = np.asarray(values.sum(axis=0)).ravel() / counts[1].astype(X.dtype)
        if self.mean_ is not None:
            if pattern is None:
                data = values.data - self.mean_[values.indices]
                values = sparse.csr_array((data, values.indices, values.indptr), shape=values.shape)
            else:
                values = values - pattern * self.mean_
        return Observed(values, pattern)

    def _complete(self, X: Any, fitting: bool) -> Complete:
        if fitting and self.centre:
            self.mean_ = np.asarray(X.mean(axis=0)).ravel().astype(X.dtype)
        if self.mean_ is None or sparse.issparse(X):
            return Complete(X, self.mean_)
        return Complete(X - self.mean_)

    def _fit_closed_form(self, entries: Complete, width: int, generator: Any) -> None:
        if self.adaptive:
            weight, limit = nuclear_weight(float(self.retain), 1), width
        else:
            weight, limit = nuclear_weight(float(self.retain), width), min(width, *entries.shape)
        values, right = leading(entries, weight, limit, generator)
        shrunk = shrink(values, weight, limit)
        rank = len(shrunk.values)
        self.data_singular_values_ = values.astype(entries.dtype)
        self.shrinkage_ = shrunk.threshold
        columns = max(rank, 1) if self.adaptive else width
        theta = adaptive_retain(float(self.retain), columns) if self.adaptive else float(self.retain)
        directions = self._keep_product(shrunk.values, right[:, :rank], entries.dtype)
        loadings = (directions * np.sqrt(shrunk.values)) @ equalise(shrunk.values, columns)
        self._keep_factor(loadings.astype(entries.dtype), theta)
        self.objective_ = minimum(entries.square_norm, values, weight, limit)
        self.objective_trace_ = np.array([self.objective_])
        self.sampled_objective_trace_ = None
        self.n_iter_ = 1

    def _fit_iteratively(self, entries: Entries, width: int, generator: Any) -> None:
        theta = adaptive_retain(float(self.retain), width) if self.adaptive else float(self.retain)
        steps = _STEPS[self.solver] if self.max_iter is None else int(self.max_iter)
        if self.solver == "deterministic":
            result = alternate(entries, width, theta, tol=self.tol, max_iter=steps, generator=generator)
        else:
            rate = float(self.learning_rate)
            result = descend(entries, width, theta, learning_rate=rate, max_iter=steps, generator=generator)
        if not result.converged:
            warn(
                f"Stopped after {steps} sweeps, before tol={self.tol:g} was met: raise max_iter or loosen tol.",
                ConvergenceWarning,
            )
        self.sampled_objective_trace_ = result.sampled_trace
        left, right = result.left.astype(np.float64), result.right.astype(np.float64)
        left_basis, left_part = np.linalg.qr(left)
        right_basis, right_part = np.linalg.qr(right)
        _, values, turned = np.linalg.svd(left_part @ right_part.T)
        rank = int(np.sum(values > _NEGLIGIBLE * values[0]))
        self._keep_product(values[:rank], right_basis @ turned[:rank].T, entries.dtype)
        self._keep_factor(result.right, theta)
        self.data_singular_values_ = None
        whole = isinstance(entries, Complete)
        self.shrinkage_ = nuclear_weight(theta, width) * float(values.sum()) if whole else float("nan")
        self.objective_ = float(result.trace[-1])
        self.objective_trace_ = result.trace
        self.n_iter_ = result.n_iter
        if self.n_components is None and rank == width < min(entries.shape):
            warn(
                f"The rank learnt is all of the {width} columns taken by default: give n_components, or lower retain.",
                ConvergenceWarning,
            )

    def _keep_product(
        self, values: Float[np.ndarray, " d"], directions: Float[np.ndarray, "p d"], dtype: Any
    ) -> Float[np.ndarray, "p d"]:
        """Store singular values and vectors of the product; signs make the largest entry of each vector positive."""
        _, rows = svd_flip(None, np.ascontiguousarray(directions.T), u_based_decision=False)
        self.n_components_ = len(values)
        self.components_ = rows.astype(dtype)
        self.singular_values_ = values.astype(dtype)
        return np.asarray(rows.T)

    def _keep_factor(self, right: Float[np.ndarray, "p d"], theta: float) -> None:
        self.loadings_ = right
        self.retain_ = theta
