"""A description holds the whole model, survives every file, and cannot be made to run anything."""

import dataclasses
import json
import sys
from importlib import import_module

import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop._stored import read_classes
from bayesdrop.description import attributes, describe, rebuild
from bayesdrop.losses import Loss
from bayesdrop.noise import Noise
from bayesdrop.priors import CentredIntercept, Gamma, InverseGamma, RandomEffects, RatePrior
from bayesdrop.rates import Hierarchical, Hierarchy, RateMap, Rates

OTHERS = {
    "groups": ["b", "a", "b"],
    "shape": 2.5,
    "scale": 0.75,
    "class_ratio": True,
    "centre": (0.5, -2.0, 0.0),
    "variance": InverseGamma(2.0, 3.0),
    "mean_prior": bd.Beta(2.0, 3.0),
    "strength_prior": Gamma(3.0, 4.0),
    "prior": bd.Beta(2.0, [3.0, 4.0, 5.0]),
    "trials": 7,
    "dispersion": 2.5,
    "structure": bd.Shared(bd.Beta(2.0, 3.0)),
    "strengths": (1.0, 0.5),
    "cv": 3,
    "features": bd.Normal(0.5),
    "terms": ["1|site", "x|site"],
    "levels": [["north", "south"], ["north", "south"]],
    "correlated": [["1|site", "x|site"]],
    "without": 2,
    "mean": -0.5,
    "place": (0.5, 1.5),
    "inclusion": 0.2,
    "expected_size": None,  # given instead of an inclusion probability
    "slab": bd.Normal(0.5),
    "include": (0,),
    "heredity": "weak",
}
"""Values that are no defaults, for settings whose default does not say what another one looks like."""


def _changed(kind):
    """An instance in which no setting stands at its default, or at what was needed to make it."""
    settings = {}
    for field in dataclasses.fields(kind):
        if field.name in OTHERS:
            settings[field.name] = OTHERS[field.name]
        elif isinstance(field.default, bool):
            settings[field.name] = not field.default
        elif isinstance(field.default, float):
            settings[field.name] = 0.25
        elif field.default in ("augmentation", "taylor", "exact"):
            settings[field.name] = "gaussian"
        else:
            raise AssertionError(f"{kind.__name__}.{field.name}: say here what another value of it is")
    if kind is bd.Normal:  # groups and units stand beside a learnt scale alone
        settings["scale"] = bd.HalfNormal(0.25)
    if kind is RandomEffects:  # one scale for each term
        settings["scale"] = [bd.HalfNormal(0.25), bd.HalfNormal(0.5)]
    if kind is bd.SpikeSlab:  # lists of features, where other priors have a group for each
        settings["groups"] = {"a": [1], "a:b": [2]}
    return kind(**settings)


def _components():
    found = {}
    for package in ("losses", "noise", "priors", "rates"):
        module = import_module(f"bayesdrop.{package}")
        for name in module.__all__:
            kind = getattr(module, name)
            if isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind not in (RateMap, Hierarchy):
                found[name] = kind
    return found


COMPONENTS = _components()


def _model(part):
    """A model that holds the component."""
    if isinstance(part, Loss):
        return bd.Model(part, rates=bd.Fixed(0.2))
    if isinstance(part, Noise):
        return bd.Model(noise=part)
    if isinstance(part, Rates):
        return bd.Model(rates=part)
    if isinstance(part, RatePrior):
        return bd.Model(rates=bd.Shared(part))
    if isinstance(part, Gamma):
        return bd.Model(rates=Hierarchical(["a", "b"], strength_prior=part))
    if isinstance(part, bd.HalfNormal | bd.HalfCauchy):
        return bd.Model(weight_prior=bd.Normal(part))
    if isinstance(part, InverseGamma):
        return bd.Model(bd.Squared(variance=part), rates=bd.Fixed(0.2))
    if isinstance(part, CentredIntercept):
        return bd.Model(intercept_prior=part)
    assert hasattr(part, "precision"), f"{part!r}: a kind of component that this law does not know"
    return bd.Model(weight_prior=part)


@pytest.mark.parametrize("kind", COMPONENTS.values(), ids=COMPONENTS)
def test_round_trip(kind):
    needs = [f for f in dataclasses.fields(kind) if f.default is f.default_factory is dataclasses.MISSING]
    parts = [_changed(kind)] + ([] if needs else [kind()])
    for part in parts:
        model = _model(part)
        text = json.dumps(describe(model), allow_nan=False)
        assert rebuild(text) == model
        assert describe(rebuild(text)) == json.loads(text)


@pytest.mark.parametrize(
    "groups",
    [
        np.array(["b", "a", "b"]),
        np.array([3, 1, 3]),
        ["x", 1, None],
        [("a", 1), ("a", 2), ("a", 1)],
        {"one": ["x0", 2], 7: "x1"},
        {"one": np.array([0, 2]), "two": (1,)},
    ],
)
def test_groups_bind_as_before(groups):
    model = bd.Model(rates=bd.PerGroup(groups, bd.Beta(np.float32(2.0), 3)))
    names = ["x0", "x1", "x2"]
    before, after = model.bind(names), rebuild(json.dumps(describe(model))).bind(names)
    np.testing.assert_array_equal(before.index, after.index)
    assert before.names == after.names
    assert (before.prior.a, before.prior.b) == (after.prior.a, after.prior.b)


def test_arrays_become_lists_of_the_same_numbers():
    model = bd.Model(rates=bd.Fixed(np.array([0.1, 0.7])), weight_prior=bd.Normal(np.array([1 / 3, 2.0])))
    again = rebuild(json.dumps(describe(model)))
    np.testing.assert_array_equal(again.rates.rate, model.rates.rate)
    np.testing.assert_array_equal(again.weight_prior.precision(2), model.weight_prior.precision(2))


class Own(bd.Dropout):
    """A component of a user's own."""


@dataclasses.dataclass(frozen=True)
class Limited(bd.Dropout):
    """A component of a user's own, with settings that JSON has no text for."""

    limit: float = np.inf
    function: object = len


def test_a_component_of_ones_own_is_described_by_its_name_and_settings():
    model = bd.Model(noise=Own(unbiased=True), C=0.5)
    described = describe(model)
    assert described["model"]["fields"]["noise"] == {
        "own": f"{Own.__module__}.Own",
        "fields": {"unbiased": True, "centre": "auto"},
    }
    with pytest.raises(ValueError, match=r"model\.noise is '.*Own'"):
        rebuild(json.dumps(described))
    with pytest.raises(ValueError, match=r"model\.noise is '.*Own'"):
        rebuild(described, own=bd.Model(noise=bd.Dropout()))
    assert rebuild(described, own=bd.Model(noise=Own(), C=2.0)) == model
    assert list(attributes(model, [0, 1])) == ["bayesdrop_model", "model_description", "classes"]


def test_settings_of_ones_own_need_not_be_json():
    model = bd.Model(noise=Limited(function=max))
    again = rebuild(json.dumps(describe(model), allow_nan=False), own=bd.Model(noise=Limited(True, function=max)))
    assert again == model
    with pytest.raises(ValueError, match=r"model\.noise\.function is 'builtins\.max'"):
        rebuild(describe(model), own=bd.Model(noise=Limited()))


@pytest.mark.parametrize("own", [{"own": "os.system"}, {"own": "os.system", "fields": {"command": "ls"}}, {"own": 3}])
def test_a_file_that_names_a_component_of_ones_own_imports_nothing(own):
    described = describe(bd.Model())
    described["model"]["fields"]["noise"] = own
    before = set(sys.modules)
    for other in (None, bd.Model(), bd.Model(noise=Own())):
        with pytest.raises(ValueError, match="model.noise"):
            rebuild(json.dumps(described), own=other)
    assert set(sys.modules) == before


def _described(name, **fields):
    model = describe(bd.Model())
    model["model"]["fields"]["loss"] = {"class": name, "fields": fields}
    return model


@pytest.mark.parametrize(
    "name",
    ["os.system", "Popen", "subprocess.Popen", "eval", "__import__", "Loss", "Derivatives", "Model.__init__", "", 3],
)
def test_a_hostile_file_runs_and_imports_nothing(name):
    before = set(sys.modules)
    with pytest.raises(ValueError, match="unknown component"):
        rebuild(json.dumps(_described(name, args="touch /tmp/owned", args2=["ls"])))
    assert set(sys.modules) == before


@pytest.mark.parametrize(
    ("description", "message"),
    [
        (_described("Hinge", margins=1.0), "no setting 'margins'"),
        (_described("Hinge", __class__="x"), "no setting '__class__'"),
        (_described("Hinge", margin=-1.0), "margin: expected"),
        (_described("Hinge", margin="one"), "model description"),
        (_described("Hinge", margin=[1.0, {"class": "Hinge", "fields": {}}]), "model description"),
        (_described("Dropout"), "loss: expected"),
        ({"format": "bayesdrop model", "version": 2, "model": {}}, "version 1"),
        ({"format": "something", "version": 1}, "bayesdrop model"),
        ({"format": "bayesdrop model", "version": 1}, "expected a Model, got None"),
        ({"format": "bayesdrop model", "version": 1, "model": {"class": "Hinge", "fields": {}}}, "expected a Model"),
        ({"format": "bayesdrop model", "version": 1, "model": {"class": "Model", "fields": {"rates": {}}}}, "rates"),
        ([], "bayesdrop model"),
        (None, "bayesdrop model"),
    ],
)
def test_errors_say_what_is_wrong(description, message):
    with pytest.raises(ValueError, match=message):
        rebuild(description)


def test_a_text_cut_short_anywhere_is_refused():
    text = json.dumps(describe(bd.Model(rates=bd.PerGroup({"a": [0], "b": [1]}))))
    for end in range(len(text)):
        with pytest.raises(ValueError, match="expected JSON"):
            rebuild(text[:end])


def test_deep_nesting_is_refused():
    with pytest.raises(ValueError, match="model description"):
        rebuild("[" * 200_000)
    deep = '{"format": "bayesdrop model", "version": 1, "model": ' + "[" * 900 + "]" * 900 + "}"
    with pytest.raises(ValueError, match="model description"):
        rebuild(deep)


@pytest.mark.parametrize("labels", [["no", "yes"], [0, 1], [-1, 1], [0.5, 1.5], [False, True], np.array(["a", "b"])])
def test_labels_keep_their_types(labels):
    again = read_classes(attributes(bd.Model(), labels)["classes"])
    assert again.dtype == np.asarray(labels).dtype
    np.testing.assert_array_equal(again, labels)


@pytest.mark.parametrize("text", ["", "[0", "[0]", '{"a": 1}', "[[0], 1]", "[null, 1]"])
def test_damaged_labels_are_refused(text):
    with pytest.raises(ValueError, match="two labels"):
        read_classes(text)


def test_labels_of_another_number_are_refused(build):
    post = build(bd.Model(), np.zeros((1, 2, 2)), intercept=0.0, rate=0.5, classes=["a", "b", "c"])
    with pytest.raises(ValueError, match="expected 2 labels"):
        bd.predict(post, np.zeros((1, 2)))
