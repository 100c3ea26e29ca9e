"""The diagnosis says what is wrong, of what, and what to do; and nothing where nothing is wrong.

Fixed seeds; the draws of a good posterior are independent, so that its R-hat is below 1.01 but for a chance of 1e-4.
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

import bayesdrop as bd
from bayesdrop._display import compared_texts
from bayesdrop.posterior.diagnostics.diagnosis import Diagnosis
from bayesdrop.posterior.diagnostics.mixing import Extreme, mixing
from bayesdrop.posterior.diagnostics.problems import Problem
from bayesdrop.priors import RandomEffects


def _good(build, chains=4, draws=1000, seed=0, stats=None, prior=None, model=None):
    rng = np.random.default_rng(seed)
    model = bd.Model(rates=bd.PerFeature(bd.Beta(1, 1) if prior is None else prior)) if model is None else model
    return build(
        model,
        rng.normal(size=(chains, draws, 3)),
        intercept=rng.normal(size=(chains, draws)),
        rate=rng.beta(20, 30, size=(chains, draws, 3)),
        names=["age", "size", "iron"],
        stats=stats,
    )


def _change(post, **variables):
    posterior = bd.groups.dataset(post, "posterior").copy(deep=True)
    for name, change in variables.items():
        change(posterior[name].values)
    return bd.groups.extend(post, {"posterior": posterior})


def test_good_chains(build):
    found = bd.diagnose(_good(build))
    assert found.ok
    assert found.r_hat.value < 1.01
    assert min(found.ess_bulk.value, found.ess_tail.value) > 400
    assert (found.chains, found.draws, found.n_rates, found.undetermined) == (4, 1000, 3, [])
    assert (found.divergences, found.acceptance_rate, found.e_bfmi) == (None, None, None)
    assert "No problem was found" in str(found)
    assert "nan" not in str(found)


def test_a_bad_entry_is_named(build):
    def shift(values):
        values[0, :, 1] += 3.0

    found = bd.diagnose(_change(_good(build), weight=shift))
    assert found.r_hat.name == "weight of size"
    assert found.r_hat.value > 1.1
    assert found.ess_bulk.name == "weight of size"
    assert not found.ok
    assert "weight of size" in found.problems[0].text
    assert "Raise draws and tune" in str(found)


def test_extremes_are_arviz_own(build):
    from bayesdrop._arviz import arviz

    post = _good(build, seed=3)
    posterior = bd.groups.dataset(post, "posterior")
    found, az = bd.diagnose(post), arviz()
    for extreme, table, pick in (
        (found.r_hat, az.rhat(posterior), max),
        (found.ess_bulk, az.ess(posterior, method="bulk"), min),
        (found.ess_tail, az.ess(posterior, method="tail"), min),
    ):
        assert extreme.value == pytest.approx(pick(float(pick(np.ravel(table[v].values))) for v in posterior))


def test_few_and_slow_draws(build):
    assert "below 400" in str(bd.diagnose(_good(build, draws=50)))

    def slow(values):
        values[:] = np.cumsum(values, axis=1)

    found = bd.diagnose(_change(_good(build), intercept=slow))
    assert found.ess_bulk.name == "intercept"
    assert len(found.problems) == 2


def _all(place, source):
    """Change of every variable at a place: to a number, or to what stands at another place."""

    def change(values):
        values[place] = values[source] if isinstance(source, tuple | slice | int) else source

    return dict.fromkeys(["weight", "rate", "intercept"], change)


def _one(name, place, source):
    return {name: _all(place, source)["weight"]}


WHOLE = slice(None)
SIZE = (WHOLE, WHOLE, 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_all(WHOLE, 0.25), "no chain ever moves"),
        (_all(2, (0, 0)), "chain 2 never moves"),
        (_all(WHOLE, slice(0, 1)), "chain 1, 2, 3 has the same draws as chain 0"),
        (_all(3, 1), "chain 3 has the same draws as chain 1"),
        (_one("weight", SIZE, 0.25), "weight of size never moves: all its draws are the same"),
        (_one("rate", (2, WHOLE, 1), (0, 0, 1)), "rate of size never moves in chain 2: all its draws are the same"),
        (_one("intercept", WHOLE, 0.0), "intercept never moves"),
        (_one("weight", WHOLE, 0.0), "weight of age, size, iron never moves"),
    ],
)
def test_what_never_moves_or_is_a_copy_is_named(build, change, words):
    found = bd.diagnose(_change(_good(build), **change))
    (problem,) = [
        problem for problem in found.problems if "R-hat" not in problem.text and "size is" not in problem.text
    ]
    assert words in problem.text
    assert "seed" in problem.advice
    assert "No problem was found" not in str(found)
    assert "nan" not in str(found)


def test_constants_have_no_extremes(build):
    found = bd.diagnose(_change(_good(build), **_all(WHOLE, 0.25)))
    assert (found.r_hat, found.ess_bulk, found.ess_tail) == (None, None, None)
    # A variable that agrees in all chains, a fixed scale say, makes no copies.
    assert bd.diagnose(_change(_good(build), **_one("weight", WHOLE, slice(0, 1)))).ok


def test_constants_of_another_library_are_no_fault():
    """The diagonal of a correlation matrix is 1, and a parameter that was held fixed never moves."""
    draws = np.random.default_rng(0).uniform(-0.5, 0.5, size=(4, 1000, 2, 2))
    draws[:, :, [0, 1], [0, 1]] = 1.0
    variables = {"corr": (("chain", "draw", "a", "b"), draws), "fixed": (("chain", "draw"), np.full((4, 1000), 2.5))}
    assert bd.diagnose(bd.groups.assemble({"posterior": xr.Dataset(variables)})).ok


@pytest.mark.slow
def test_an_approximation_owns_up(build):
    post = _good(build)
    error = {"approximation": "masks are integrated", "approximation_error": 0.05}
    post.attrs |= error | {"approximation_total": 0.09, "approximation_bound": 0.095}
    assert bd.diagnose(post).ok
    assert "off by 0.05 (root mean square, at these draws), that of all rows by 0.09 nats" in str(bd.diagnose(post))
    post.attrs["approximation_bound"] = 0.12
    assert "off by 0.09 nats (standard deviation over draws, at most 0.12), above 0.1" in str(bd.diagnose(post))
    post.attrs |= {"approximation_bound": 0.095, "approximation_pareto_k": 0.4}
    assert bd.diagnose(post).ok
    # A few draws of another posterior move the deviation little.
    post.attrs["approximation_pareto_k"] = 0.95
    found = bd.diagnose(post)
    assert (
        "off by 0.09 nats (standard deviation over draws), with a Pareto k of 0.95, above 0.5" in found.problems[0].text
    )
    assert "Pareto k 0.95; wanted: at most 0.5" in found.approximation
    assert "bd.reweight(post, X, y)" in found.problems[0].advice
    post.attrs |= {"approximation_total": 0.25, "approximation_bound": 0.3, "approximation_pareto_k": 1.3}
    found = bd.diagnose(post)
    assert "above 0.1 and with a Pareto k of 1.30, above 0.5: this is another posterior" in found.problems[0].text
    assert found.problems[0].advice.startswith("Sample with")  # weights have no mean
    del post.attrs["approximation_pareto_k"]
    post.attrs |= {"approximation_total": 1.5, "approximation_bound": 3.0}
    assert "off by 1.5 nats (standard deviation over draws, at most 3), above 0.1" in bd.diagnose(post).problems[0].text
    post.attrs["reweighted"] = 1
    post.attrs |= {"reweight_pareto_k": 0.3, "reweight_effective_draws": 900.0}
    assert bd.diagnose(post).ok
    post.attrs |= {"reweight_draws": 12_000, "reweight_beyond": 0.25}
    assert "900 effective draws of 12,000; 25 % of the weight on draws that were added" in str(bd.diagnose(post))
    post.attrs["reweight_pareto_k"] = 0.9
    assert "a few draws decide" in bd.diagnose(post).problems[0].text


def test_a_mean_field_is_never_in_order(build):
    post = _good(build)
    post.attrs["inference_method"] = "variational"
    assert "a mean field: its intervals are too narrow" in bd.diagnose(post).problems[0].text


def test_an_approximation_without_a_measured_error_says_so(build):
    post = _good(build)
    post.attrs["approximation"] = "scores are taken as normal"
    assert "scores are taken as normal; by how much that is off is not known" in str(bd.diagnose(post))


def test_chains_stuck_at_different_places_are_no_constants(build):
    def stuck(values):
        values[:, :, 0] = np.arange(4)[:, None]

    found = bd.diagnose(_change(_good(build), weight=stuck))
    assert found.r_hat.name == "weight of age"
    assert not found.ok


@pytest.mark.parametrize(("draws", "words"), [(1, "1 draw of each"), (3, "3 draws of each")])
def test_hardly_any_draws(build, draws, words):
    found = bd.diagnose(_good(build, draws=draws))
    assert f"{words} chain are too few" in str(found)
    assert found.r_hat is None
    assert "nan" not in str(found)


def test_one_chain(build):
    found = bd.diagnose(_good(build, chains=1))
    assert found.r_hat is None
    assert found.ess_bulk is not None
    assert "one chain cannot show" in str(found)


def test_draws_that_are_not_finite(build):
    def spoil(values):
        values[1, 5, 0] = np.nan

    found = bd.diagnose(_change(_good(build), weight=spoil))
    assert "draws of weight are not finite" in str(found)
    assert found.r_hat is None


def test_trajectories(build):
    rng = np.random.default_rng(0)
    fine = {"diverging": np.zeros((4, 1000), np.int8), "acceptance_rate": np.full((4, 1000), 0.8)}
    fine["energy"] = rng.normal(size=(4, 1000))
    found = bd.diagnose(_good(build, stats=fine))
    assert found.ok
    assert found.divergences == 0
    assert found.acceptance_rate == pytest.approx(0.8)
    assert found.e_bfmi == pytest.approx(2.0, abs=0.2)  # independent energies: twice the variance
    bad = {name: value.copy() for name, value in fine.items()}
    bad["diverging"][0, :7] = 1
    bad["acceptance_rate"][:] = 0.02
    bad["energy"][2] = np.cumsum(rng.normal(size=1000))
    found = bd.diagnose(_good(build, stats=bad))
    text = str(found)
    assert len(found.problems) == 3
    for words in ("7 of 4000 trajectories diverged", "only 2 % of the moves", "E-BFMI is 0.0"):
        assert words in text


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (bd.HMC(n_leapfrog_steps=1), "method=bd.HMC(n_leapfrog_steps=6); there were 3"),
        (bd.NUTS(), "target_accept of bd.NUTS()"),
        ("Metropolis()", None),
    ],
    ids=str,
)
def test_few_moves_accepted_by_method(build, method, words):
    """What a third of the moves means depends on the sampler, and so does what to do."""
    few = {"acceptance_rate": np.full((4, 1000), 0.37), "n_steps": np.full((4, 1000), 3)}
    post = _good(build, stats=few)
    post.attrs["method"] = str(method)
    found = bd.diagnose(post)
    assert found.ok == (words is None)
    assert words is None or ("only 37 % of the moves were accepted" in str(found) and words in str(found))


@pytest.mark.parametrize(("method", "other"), [(bd.HMC(), "method=bd.NUTS()"), (bd.NUTS(), None)], ids=str)
def test_advice_about_correlated_effects_names_samplers_that_draw_them(build, method, other):
    """``bd.Gibbs()`` refuses correlated effects, so that no advice sends a user there."""
    terms, levels = ["1|g", "x|g"], [["a"], ["a"]]
    prior = RandomEffects(bd.Normal(), terms, levels, [1.0, 1.0], correlated=[terms])
    stats = {"diverging": np.ones((4, 50), np.int8)}
    post = _good(build, draws=50, stats=stats, model=bd.Model(rates=bd.Fixed(0.0), weight_prior=prior))
    post.attrs |= {"method": str(method)}
    advice = bd.diagnose(post).advice
    assert "Gibbs" not in advice
    assert "Raise draws and tune" in advice
    assert other is None or other in advice


def test_rates_that_the_data_do_not_determine(build):
    def prior(values):
        values[:, :, 2] = np.random.default_rng(9).random(values.shape[:2])

    found = bd.diagnose(_change(_good(build), rate=prior))
    assert found.undetermined == ["iron"]
    assert "do not determine 1 of 3 rates" in str(found)
    assert found.ok  # the chains are fine
    # The same draws say nothing beyond a prior that is as narrow as they are.
    assert len(bd.diagnose(_good(build, prior=bd.Beta(20, 30))).undetermined) == 3


def test_an_interrupted_run(build):
    post = _good(build)
    post.attrs["complete"] = 0
    found = bd.diagnose(post)
    assert not found.complete
    assert "ended early, after 1000 draws" in str(found)


def test_advice_is_said_once(build):
    found = bd.diagnose(_good(build, draws=50))
    found = replace(found, problems=[Problem("one", "Do this."), Problem("two", "Do this."), Problem("three", "Or.")])
    assert found.advice == "one; two. Do this. three. Or."
    assert bd.diagnose(_good(build)).advice == ""


def test_no_warnings_and_no_posterior(build):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mixing(bd.groups.dataset(_change(_good(build), weight=lambda v: v.fill(0.0)), "posterior"))
    for wrong in (None, np.zeros(3), {}):
        with pytest.raises(TypeError, match="post: expected"):
            bd.diagnose(wrong)
    with pytest.raises(ValueError, match="expected a group 'posterior'"):
        bd.diagnose(bd.groups.assemble({"prior": bd.groups.dataset(_good(build), "posterior")}))


NEAR = (0.9999999, 0.9999, 0.99, 1.0, 1.01, 1.0001, 1.0000001)


@pytest.mark.parametrize("near", NEAR)
@pytest.mark.parametrize("bound", [1.01, 400, 0.3, 0.1, 0.5, 0.7])
def test_numbers_compare_as_printed(bound, near):
    value = bound * near
    for digits in (".3f", ",.0f", ".2f", ".2g"):
        shown, limit = (float(text.replace(",", "")) for text in compared_texts(value, bound, digits))
        assert (shown > limit, shown < limit) == (value > bound, value < bound)
        assert limit == bound


def test_sentences_of_a_diagnosis_are_true_as_printed(build):
    """A number hardly beyond its bound; before, 1.010 was above 1.01."""
    text = str(Diagnosis(4, 1000, Extreme(1.01002, "x"), Extreme(399.8, "x"), Extreme(400.2, "x"), e_bfmi=0.2999))
    assert "R-hat 1.01002 (x); wanted: at most 1.01" in text
    assert "bulk effective sample size 399.8 (x); wanted: at least 400" in text
    assert "tail effective sample size 400.2 (x); wanted: at least 400" in text
    assert "E-BFMI 0.2999; wanted: at least 0.3" in text
    post = _good(build)
    post.attrs |= {"approximation": "a", "approximation_error": 0.1}
    post.attrs |= {"approximation_total": 0.10004, "approximation_bound": 0.10004, "approximation_pareto_k": 0.5003}
    found = bd.diagnose(post)
    assert "off by 0.10004 nats (standard deviation over draws), above 0.1" in found.problems[0].text
    assert "a Pareto k of 0.5003, above 0.5" in found.problems[0].text
    assert "by 0.10004 nats (standard deviation over draws); wanted: at most 0.1. Pareto k 0.5003; wanted" in str(found)
    post.attrs |= {"reweight_pareto_k": 0.7002, "reweight_effective_draws": 900.0}
    assert "a Pareto k of 0.7002, above 0.7: a few draws decide" in bd.diagnose(post).problems[0].text
