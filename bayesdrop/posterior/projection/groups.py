"""Projected draws as ArviZ groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._typing import ArvizData
from ...description import attributes
from ..arviz_groups.builder import build_groups, provenance
from ..arviz_groups.groups import assemble, dataset
from ..draws.draws import stored_offset
from .reference import Reference

__all__ = ["projected_groups"]


def projected_groups(
    post: Any, source: Reference, columns: dict[str, list[int]], seed: int, terms: list[str]
) -> ArvizData:
    """The draws of a posterior, projected on some terms, of these columns, by their predictions of all rows."""
    drawn = source.projected([j for name in terms for j in columns[name]], np.arange(len(source.target)))
    values = {"weight": drawn.weight}
    variables: dict[str, tuple[str, ...]] = {"weight": ("feature",)}
    if drawn.model.fit_intercept:
        values["intercept"], variables["intercept"] = drawn.intercept, ()
    if source.variance is not None:
        values["sigma"], variables["sigma"] = 1 / np.sqrt(drawn.C), ()
    constants: dict[str, Any] = {"fixed_rate": ("feature", drawn.fixed_rate)}
    if (offset := stored_offset(post)) is not None:
        constants["offset"] = ("obs_id", offset)
    groups = build_groups(
        {name: value.reshape(*drawn.shape, *value.shape[1:]) for name, value in values.items()},
        variables=variables, coords={"feature": np.array(drawn.feature_names), **drawn.steps},
        observed=dataset(post, "observed_data").copy(), constants=constants,
    )  # fmt: skip
    attrs = provenance(
        inference_method="projection", method=f"projection on {', '.join(terms) or 'no term'}", target="noising",
        model=repr(drawn.model), seed=seed,
    )  # fmt: skip
    attrs |= attributes(drawn.model, drawn.classes, drawn.facts, drawn.feature_names)
    for group in groups.values():
        group.attrs.update(attrs)
    return assemble(groups, attrs)
