"""Labels keep their type, and classes their weights, in files as in memory."""

import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop._stored import read_classes, stored_classes
from bayesdrop.description import attributes

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
POSITIVE = (X[:, 0] > 0).astype(int)
LABELS = {
    "uint64": np.array([3, 2**63 + 5], dtype=np.uint64),
    "int8": np.array([-1, 1], dtype=np.int8),
    "single precision": np.array([1.0, 2.0], dtype=np.float32),
    "days": np.array(["2020-01-01", "2021-05-01"], dtype="datetime64[D]"),
    "nanoseconds": np.array(["2020-01-01", "2021-05-01"], dtype="datetime64[ns]"),
    "spans": np.array([1, 3], dtype="timedelta64[h]"),
    "truth values": np.array([False, True]),
    "text": np.array(["no", "yes"]),
    "whole numbers": np.array([1, 2]),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels_of_a_file_are_those_of_the_fit(name, tmp_path):
    y = LABELS[name][POSITIVE]
    fit = bd.fit(bd.Model(rates=bd.Fixed(0.1)), X, y, class_weight="balanced")
    fit.save(tmp_path / "fit.nc")
    again = bd.Fit.load(tmp_path / "fit.nc")
    assert again.classes.dtype == fit.classes.dtype == y.dtype
    np.testing.assert_array_equal(again.classes, LABELS[name])
    np.testing.assert_array_equal(again.predict(X).label, fit.predict(X).label)
    assert again.predict(X).label.dtype == y.dtype
    assert again.class_weight == fit.class_weight


@pytest.mark.parametrize(
    ("text", "dtype"),
    [("[1, 300]", "|i1"), ("[1, -2]", "<u8"), ('["a", "b"]', "<M8[D]"), ("[1, 2]", "O"), ("[1, 2]", "no type")]
    + [("[1, 2]", "|S1"), ("[1, -9223372036854775808]", "<M8[D]"), ("[1.25, 1.5]", "<i8"), ("[1, 2]", 7)],
)
def test_types_that_do_not_hold_the_labels_are_refused(text, dtype):
    with pytest.raises(ValueError, match="classes: expected labels of a type of numbers or dates"):
        read_classes(text, dtype)


def test_a_type_is_named_where_numbers_do_not_say_it():
    assert "classes_type" not in attributes(bd.Model(), np.array(["no", "yes"]))
    assert attributes(bd.Model(), LABELS["uint64"])["classes_type"] == "<u8"
    assert stored_classes(attributes(bd.Model(), LABELS["int8"])).dtype == np.int8


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("given", ["balanced", {0: 1.0, 1: 4.0}])
def test_a_fit_knows_the_weights_of_its_classes(many, given, tmp_path):
    """Its table needs no weights by hand, in memory or from a file; those by hand are the same."""
    y = np.where(X[:, 1] > 0.8, 2, POSITIVE) if many else POSITIVE
    model = bd.Model(bd.Softmax() if many else bd.Logistic(), rates=bd.Fixed(0.0))
    fit = bd.fit(model, X, y, class_weight=given)
    factor = np.array([fit.class_weight[label] for label in y])
    by_hand = bd.fit(model, X, y, sample_weight=factor)
    np.testing.assert_allclose(fit.weight, by_hand.weight, rtol=1e-6)
    expected = bd.weights_table(by_hand)
    fit.save(tmp_path / "fit.nc")
    for one in (fit, bd.Fit.load(tmp_path / "fit.nc")):
        np.testing.assert_allclose(bd.weights_table(one)["sd"], expected["sd"], rtol=1e-5)
    assert by_hand.class_weight is None
