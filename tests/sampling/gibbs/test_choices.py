"""The table of draws of the weights: every row is taken, by a case and by a model with data."""

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.gibbs.choices import CHOICES, Case, Limits, choose

CASES = {
    "active_set": [Case(500, 30, True, True), Case(2000, 5000, False, True)],
    "cholesky": [Case(500, 30, True), Case(1500, 1500, True)],
    "woodbury": [Case(40, 300, True), Case(1500, 1501, True)],
    "conjugate_gradient": [Case(2000, 1600, True), Case(1501, 1600, True), Case(500, 30, False)],
}


def test_every_row_has_a_case():
    assert list(CASES) == [choice.name for choice in CHOICES]
    assert all(choice.what and choice.because for choice in CHOICES)


@pytest.mark.parametrize("name", CASES)
def test_the_first_row_that_holds_is_taken(name):
    assert [choose(case, Limits()).name for case in CASES[name]] == [name] * len(CASES[name])


MODELS = {
    "masks": (bd.Model(), False),
    "classes": (bd.Model(bd.Softmax()), False),
    "marginalised": (bd.Model(rates=bd.Fixed(0.1)), True),
    "spike and slab": (bd.Model(rates=bd.Fixed(0.0), weight_prior=bd.SpikeSlab()), True),
}


@pytest.mark.parametrize("kind", MODELS)
def test_the_kernel_says_what_was_taken(kind):
    (model, marginalised), rng = MODELS[kind], np.random.default_rng(0)
    many = model.loss.multiclass
    for name, shape, method, store in (
        ("cholesky", (12, 4), bd.Gibbs(), np.asarray),
        ("woodbury", (6, 9), bd.Gibbs(), np.asarray),
        ("conjugate_gradient", (6, 9), bd.Gibbs(limits=Limits(factored=2)), np.asarray),
        ("conjugate_gradient", (6, 9), bd.Gibbs(), sparse.csr_array),
    ):
        X, y = rng.normal(size=shape), np.arange(shape[0]) % (3 if many else 2)
        data = as_dataset(store(X), y if many else 2.0 * y - 1, None, None, not many, multiclass=many).with_weight()
        kernel, _ = method.bind(model, data, model.bind(data.feature_names), 4, marginalised)
        assert kernel.choices == {"weights_drawn_by": "active_set" if kind == "spike and slab" else name}
