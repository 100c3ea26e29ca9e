"""Programs as a user meets them: what they simulate and observe, NumPyro's kernels, ArviZ, the command line, bad input.

Every file of ``models/`` has ``demonstrate``, which takes its program through the six steps.
"""

import importlib
import inspect
import os
import pkgutil
import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.handlers import seed, substitute, trace
from scipy.stats import ks_2samp

import bayesdrop.models
from bayesdrop.distributions import HingePseudoLikelihood
from bayesdrop.models import (
    augmented_noising,
    feature_noising,
    hierarchical_rates,
    latent,
    logistic,
    marginalised_dropout,
    matrix_factorization,
    missing_entries,
    normal_scores,
    quantile,
    ridge,
    softmax,
    spike_slab,
    svm,
    svr,
    unlabelled_rows,
    varying_slopes,
)

N, P = 8, 3
HELPERS = {"count_laws", "count_statements", "statements", "masks", "observed", "scales", "steps"}
NAMES = sorted({module.name for module in pkgutil.iter_modules(bayesdrop.models.__path__)} - HELPERS)
X = jnp.asarray(np.random.default_rng(41).normal(size=(N, P)), jnp.float32)
HOLES = X.at[0, 1].set(jnp.nan).at[3].set(jnp.nan)
RATE = jnp.array([0.1, 0.3, 0.5])
GROUPS = {"groups": (0, 0, 1)}


@pytest.fixture(autouse=True)
def _numpyro_promotion():
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):  # NumPyro's own code needs both
        yield


PLAIN = {"weight": ("feature",), "intercept": ()}
FREE = {**PLAIN, "rate": ("feature",)}
GROUPED = {**PLAIN, "rate": ("group",)}
MASKS = {"kept": ("obs_id", "feature")}
ROW = ("obs_id",)
CLASSES = {"weight": ("class", "feature"), "intercept": ("class",)}
LAYER = {
    "hidden_weight": ("hidden", "feature"),
    "hidden_intercept": ("hidden",),
    "output_weight": ("hidden",),
    "intercept": (),
    "rate": ("feature",),
}
VARYING = dict.fromkeys(["weight", "intercept", "deviation", "root", "standard", "sigma"], ())
FACTORS = {"retain": (), "variance": (), "left": ("obs_id", "component"), "right": ("feature", "component")}
# Program, its arguments, the dims of its latent sites, and what y may be.
PROGRAMS = {
    "svm": (svm.program, (X,), {}, PLAIN, 2),
    "svm augmented": (svm.augmented, (X,), {}, {**PLAIN, "latent_scale": ROW}, 2),
    "logistic": (logistic.program, (X,), {}, PLAIN, 2),
    "logistic augmented": (logistic.augmented, (X,), {"C": 0.5}, {**PLAIN, "omega": ROW}, 2),
    "svr": (svr.program, (X,), {}, PLAIN, None),
    "svr augmented": (svr.augmented, (X,), {}, {**PLAIN, "above": ROW, "below": ROW}, None),
    "quantile": (quantile.program, (X,), {"tau": 0.8}, PLAIN, None),
    "quantile augmented": (quantile.augmented, (X,), {"C": 2.0}, {**PLAIN, "latent_scale": ROW}, None),
    "ridge": (ridge.program, (X,), {"rate": RATE}, PLAIN, None),
    "varying slopes": (varying_slopes.program, (X[:, 0],), {"group": jnp.arange(N) % 2}, VARYING, None),
    "bound of labels": (marginalised_dropout.program, (X,), {"rate": RATE}, PLAIN, 2),
    "bound of numbers": (
        marginalised_dropout.program,
        (X,),
        {"rate": RATE, "bound": marginalised_dropout.epsilon_insensitive, "real": True},
        PLAIN,
        None,
    ),
    "normal scores": (normal_scores.program, (X,), {}, FREE, 2),
    "normal scores, groups": (normal_scores.program, (X,), GROUPS, GROUPED, 2),
    "all masks": (feature_noising.enumerated, (X,), {}, FREE, 2),
    "all masks, hinge": (feature_noising.enumerated, (X,), {"likelihood": HingePseudoLikelihood}, FREE, 2),
    "masks": (feature_noising.program, (X,), {}, {**FREE, **MASKS}, 2),
    "masks, groups": (feature_noising.program, (X,), GROUPS, {**GROUPED, **MASKS}, 2),
    "both, logistic": (augmented_noising.program, (X,), {}, {**FREE, **MASKS, "omega": ROW}, 2),
    "both, hinge": (augmented_noising.program, (X,), {"hinge": True}, {**FREE, **MASKS, "latent_scale": ROW}, 2),
    "missing": (missing_entries.enumerated, (HOLES,), {}, FREE, 2),
    "missing, masks": (missing_entries.program, (HOLES,), {"centre": 0.5}, {**FREE, **MASKS}, 2),
    "hierarchical rates": (
        hierarchical_rates.program,
        (X,),
        GROUPS,
        {**FREE, "group_rate": ("group",), "group_strength": ("group",)},
        2,
    ),
    "spike and slab": (spike_slab.program, (X,), {"inclusion": 0.3}, {**PLAIN, "included": ("feature",)}, 2),
    "spike and slab, masks": (
        spike_slab.program,
        (X,),
        {"rate_prior": (1.0, 3.0)},
        {**FREE, "included": ("feature",)},
        2,
    ),
    "spike and slab, classes": (
        spike_slab.of_classes,
        (X,),
        {"n_classes": 4},
        {**CLASSES, "included": ("class", "feature")},
        4,
    ),
    "unlabelled rows": (unlabelled_rows.program, (X,), {"unlabelled": -2 * X}, PLAIN, 2),
    "latent": (latent.program, (X,), {"n_hidden": 2}, LAYER, 2),
    "softmax": (softmax.program, (X,), {"rate": RATE, "n_classes": 4}, CLASSES, 4),
    "softmax, masks": (softmax.noising, (X,), {"n_classes": 4}, {**CLASSES, "rate": ("feature",), **MASKS}, 4),
    "factors": (matrix_factorization.program, ((N, P),), {}, {**FACTORS, "kept": ("component",)}, None),
    "factors, all masks": (matrix_factorization.enumerated, ((N, P),), {}, FACTORS, None),
}


def sites_of(program, arguments, keywords, y=None):
    """Sampled sites by name, and the value of ``y``, which alone is computed."""
    found, given = {}, {} if y is None else {"y": y}

    def drawn(key):
        sites = trace(seed(program, key)).get_trace(*arguments, **keywords, **given)
        found.update({name: site for name, site in sites.items() if site["type"] == "sample"})
        return found["y"]["value"]

    return found, np.asarray(jax.jit(drawn)(jax.random.key(0)))


def dims(site):
    frames = sorted(site["cond_indep_stack"], key=lambda frame: frame.dim)
    return tuple(frame.name for frame in frames) + tuple(site["infer"].get("event_dims", ()))


@pytest.mark.default_cases("svm", "svm augmented", "logistic", "svr augmented", "bound of labels", "unlabelled rows")
@pytest.mark.parametrize("name", PROGRAMS)
def test_y_is_simulated_and_is_all_that_is_observed(name):
    """Plates carry the names of the dims, every prior is a law that can be drawn from, and no factor is left."""
    program, arguments, keywords, latent_dims, classes = PROGRAMS[name]
    sites, y = sites_of(program, arguments, keywords)
    table = "factors" in name
    assert dims(sites["y"]) == (("obs_id", "feature") if table else ROW)
    assert y.shape == ((N, P) if table else (N,))
    assert {key: dims(site) for key, site in sites.items() if key != "y"} == latent_dims
    assert not set(sites) & {"feature", "group", "obs_id", "class", "hidden", "component"}, "a dim names a variable"
    assert np.all(np.isfinite(y))
    if classes is not None:
        assert set(np.unique(y)) <= set(range(classes))
    given, value = sites_of(program, arguments, keywords, y)
    assert [key for key, site in given.items() if site["is_observed"]] == ["y"]
    np.testing.assert_array_equal(value, y)


@pytest.mark.parametrize("name", PROGRAMS)
def test_y_of_another_coding_is_refused(name):
    program, arguments, keywords, _, classes = PROGRAMS[name]

    def given(y):
        trace(seed(program, 0)).get_trace(*arguments, y=y, **keywords)

    if classes is None:
        shape = (N, P) if "factors" in name else (N,)
        with pytest.raises(ValueError, match="y: expected .*finite.*, got .*inf; clean or code them"):
            given(np.full(shape, np.inf))
    else:
        wanted = "0 and 1" if classes == 2 else f"whole numbers from 0 to {classes - 1}"
        with pytest.raises(
            ValueError, match=f"y: expected labels coded as {wanted}, got -1.0, 1.0; code them with y = "
        ):
            given(np.array([-1.0, 1.0] * (N // 2)))
        with pytest.raises(ValueError, match="got no, yes; code them"):
            given(np.array(["no", "yes"] * (N // 2)))
    with pytest.raises(ValueError, match=r"y: expected shape .* got \(3,\)"):
        given(np.zeros(3))


@pytest.mark.slow
def test_a_flat_intercept_is_an_option():
    for name in ("svm", "softmax", "ridge"):
        program, arguments, keywords, *_ = PROGRAMS[name]
        flat = {**keywords, "intercept_scale": None}
        zero = jnp.zeros(4 if name == "softmax" else ())
        sites = trace(seed(substitute(program, {"intercept": zero}), 0)).get_trace(*arguments, **flat)
        np.testing.assert_array_equal(sites["intercept"]["fn"].log_prob(zero), 0 * zero)
        with pytest.raises(NotImplementedError):
            trace(seed(program, 0)).get_trace(*arguments, **flat)


@pytest.mark.parametrize("name", NAMES)
def test_every_file_asks_for_six_steps_that_its_program_takes(name, monkeypatch):
    """All but the running itself, which the slow tests do."""
    module, called = importlib.import_module(f"bayesdrop.models.{name}"), []
    steps = inspect.signature(module.six_steps)
    monkeypatch.setattr(module, "six_steps", lambda *given, **named: called.append(steps.bind(*given, **named)))
    module.demonstrate(draws=5, show=False)
    (asked,) = called
    assert asked.arguments["draws"] == 5
    program, *arguments = asked.args
    named = {key: value for key, value in asked.kwargs.items() if key not in steps.parameters}
    inspect.signature(program).bind(*arguments, **named)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_file_runs_all_six_steps_to_a_posterior_that_is_not_the_prior(name):
    """Some variable is elsewhere or narrower: false-alarm rate 1e-6 over all of them, of draws that are thinned."""
    demonstrate, draws = importlib.import_module(f"bayesdrop.models.{name}").demonstrate, 1000
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ announces its successor; few draws
        found = demonstrate(draws=draws, tune=300, steps=10, chains=1, show=False)
    y = found.data.observed_data["y"]
    rows = y.shape
    assert y.dims == (("obs_id", "feature") if name == "matrix_factorization" else ROW)
    assert len(np.unique(y)) > 1, "a posterior given labels that are all alike is the prior"
    assert list(found.data.observed_data) == ["y"]
    assert list(found.data.log_likelihood) == ["y"]
    assert found.prior["y"].shape == found.predictive["y"].shape == (draws, *rows)
    assert found.data.posterior_predictive["y"].shape == (1, draws, *rows)
    assert all(np.all(np.isfinite(value)) for value in found.mcmc.get_samples().values())
    assert np.all(np.isfinite(found.svi.losses))
    value = found.loo.elpd_loo if hasattr(found.loo, "elpd_loo") else found.loo.elpd
    assert np.isfinite(value)
    drawn, chances = found.mcmc.get_samples(), []
    for key in set(drawn) & set(found.prior) - {"y", "kept"}:
        pair = [np.asarray(part, float).reshape(draws, -1) for part in (found.prior[key], drawn[key])]
        chances += [ks_2samp(pair[0][:, j], pair[1][::5, j]).pvalue for j in range(pair[0].shape[1])]
    assert min(chances) < 1e-6 / len(chances)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_runs_from_the_command_line(name):
    environment = {**os.environ, "CI": "1"}  # no progress bar
    command = [sys.executable, "-W", "error::RuntimeWarning:runpy", "-m", f"bayesdrop.models.{name}"]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 0, result.stderr
    for line in ("prior predictive", "n_eff", "SVI", "posterior predict.", "observed_data.y", "elpd"):
        assert line in result.stdout


def test_no_program_is_long():
    for name in NAMES:
        module = importlib.import_module(f"bayesdrop.models.{name}")
        with open(module.__file__, encoding="utf-8") as file:
            assert len(file.readlines()) <= 80 + 15 * hasattr(module, "STATES"), name
