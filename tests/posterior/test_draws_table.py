"""Draws as data frames: every number stands where its chain, draw and name say, in pandas and in polars."""

import sys

import numpy as np
import pytest
import xarray as xr

import bayesdrop as bd

CHAINS, DRAWS = [0, 2], [5, 6, 9]
DIMS = {"chain": CHAINS, "draw": DRAWS, "class": ["no", "yes"], "feature": ["age", "size", "a, b"]}
SHAPES = {"weight": ("class", "feature"), "intercept": (), "rate": ("feature",), "codes": ("unit",)}


def posterior():
    sizes = {name: len(labels) for name, labels in DIMS.items()} | {"unit": 2}
    generator, parts = np.random.default_rng(0), {}
    for name, dims in SHAPES.items():
        dims = ("chain", "draw", *dims)
        parts[name] = (dims, generator.normal(size=[sizes[dim] for dim in dims]))
    # As another library might lay it out.
    parts["rate"] = (("feature", "draw", "chain"), np.moveaxis(parts["rate"][1], (0, 1, 2), (2, 1, 0)))
    return bd.groups.assemble({"posterior": xr.Dataset(parts, DIMS)})


@pytest.mark.parametrize("backend", ["pandas", "polars"])
def test_every_number_stands_where_its_names_say(backend):
    pytest.importorskip(backend)
    post = posterior()
    table, group = bd.draws_table(post, backend=backend), bd.groups.dataset(post, "posterior")
    assert type(table).__module__.split(".")[0] == backend
    assert table.shape == (6, 2 + 6 + 1 + 3 + 2)
    row = 0
    for chain in CHAINS:
        for draw in DRAWS:
            here = {"chain": chain, "draw": draw}
            assert (table["chain"][row], table["draw"][row]) == (chain, draw)
            assert table["intercept"][row] == group["intercept"].sel(here)
            for feature in DIMS["feature"]:
                assert table[f"rate[{feature}]"][row] == group["rate"].sel({**here, "feature": feature})
                for label in DIMS["class"]:
                    at = {**here, "class": label, "feature": feature}
                    assert table[f"weight[{label}, {feature}]"][row] == group["weight"].sel(at)
            # Without names they are numbered.
            assert table["codes[1]"][row] == group["codes"].sel(here).isel(unit=1)
            row += 1


def test_variables_are_chosen_and_ordered():
    assert list(bd.draws_table(posterior(), ["codes", "intercept"])) == [
        "chain", "draw", "codes[0]", "codes[1]", "intercept",
    ]  # fmt: skip
    assert list(bd.draws_table(posterior(), "intercept")) == ["chain", "draw", "intercept"]


def test_what_is_refused(monkeypatch):
    post = posterior()
    with pytest.raises(ValueError, match="variables: no variable 'sigma' in the posterior; expected some of"):
        bd.draws_table(post, ["rate", "sigma"])
    alike = bd.groups.dataset(post, "posterior").assign_coords(feature=["a", "a", "b"])
    with pytest.raises(ValueError, match="post: expected a different name for each number, got 4 for 5"):
        bd.draws_table(bd.groups.assemble({"posterior": alike}), "rate")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match="needs polars, which is not installed; pip install polars"):
        bd.draws_table(post, backend="polars")
