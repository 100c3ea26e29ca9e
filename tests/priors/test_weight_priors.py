"""A prior of the weights of the user's own, and a normal one so wide that the noise alone penalises."""

import numpy as np
import pytest
from scipy.optimize import minimize

import bayesdrop as bd


class Unfinished:
    """The normal prior without its density."""

    gaussian, has_mean, relative = True, True, False
    of_columns = absolute = check = learnt_scale = precision = first_precision = constants = init = bd.Normal.check
    location = bd.Normal.check
    sample_precision = record = log_scale_density = staticmethod(bd.Normal.record)

    def __repr__(self):
        return "Unfinished()"


def test_the_refusal_of_an_unfinished_prior_names_what_it_lacks():
    expected = r"^weight_prior: expected an object such as bd\.Normal\(1\.0\), got "
    lacks = r"it has no of_responses, in_units, absolute_penalty, sample_weight, log_density\.$"
    with pytest.raises(TypeError, match=expected + r"Unfinished\(\); " + lacks):
        bd.Model(weight_prior=Unfinished())
    with pytest.raises(TypeError, match=expected + r"3\.$"):
        bd.Model(weight_prior=3)


def test_a_scale_of_ten_thousand_leaves_the_penalty_to_the_noise():
    """On columns that separate the rows, where nothing but the noise keeps the weights finite."""
    X, rate = np.random.default_rng(0).normal(size=(40, 3)), 0.3
    X[:, 0] += np.sign(X[:, 0])
    y = np.sign(X[:, 0])

    def penalised_by_noise(w):
        mean, var = (1 - rate) * X @ w[:3] + w[3], rate * (1 - rate) * X**2 @ w[:3] ** 2
        return np.sum(np.log(2 * np.cosh(np.sqrt(mean**2 + var) / 2)) - y * mean / 2)

    model = bd.Model(rates=bd.Fixed(rate), weight_prior=bd.Normal(1e4))
    fit = bd.fit(model, X, y, method=bd.Newton(tol=1e-10))
    alone = minimize(penalised_by_noise, np.zeros(4), method="BFGS", options={"gtol": 1e-8})
    np.testing.assert_allclose([*np.ravel(fit.weight), *np.ravel(fit.intercept)], alone.x, rtol=1e-5)
