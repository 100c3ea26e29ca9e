"""A loss of one's own: what ``Loss`` and ``Curved`` ask for is enough for Newton's method; the rest refuses it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import optimize
from scipy.special import ndtr

import bayesdrop as bd
from bayesdrop.losses import Derivatives, Loss
from bayesdrop.losses.protocols import Augmented, Curved, Sloped


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """``max(0, 1 − y s)²``; of ``ζ ~ N(1 − y m, v)`` it expects ``(ζ² + v) Φ(ζ/√v) + ζ √v φ(ζ/√v)``."""

    binary: ClassVar[bool] = True

    @staticmethod
    def _normal(mean: Any, var: Any) -> tuple[Any, Any, Any]:
        spread = np.sqrt(np.maximum(var, 1e-30))
        z = np.clip(mean / spread, -40, 40)
        return spread, ndtr(z), np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)

    def value(self, y: Any, mean: Any, var: Any) -> Any:
        slack = 1 - y * mean
        spread, below, density = self._normal(slack, var)
        return (slack**2 + var) * below + slack * spread * density

    def derivatives(self, y: Any, mean: Any, var: Any) -> Derivatives:
        slack = 1 - y * mean
        spread, below, density = self._normal(slack, var)
        return Derivatives(
            mean=-2 * y * (slack * below + spread * density),
            var=below,
            mean_mean=2 * below,
            mean_var=-y * density / spread,
            var_var=-0.5 * slack * density / spread**3,
        )


def data(n=80, p=4):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    return X, np.where(X @ rng.normal(size=p) + rng.normal(size=n) > 0, 1, -1)


def test_it_is_curved_and_nothing_else():
    assert isinstance(SquaredHinge(), Loss)
    assert isinstance(SquaredHinge(), Curved)
    assert not isinstance(SquaredHinge(), Sloped | Augmented)


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_newton_reaches_the_minimum_that_bfgs_reaches(rate):
    X, y = data()
    fit = bd.fit(bd.Model(SquaredHinge(), rates=bd.Fixed(rate), C=0.5), X, y, method=bd.Newton(tol=1e-12))

    def energy(theta):
        mean, var = (1 - rate) * X @ theta[:-1] + theta[-1], rate * (1 - rate) * X**2 @ theta[:-1] ** 2
        return 0.5 * theta[:-1] @ theta[:-1] + 0.5 * np.sum(SquaredHinge().value(y, mean, var))

    best = optimize.minimize(energy, np.zeros(5), method="BFGS", options={"gtol": 1e-7})
    assert fit.objective_trace[-1] == pytest.approx(best.fun, rel=1e-8)
    np.testing.assert_allclose(np.append(fit.weight, fit.intercept), best.x, atol=1e-4)


def test_an_estimator_takes_it_and_learns_rates():
    class DropoutSquaredSVC(bd.DropoutSVC):
        def _loss(self):
            return SquaredHinge()

    X, y = data()
    model = DropoutSquaredSVC(bd.PerFeature(bd.Beta(1, 1))).fit(X, y)
    assert model.score(X, y) > 0.8
    assert np.all((model.rates_ >= 0) & (model.rates_ <= 1))
    with pytest.raises(ValueError, match="class probability needs a loss that is Classifying.*no .*probability"):
        model.predict_proba(X)
    # Chosen by margins and calibrated: neither needs probabilities of the loss.
    tuned = DropoutSquaredSVC().fit(X, y)
    assert tuned.selection_.scoring == "error + log loss"
    assert tuned.predict_proba(X).argmax(axis=1).tolist() == (tuned.predict(X) > 0).tolist()


def test_a_likelihood_without_probabilities_is_not_chosen_by_them():
    @dataclass(frozen=True)
    class Likelihood(SquaredHinge):
        normalised: ClassVar[bool] = True

    X, y = data()
    with pytest.raises(ValueError, match="a choice by log loss needs a loss that is Classifying"):
        bd.fit(bd.Model(Likelihood(), rates=bd.Tuned()), X, y)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, X, y: bd.fit(m, X, y, method=bd.EM()), "EM needs a loss that is Augmented.*no pseudo.*bd.Newton"),
        (
            lambda m, X, y: bd.sample(m, X, y, method=bd.Gibbs()),
            "bd.Gibbs needs a loss that is Augmented.*no pseudo.*bd.HMC",
        ),
        (lambda m, X, y: bd.sample(m, X, y, method=bd.HMC()), "bd.HMC needs a loss that is Scored.*score_cost"),
        (lambda m, X, y: bd.variational(m, X, y), "variational Bayes needs a loss that is Augmented.*bd.Newton"),
    ],
    ids=["EM", "Gibbs", "HMC", "variational"],
)
def test_what_needs_more_says_what(call, message):
    X, y = data()
    with pytest.raises(ValueError, match=message):
        call(bd.Model(SquaredHinge(), rates=bd.Fixed(0.3)), X, y)
