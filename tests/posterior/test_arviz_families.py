"""ArviZ's checks take the posterior of every loss: its groups have the same variable on the same dims."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

import bayesdrop as bd
from bayesdrop._arviz import arviz
from bayesdrop.description import attributes
from bayesdrop.posterior.arviz_groups.constants import model_constants, observed_group
from bayesdrop.posterior.arviz_groups.groups import dataset

RNG = np.random.default_rng(0)
N = 30
X = RNG.normal(size=(N, 2))
SIGNS = np.where(RNG.random(N) < 0.5, 1.0, -1.0)
NUMBERS, COUNTS, CODES = RNG.normal(size=N), RNG.poisson(2.0, N).astype(float), RNG.integers(0, 3, N).astype(float)
PAIRS = np.column_stack([COUNTS, COUNTS[::-1] + 1])
TWO, THREE = np.array(["no", "yes"]), np.array(["a", "b", "c"])

FAMILIES = {
    "logistic": (bd.Logistic(), SIGNS, TWO[(SIGNS > 0).astype(int)], TWO),
    "hinge": (bd.Hinge(), SIGNS, TWO[(SIGNS > 0).astype(int)], TWO),
    "squared": (bd.Squared(variance=1.0), NUMBERS, NUMBERS, None),
    "unknown variance": (bd.Squared(variance=bd.InverseGamma(2.0, 1.0)), NUMBERS, NUMBERS, None),
    "insensitive": (bd.EpsilonInsensitive(0.1), NUMBERS, NUMBERS, None),
    "quantile": (bd.Quantile(0.5, scale=1.0), NUMBERS, NUMBERS, None),
    "unknown scale": (bd.Quantile(0.5), NUMBERS, NUMBERS, None),
    "poisson": (bd.Poisson(), COUNTS, COUNTS, None),
    "negative binomial": (bd.NegativeBinomial(2.0), COUNTS, COUNTS, None),
    "unknown dispersion": (bd.NegativeBinomial(), COUNTS, COUNTS, None),
    "binomial": (bd.Binomial(), PAIRS, PAIRS, None),
    "softmax": (bd.Softmax(), CODES, THREE[CODES.astype(int)], THREE),
}


@pytest.fixture(scope="module", params=FAMILIES)
def checked(request):
    """A posterior made by hand, with every group that checks need."""
    loss, coded, y, classes = FAMILIES[request.param]
    rng, both = np.random.default_rng(1), ("chain", "draw")
    more = (len(classes),) if loss.multiclass else ()
    dims = (*both, *(("class",) * len(more)))
    parts = {
        "weight": ((*dims, "feature"), 0.3 * rng.normal(size=(2, 60, *more, 2))),
        "intercept": (dims, 0.3 * rng.normal(size=(2, 60, *more))),
    }
    coords = {"chain": [0, 1], "draw": np.arange(60), "feature": ["x0", "x1"]}
    coords |= {"class": classes} if more else {}
    for parameter in loss.parameters:
        parts[parameter.name] = (both, np.exp(0.1 * rng.normal(size=(2, 60))))
    model = bd.Model(loss, rates=bd.Fixed(0.2))
    rate_map = model.bind(["x0", "x1"])
    constants = model_constants(model, rate_map, np.ones(N), lambda: np.zeros(0), None, coded)
    groups = {
        "posterior": xr.Dataset(parts, coords),
        "observed_data": observed_group(coded, classes, loss),
        "constant_data": xr.Dataset(constants, {"feature": ["x0", "x1"]}),
    }
    post = bd.groups.assemble(groups, {**attributes(model, classes), "target": "noising", "complete": 1})
    return bd.log_prior(bd.log_likelihood(bd.posterior_predictive(post, X), X, y))


def test_groups_have_one_variable_on_the_dims_of_the_rows(checked):
    observed, drawn, scores = (
        dataset(checked, name) for name in ("observed_data", "posterior_predictive", "log_likelihood")
    )
    assert list(observed) == list(drawn) == list(scores) == ["y"]
    assert observed["y"].dims == ("obs_id",)
    assert drawn["y"].dims == scores["y"].dims == ("chain", "draw", "obs_id")
    assert drawn["y"].dtype == observed["y"].dtype
    for group in (drawn, scores):
        np.testing.assert_array_equal(group["obs_id"], observed["obs_id"])
        np.testing.assert_array_equal(group["draw"], dataset(checked, "posterior")["draw"])
    if "class" in observed.coords:
        assert drawn["class"].values.tolist() == observed["class"].values.tolist()
    prior, posterior = dataset(checked, "log_prior"), dataset(checked, "posterior")
    assert all(prior[name].dims[:2] == ("chain", "draw") for name in prior)
    assert set(prior) <= set(posterior)
    assert all(np.isfinite(group[name]).all() for group in (prior, scores) for name in group)


@pytest.mark.slow
def test_functions_of_arviz_take_them(checked):
    az = arviz()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ's own words on few draws
        pit = np.asarray(az.loo_pit(checked, y="y") if hasattr(az, "plot_ppc") else az.loo_pit(checked)["y"])
        assert pit.shape == (N,)
        assert np.all((pit >= 0) & (pit <= 1))
        for component in ("prior", "likelihood"):
            found = az.psens(checked, component=component) if hasattr(az, "psens") else az.psense(checked)
            assert len(found) > 0
        if hasattr(az, "plot_ppc"):
            az.plot_ppc(checked, num_pp_samples=10)
            az.plot_loo_pit(checked, y="y")
        else:
            az.plot_ppc_dist(checked)
            az.plot_loo_pit(checked)
    plt.close("all")


def test_plots_of_this_package_take_them(checked):
    observed = dataset(checked, "observed_data")
    bd.plots.ppc(checked)
    bd.plots.ppc(checked, by=np.resize(["a", "b"], N))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bd.InfluenceWarning)
        if "class" not in observed.coords or len(observed["class"]) == 2:
            bd.plots.loo_pit(checked)
        if "class" in observed.coords:
            label = observed["class"].values[-1]
            bd.plots.reliability_curve(checked, positive=None if len(observed["class"]) == 2 else label)
    if observed["y"].dtype == np.int64 and "class" not in observed.coords:
        bd.plots.rootogram(checked)
    plt.close("all")
