"""The table of normal approximations: every row is taken, by a case and by a model with data."""

from pathlib import Path

import jax
import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.hmc.approximations.choices import CHOICES, Case, Limits, case_of, choose

PLAIN = Case(2000, 5000, 1, True, False, False, False, False, False, True, False)
CASES = {
    "scores": [PLAIN, PLAIN._replace(n=6000)],
    "rows": [
        PLAIN._replace(noisy=True, variance=True),
        PLAIN._replace(free=True, noisy=True),
        PLAIN._replace(learnt=True),
    ],
    "directions": [PLAIN._replace(n=6001), PLAIN._replace(n=3000, p=2000, noisy=True)],
    "eigenvectors": [PLAIN._replace(n_classes=3), PLAIN._replace(n_classes=3, p=4000, streamed=True, local=False)],
    "dense": [
        PLAIN._replace(p=1499),
        PLAIN._replace(n_classes=3, p=749),
        PLAIN._replace(p=9, streamed=True, local=False),
    ],
    "diagonal": [
        PLAIN._replace(local=False, streamed=True),
        PLAIN._replace(shift=True),
        PLAIN._replace(curved=False),
        PLAIN._replace(n_classes=3, n=5000),
        PLAIN._replace(n_classes=3, free=True),
        PLAIN._replace(n_classes=3, p=4001, streamed=True, local=False),
    ],
}


def test_every_row_has_a_case():
    assert list(CASES) == [choice.name for choice in CHOICES]
    assert all(choice.what and choice.because for choice in CHOICES)


def test_the_page_has_the_table():
    page = (Path(__file__).parents[3] / "docs" / "algorithms_and_costs.md").read_text(encoding="utf-8")
    rows = [f"| `{choice.name}` | {choice.what} | {choice.because} |" for choice in CHOICES]
    assert "\n".join(rows) in page


@pytest.mark.parametrize("name", CASES)
def test_the_first_row_that_holds_is_taken(name):
    assert [choose(case, Limits()).name for case in CASES[name]] == [name] * len(CASES[name])


MODELS = {
    "scores": (bd.Model(rates=bd.Fixed(0.0)), Limits(dense=2)),
    "rows": (bd.Model(), Limits(dense=2)),
    "directions": (bd.Model(), Limits(dense=2, rows=0)),
    "eigenvectors": (bd.Model(bd.Softmax(), rates=bd.Fixed(0.0)), Limits(dense=2)),
    "dense": (bd.Model(), Limits()),
    "diagonal": (bd.Model(bd.Softmax(), rates=bd.Fixed(0.0)), Limits(dense=2, eigenvectors=1)),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_kernel_says_what_was_taken(name):
    (model, limits), rng = MODELS[name], np.random.default_rng(0)
    X, many = rng.normal(size=(12, 10)), model.loss.multiclass
    y = np.arange(12) % (3 if many else 2)
    data = as_dataset(X, y if many else 2.0 * y - 1, None, None, not many, multiclass=many).with_weight()
    rate_map = model.bind(data.feature_names)
    assert choose(case_of(model, data, rate_map, many), limits).name == name
    with jax.enable_x64(False):
        kernel, _ = bd.HMC(limits=limits).bind(model, data, rate_map, 4, marginalised=many)
    assert kernel.told == {"normal_approximation": name}


def test_a_posterior_says_what_was_taken():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 2))
    options = {"draws": 4, "tune": 4, "chains": 2, "progress": False}
    with pytest.warns(bd.warnings.MixingWarning):
        post = bd.sample(bd.Model(rates=bd.Fixed(0.0)), X, X[:, 0] > 0, method=bd.HMC(), **options)
    assert bd.groups.dataset(post, "sample_stats").attrs["normal_approximation"] == "dense"
