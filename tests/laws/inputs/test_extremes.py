"""Numbers of 1e-12 to 1e12: what changes a problem in no way changes no answer.

A row's loss counts by C times its weight, so weights of s beside C of 1/s are none; a squared loss and a normal prior
make weights that scale with the response.
"""

import numpy as np
import pytest

import bayesdrop as bd

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 3))
NUMBERS = X @ [1.0, -2.0, 0.5] + 0.3 * RNG.normal(size=N)
HALF = (NUMBERS > 0).astype(int)
THREE = np.arange(N) % 3
COUNTS = RNG.poisson(2.0, N).astype(float)
SIZES = [1e-12, 1e-6, 1e6, 1e12]

MODELS = {
    "logistic": (lambda C: bd.DropoutLogisticRegression(0.2, C=C), HALF, "decision_function"),
    "softmax": (lambda C: bd.DropoutLogisticRegression(0.2, C=C, multiclass="softmax"), THREE, "predict_proba"),
    "hinge": (lambda C: bd.DropoutSVC(0.2, C=C), HALF, "decision_function"),
    "squared": (lambda C: bd.DropoutRidge(0.2, C=C), NUMBERS, "predict"),
    "epsilon": (lambda C: bd.DropoutSVR(0.2, C=C), NUMBERS, "predict"),
    "quantile": (lambda C: bd.DropoutQuantileRegressor(rates=0.2, C=C), NUMBERS, "predict"),
    "counts": (lambda C: bd.DropoutPoissonRegressor(0.2, C=C), COUNTS, "predict"),
}  # fmt: skip


def _answer(name, C=1.0, weight=None, y=None):
    make, target, method = MODELS[name]
    return getattr(make(C).fit(X, target if y is None else y, sample_weight=weight), method)(X)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", MODELS)
def test_weights_of_rows_are_those_of_the_loss(name, size):
    weight = np.full(N, size)
    np.testing.assert_allclose(_answer(name, 1.0, weight), _answer(name, size), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(_answer(name, 1 / size, weight), _answer(name), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_predictions_scale_with_the_response(size):
    np.testing.assert_allclose(_answer("squared", y=size * NUMBERS) / size, _answer("squared"), rtol=1e-9, atol=1e-12)


def test_a_rate_next_to_none_is_none():
    for name, rate in (("DropoutLogisticRegression", 1e-12), ("DropoutRidge", 1e-12)):
        y = NUMBERS if "Ridge" in name else HALF
        weights = [getattr(bd, name)(one).fit(X, y).coef_ for one in (0.0, rate)]
        # The curvature of a rate of η is η times the rows' squares, so weights move by some η.
        np.testing.assert_allclose(weights[1], weights[0], rtol=1e-9)


@pytest.mark.parametrize("kind", ["longdouble", "float16", "float32", ">f8"])
def test_a_loss_weight_of_every_type_is_its_number(kind):
    C = np.longdouble(0.5) if kind == "longdouble" else np.dtype(kind).type(0.5)
    np.testing.assert_array_equal(_answer("logistic", C), _answer("logistic", 0.5))
    assert type(bd.Model(C=C).C) in (float, np.float64)
    baselines = bd.baselines.MCFLogistic(C=C).fit(X, HALF), bd.baselines.MCFLogistic(C=0.5).fit(X, HALF)
    np.testing.assert_array_equal(baselines[0].coef_, baselines[1].coef_)
