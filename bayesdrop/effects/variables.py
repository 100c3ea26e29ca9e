"""Variables of a formula's table: the columns that effects change, their levels and typical values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..data.formulas.encoder import FormulaEncoder
from ..data.levels import KnownLevels

__all__ = ["Variables"]


@dataclass(frozen=True)
class Variables:
    """Columns of a table that a formula names.

    Attributes
    ----------
    encoder : FormulaEncoder
        Encoder of the formula, with the levels of the fit and of the rows.
    frame : pandas.DataFrame (n, ·)
        The rows.
    """

    encoder: FormulaEncoder
    frame: Any = field(repr=False)

    @property
    def names(self) -> list[str]:
        """Columns of terms, slopes and offset of the formula, without columns that only group random terms."""
        return list(self.encoder.columns)

    @cached_property
    def levels(self) -> dict[str, list[Any]]:
        """Levels of each factor and of each grouping column of a random term, from the fit and the rows."""
        levels = {name: facts["levels"] for name, facts in self.encoder.columns.items() if "levels" in facts}
        for term in self.encoder.random_terms:
            for place, column in enumerate(term.columns):
                if column not in self.names:
                    fitted, present = [level[place] for level in term.levels], self.frame[column].dropna().unique()
                    levels[column] = KnownLevels([*levels.get(column, []), *fitted, *present]).levels
        return levels

    @property
    def typical(self) -> dict[str, Any]:
        """Mean of each numeric column and most frequent level of each factor, in the fitted rows."""
        return {name: facts.get("mode", facts.get("mean")) for name, facts in self.encoder.columns.items()}

    def encode_typical(self, frame: Any, named: Mapping[str, Any] | Collection[str]) -> Any:
        """Features of a row, with columns of random terms set to 0 unless all columns of the term are ``named``."""
        X = self.encoder.transform(frame)
        unnamed = {term.name for term in self.encoder.random_terms if not set(term.columns) <= set(named)}
        first = X.shape[1] - self.encoder.n_effects
        keep = [j < first or group not in unnamed for j, group in enumerate(self.encoder.groups)]
        if hasattr(X, "nnz"):
            from scipy.sparse import csr_array

            return csr_array(X.multiply(np.array(keep, dtype=np.float64)))
        return np.where(keep, X, 0.0)
