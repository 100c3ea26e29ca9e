import numpy as np
import pytest
import xarray as xr

import bayesdrop as bd
from bayesdrop.description import attributes
from bayesdrop.priors import RandomEffects


class Data:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    Y = np.where(X[:, 0] + 0.8 * rng.normal(size=50) > 0, "yes", "no")
    MANY = np.array(["a", "b", "c"])[np.argmax(X + rng.normal(size=(50, 3)), axis=1)]
    NUMBERS = X @ [1.0, -0.5, 0.0] + 0.3 * rng.normal(size=50)
    COUNTS = rng.poisson(np.exp(0.5 * X[:, 1]))


@pytest.fixture(scope="session")
def data():
    return Data


@pytest.fixture(scope="session")
def post():
    """Two chains of fifty draws of a logistic model with learnt rates, made by hand."""
    rng, both = np.random.default_rng(1), ("chain", "draw")
    parts = {
        "weight": ((*both, "feature"), rng.normal(size=(2, 50, 3))),
        "intercept": (both, rng.normal(size=(2, 50))),
        "rate": ((*both, "feature"), rng.random((2, 50, 3))),
    }
    draws = xr.Dataset(parts, {"chain": [0, 1], "draw": np.arange(50), "feature": ["x0", "x1", "x2"]})
    return bd.groups.assemble({"posterior": draws}, attributes(bd.Model(), np.array(["no", "yes"])))


LEVELS = {"1|site": ["n", "s", "w"], "x|site": ["n", "s", "w"], "1|ward": ["p", "q"]}


def _random_terms(loss, scales, C=1.0, prior=None):
    """Draws of a feature and of effects; a scale of None is learnt."""
    rng, both = np.random.default_rng(4), ("chain", "draw")
    laws = [bd.HalfNormal(1.0) if scale is None else scale for scale in scales.values()]
    if prior is None:
        prior = RandomEffects(bd.Normal(1.0), list(scales), [LEVELS[term] for term in scales], laws)
    parts = {"weight": ((*both, "feature"), rng.normal(size=(2, 40, 1))), "intercept": (both, rng.normal(size=(2, 40)))}
    coords = {"chain": [0, 1], "draw": np.arange(40), "feature": ["x"]}
    for term, scale in scales.items():
        dim = f"{term.partition('|')[2]}|level"
        coords[dim] = LEVELS[term]
        parts[term] = ((*both, dim), rng.normal(size=(2, 40, len(LEVELS[term]))))
        parts |= {f"{term}|scale": (both, rng.gamma(2.0, size=(2, 40)))} if scale is None else {}
    parts |= {parameter.name: (both, rng.gamma(2.0, size=(2, 40))) for parameter in loss.parameters}
    model = bd.Model(loss, rates=bd.Fixed(0.0), weight_prior=prior, C=C)
    return bd.groups.assemble({"posterior": xr.Dataset(parts, coords)}, attributes(model, [0, 1]))


@pytest.fixture(scope="session")
def random_terms():
    """``random_terms(loss, scales)``: a posterior of a feature ``x`` and of random terms, made by hand."""
    return _random_terms
