"""Posteriors made by hand, so that what is drawn from them can be worked out by other means."""

import itertools

import numpy as np
import pytest
import xarray as xr

import bayesdrop as bd
from bayesdrop.description import attributes
from bayesdrop.posterior.arviz_groups.constants import rate_prior_constants


def make_post(model, weight, *, intercept=None, rate=None, sigma=None, X=None, y=None, names=None, classes=None,
              row_weight=None, target="noising", stats=None):  # fmt: skip
    """Posterior as ``bd.sample`` lays it out; ``weight`` is (chains, draws, p), ``y`` signs or numbers."""
    weight = np.asarray(weight)
    names = [f"x{d}" for d in range(weight.shape[2])] if names is None else names
    steps = {"chain": np.arange(weight.shape[0]), "draw": np.arange(weight.shape[1])}
    coords = {**steps, "feature": np.array(names)}
    parts = {"weight": (("chain", "draw", "feature"), weight)}
    for name, value in (("intercept", intercept), ("sigma", sigma)):
        if value is not None:
            parts[name] = (("chain", "draw"), np.broadcast_to(value, weight.shape[:2]))
    rate_map = model.bind(names)
    constant = {}
    if rate_map.is_free:
        coords[rate_map.dim] = np.array(rate_map.names)
        parts["rate"] = (("chain", "draw", rate_map.dim), np.broadcast_to(rate, (*weight.shape[:2], rate_map.size)))
        prior = rate_map.prior.law(np.zeros(rate_map.size))
        constant |= rate_prior_constants(prior, rate_map.dim)
    groups = {"posterior": xr.Dataset(parts, coords=coords)}
    if stats is not None:
        groups["sample_stats"] = xr.Dataset({k: (("chain", "draw"), v) for k, v in stats.items()}, coords=steps)
    if y is not None:
        y = (np.asarray(y) > 0).astype(np.int8) if model.loss.binary else np.asarray(y)
        groups["observed_data"] = xr.Dataset({"y": ("obs_id", y)}, coords={"obs_id": np.arange(len(y))})
    if row_weight is not None:
        constant["row_weight"] = ("obs_id", row_weight)
    if constant:
        groups["constant_data"] = xr.Dataset(constant, coords={d: coords[d] for d in (rate_map.dim,) if d in coords})
    return bd.groups.assemble(groups, {**attributes(model, classes), "target": target, "complete": 1})


def all_masks(model, x, weight, intercept, rate):
    """Scores of one row under each of its ``2^p`` masks, and their chances."""
    masks = np.array(list(itertools.product((0.0, 1.0), repeat=len(x))))
    kept = x / (1 - rate) if model.noise.unbiased else x
    return masks @ (weight * kept) + intercept, np.prod(np.where(masks == 1, 1 - rate, rate), axis=1)


@pytest.fixture(scope="session")
def build():
    return make_post


@pytest.fixture(scope="session")
def enumerate_masks():
    return all_masks
