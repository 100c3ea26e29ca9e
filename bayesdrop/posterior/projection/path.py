"""Hold the path of submodels that a search found, their scores, and rules for a size: ``bd.Projection``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..._display import Shown
from ..._typing import ArvizData, DataFrame, Float, Int
from ..._validation import check_count, check_number

__all__ = ["Projection"]


@dataclass(frozen=True, repr=False)
class Projection(Shown):
    """Submodels of growing size, and the loss of each compared with the full model.

    Attributes
    ----------
    terms : list of str
        Terms in the order in which the search on all rows adds them, after the terms of every submodel.
    sizes : int array (m,)
        Numbers of terms of the scored submodels, in increasing order.
    pointwise : array (m, n)
        Log predictive density of each row under the submodel of each size, in nats.
    reference : array (n,)
        Log predictive density of each row under the full model, by leave-one-out cross-validation.
    fold_share : array (m,) or None
        Share of the folds whose search includes the last term of each size among its first terms; None without folds.
    n_folds : int or None
        Number of folds in which the search was repeated; None if the path was scored on the rows of the search.
    refitted : bool
        Whether the model was sampled again without the rows of each fold.
    n_included : int
        Number of terms that every submodel has.

    See Also
    --------
    project, bayesdrop.plots.projection_path

    Examples
    --------
    >>> scores = np.array([[-1.0, -1.0], [-0.51, -0.5], [-0.5, -0.5]])
    >>> path = Projection(["age", "size"], np.array([0, 1, 2]), scores, np.array([-0.5, -0.5]), None, None)
    >>> path.size_within(0.01), path.size_within_standard_error()
    (1, 2)
    """

    terms: list[str]
    sizes: Int[np.ndarray, " m"]
    pointwise: Float[np.ndarray, "m n"]
    reference: Float[np.ndarray, " n"]
    fold_share: Float[np.ndarray, " m"] | None
    n_folds: int | None
    refitted: bool = False
    n_included: int = 0
    _groups: Any = field(default=None, compare=False)

    @property
    def difference(self) -> Float[np.ndarray, " m"]:
        """Expected log predictive density of each size minus that of the full model, summed over the rows."""
        return np.asarray((self.pointwise - self.reference).sum(axis=1))

    @property
    def difference_se(self) -> Float[np.ndarray, " m"]:
        """Standard errors of the differences, from their variation between rows."""
        n = len(self.reference)
        return np.asarray(np.sqrt(n) * (self.pointwise - self.reference).std(axis=1))

    def size_within_standard_error(self) -> int | None:
        """Smallest size whose difference is at most one standard error below 0; None if there is none.

        It tends to select too few terms, because the gain of a term has a standard error of similar size.
        """
        return self._smallest(self.difference + self.difference_se >= 0)

    def size_within(self, loss: float = 0.005) -> int | None:
        """Smallest size that loses at most ``loss`` nats per row; None if there is none.

        Parameters
        ----------
        loss : float, default=0.005
            Maximum loss in log predictive density compared with the full model, in nats per row.

        Raises
        ------
        TypeError, ValueError
            If ``loss`` is not a number above 0.
        """
        loss = check_number(loss, "loss", above=0)
        return self._smallest(self.difference >= -loss * len(self.reference))

    def _smallest(self, within: Any) -> int | None:
        sizes = self.sizes[within]
        return int(sizes[0]) if len(sizes) else None

    def posterior(self, size: int) -> ArvizData:
        """Draws projected on the first ``size`` terms, as a posterior of a model without noise.

        Functions accept it like a posterior from ``bd.sample``; weights of the other features are 0 in every draw.
        Intervals are those of the projected draws, which depend on the data only through the full model. Unseen levels
        of random terms have no effect (``unseen="population"``) or raise an error: projected draws have no scales.

        Parameters
        ----------
        size : int
            Number of terms, between those of every submodel and those of the path.

        Returns
        -------
        InferenceData or DataTree
            Groups ``posterior``, ``observed_data`` and ``constant_data``.

        Raises
        ------
        TypeError, ValueError
            If the path does not have a submodel of ``size`` terms.
        """
        return self._groups(self.terms[: check_count(size, "size", self.n_included, len(self.terms))])

    def to_frame(self) -> DataFrame:
        """One row for each size: ``term``, ``elpd``, ``difference``, ``se`` and, with folds, ``fold_share``.

        ``term`` is the last term of the size; ``difference`` is to the full model, with its standard error ``se``.
        """
        import pandas as pd

        added = ["(none)" if size == 0 else self.terms[size - 1] for size in self.sizes]
        data: dict[str, Any] = {
            "term": added,
            "elpd": self.pointwise.sum(axis=1),
            "difference": self.difference,
            "se": self.difference_se,
        }
        if self.fold_share is not None:
            data["fold_share"] = self.fold_share
        return pd.DataFrame(data, index=pd.Index(self.sizes, name="size"))

    @property
    def _title(self) -> str:
        n = len(self.reference)
        how = "scored on the rows searched, which is optimistic" if self.n_folds is None else f"{self.n_folds} folds"
        how += ", sampled again in each" if self.refitted else ""
        return f"{len(self.terms)} terms, {n:,} rows, {how}; elpd of the model {self.reference.sum():.1f}"

    def __repr__(self) -> str:
        return f"<Projection: {self._title}>"

    def __str__(self) -> str:
        table = self.to_frame().to_string(float_format=lambda value: f"{value:.2f}")

        def said(size: int | None) -> str:
            if size is None:
                return "no size that was scored"
            return f"{size} term{'s' * (size != 1)}" + (f" ({', '.join(self.terms[:size])})" if size else "")

        return "\n".join([
            self._title, table,
            f"Within one standard error of the model: {said(self.size_within_standard_error())}.",
            f"Within 0.005 nats a row of it: {said(self.size_within())}.",
        ])  # fmt: skip
