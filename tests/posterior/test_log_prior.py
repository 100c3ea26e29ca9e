"""The log prior of each draw, up to a constant, against SciPy's densities."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

import bayesdrop as bd
from bayesdrop.description import attributes
from bayesdrop.posterior.arviz_groups.constants import model_constants

RNG = np.random.default_rng(0)
BOTH, NAMES = ("chain", "draw"), ["x0", "x1", "x2"]


def by_hand(model, **more):
    parts = {"weight": ((*BOTH, "feature"), RNG.normal(size=(2, 40, 3))), "intercept": (BOTH, RNG.normal(size=(2, 40)))}
    rate_map = model.bind(NAMES)
    if rate_map.is_free:
        parts["rate"] = ((*BOTH, rate_map.dim), RNG.beta(2, 5, size=(2, 40, rate_map.size)))
    coords = {"chain": [0, 1], "draw": np.arange(40), "feature": NAMES}
    if rate_map.is_free:
        coords[rate_map.dim] = rate_map.names
    constants = model_constants(model, rate_map, np.ones(4), lambda: np.full(rate_map.size, 4.0))
    groups = {"posterior": xr.Dataset(parts | more, coords), "constant_data": xr.Dataset(constants)}
    return bd.groups.assemble(groups, attributes(model, ["no", "yes"]))


def check(post, name, expected):
    found = bd.groups.dataset(bd.log_prior(post), "log_prior")[name]
    assert found.dims == BOTH
    difference = found.values - expected
    np.testing.assert_allclose(difference, difference.mean(), rtol=0, atol=1e-9)


def values(post, name):
    return bd.groups.dataset(post, "posterior")[name].values


@pytest.mark.parametrize(
    ("prior", "law"),
    [(bd.Normal(np.array([0.5, 1.0, 2.0])), stats.norm), (bd.Laplace(0.7), stats.laplace)],
)
def test_weights_of_known_scales(prior, law):
    post = by_hand(bd.Model(rates=bd.Fixed(0.1), weight_prior=prior))
    check(post, "weight", law.logpdf(values(post, "weight"), scale=prior.scale).sum(axis=-1))
    assert set(bd.groups.dataset(bd.log_prior(post), "log_prior")) == {"weight"}


@pytest.mark.parametrize(("kind", "law"), [(bd.HalfNormal, stats.halfnorm), (bd.HalfCauchy, stats.halfcauchy)])
def test_weights_of_learnt_scales(kind, law):
    prior = bd.Normal(kind(1.5), groups=["a", "a", "b"], unit=2.0)
    scale = ((*BOTH, "weight_group"), RNG.random((2, 40, 2)) + 0.1)
    post = by_hand(bd.Model(rates=bd.Fixed(0.1), weight_prior=prior), weight_scale=scale)
    check(post, "weight_scale", law.logpdf(scale[1], scale=1.5).sum(axis=-1))
    check(post, "weight", stats.norm.logpdf(values(post, "weight"), scale=2 * scale[1][..., [0, 0, 1]]).sum(axis=-1))


def test_weights_of_many_classes_with_a_learnt_scale():
    """Centred weights of K classes are K - 1 contrasts: by an orthonormal basis of them."""
    weight = RNG.normal(size=(2, 40, 4, 3))
    weight -= weight.mean(axis=2, keepdims=True)
    scale = RNG.random((2, 40)) + 0.1
    coords = {"chain": [0, 1], "draw": np.arange(40), "class": list("abcd"), "feature": NAMES}
    parts = {"weight": ((*BOTH, "class", "feature"), weight), "weight_scale": (BOTH, scale)}
    model = bd.Model(bd.Softmax(), rates=bd.Fixed(0.0), weight_prior=bd.Normal(bd.HalfNormal(1.5)), fit_intercept=False)
    post = bd.groups.assemble({"posterior": xr.Dataset(parts, coords)}, attributes(model, list("abcd")))
    basis = np.linalg.svd(np.eye(4) - 0.25)[0][:, :3]
    contrast = np.einsum("kj,cskp->csjp", basis, weight)
    check(post, "weight", stats.norm.logpdf(contrast, scale=scale[..., None, None]).sum(axis=(-1, -2)))


def test_rates_and_the_variance():
    beta = by_hand(bd.Model(rates=bd.PerFeature(bd.Beta(2.0, 3.0))))
    check(beta, "rate", stats.beta.logpdf(values(beta, "rate"), 2, 3).sum(axis=-1))
    group = by_hand(bd.Model(rates=bd.PerGroup(["g", "g", "h"], prior=bd.Beta([2.0, 0.5], 3.0))))
    check(group, "rate", stats.beta.logpdf(values(group, "rate"), [2.0, 0.5], 3.0).sum(axis=-1))
    model = bd.Model(bd.Squared(variance=bd.InverseGamma(2.0, 1.5)), rates=bd.Fixed(0.0))
    sigma = RNG.random((2, 40)) + 0.5
    check(by_hand(model, sigma=(BOTH, sigma)), "sigma", stats.invgamma.logpdf(sigma**2, 2.0, scale=1.5) + np.log(sigma))


def test_priors_without_a_density():
    with pytest.raises(ValueError, match="post: expected a weight prior with a density in closed form"):
        bd.log_prior(by_hand(bd.Model(rates=bd.Fixed(0.1), weight_prior=bd.Horseshoe(0.1))))
    with pytest.raises(ValueError, match="post: the rates have the prior of Hierarchical"):
        bd.log_prior(by_hand(bd.Model(rates=bd.Hierarchical(["g", "g", "h"]))))
