"""Projected draws as ArviZ groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._typing import ArvizData
from ...description import attributes
from ..arviz_groups.builder import draws_dataset, provenance
from ..arviz_groups.groups import assemble, dataset
from ..draws.draws import stored_offset
from .reference import Reference

__all__ = ["ProjectedGroups"]


@dataclass(frozen=True)
class ProjectedGroups:
    """A posterior, what its draws expect, and the columns of terms by name: all that projected draws are made of."""

    post: Any
    reference: Reference
    terms: dict[str, list[int]]
    seed: int

    def on(self, terms: list[str]) -> ArvizData:
        """The draws, projected on some terms by their predictions of all rows."""
        import xarray as xr

        source = self.reference
        drawn = source.projected([j for name in terms for j in self.terms[name]], np.arange(len(source.target)))
        shape = drawn.shape
        values = {"weight": drawn.weight.reshape(*shape, -1)}
        variables: dict[str, tuple[str, ...]] = {"weight": ("feature",)}
        if drawn.model.fit_intercept:
            values["intercept"], variables["intercept"] = drawn.intercept.reshape(shape), ()
        if source.variance is not None:
            values["sigma"], variables["sigma"] = (1 / np.sqrt(drawn.C)).reshape(shape), ()
        posterior = draws_dataset(values, variables, {"feature": np.array(drawn.feature_names)})
        constant = {"fixed_rate": ("feature", drawn.fixed_rate)}
        if (offset := stored_offset(self.post)) is not None:
            constant["offset"] = ("obs_id", offset)
        groups = {
            "posterior": posterior.assign_coords(drawn.steps),
            "observed_data": dataset(self.post, "observed_data").copy(),
            "constant_data": xr.Dataset(constant),
        }
        attrs = provenance(
            inference_method="projection", method=f"projection on {', '.join(terms) or 'no term'}", target="noising",
            model=repr(drawn.model), seed=self.seed,
        )  # fmt: skip
        attrs |= attributes(drawn.model, drawn.classes, drawn.facts, drawn.feature_names)
        for group in groups.values():
            group.attrs.update(attrs)
        return assemble(groups, attrs)
