r"""Softmax loss of ``K`` classes, ``log Σ_k exp(s_k) − s_y``, with a score for every class.

The noise moves the scores of a row together: a row has a mean ``m`` (K,) and a covariance ``V`` (K, K), and
``φ(y, m, V) = log Σ exp(m_k) − m_y + R(m, V)`` with ``R`` of :mod:`.softmax_forms`, which does not depend on ``y``
(Wager, Wang & Liang 2013). A number that is added to all scores changes nothing: the weights of the classes are known
up to a common vector, and results hold those that sum to zero over the classes.

**Rates of the classes.** By default an entry is dropped from all scores at once, and a feature has one rate. With
``class_rates=True`` every class drops entries by itself, at rates of its own, as one class against the rest does:

    η_kd ~ prior,   α_ikd ~ Bernoulli(1 − η_kd) where x_id ≠ 0,   s_ik = Σ_d w_kd k(η_kd) x_id α_ikd + b_k,

``k(η)`` being what the noise multiplies a kept entry by. A feature may then be noise for one class and speak for
another. Given the weights the scores are independent, ``V`` is diagonal, and nothing is left that all weights of a
feature may share: results hold the weights as they are, and only the intercepts sum to zero.

Given the scores of the other classes, ``ψ_k = s_k − log Σ_{l≠k} exp(s_l)`` is the score of a logistic regression of
class ``k`` against the rest, so that ``ω_k ~ PG(1, ψ_k)`` makes it a Gaussian pseudo-observation, class by class
(Holmes & Held 2006; Polson, Scott & Windle 2013, section 3): :mod:`bayesdrop.gibbs.classes.kernel`. No
augmentation bound of all classes at once comes with it, and there is no form of that name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._typing import Float, Int
from .._validation import check_flag
from .base import Loss, choose_form, misplaced_expectation
from .softmax_forms import FORMS, expected_softmax, log_sum_exp

__all__ = ["Softmax"]


@dataclass(frozen=True)
class Softmax(Loss):
    """Softmax loss, the negative log-likelihood of multinomial logistic regression, of any number of classes.

    A point fit holds numbers for all rows and classes at once, some 85 bytes for each with noise and 40 without: beyond
    some hundreds of classes ``multiclass="one_vs_rest"`` of the estimators takes less.

    Parameters
    ----------
    expectation : str
        ``"taylor"`` (default) or ``"gaussian"``: what the noise adds to the loss, in point fits and in
        ``target="marginalised"``. The posterior of the noising model draws the masks and needs neither.
    class_rates : bool
        Each class has masks and rates of its own; by default all classes share them. Rates, those of groups and a
        single one too, are then (K, …), and ``bd.Fixed`` gives all classes the same numbers.

    Raises
    ------
    ValueError
        If there is no such form.

    Examples
    --------
    >>> import numpy as np
    >>> Softmax().value(np.array([2]), np.zeros((1, 3)), np.zeros((1, 3, 3))).round(4).tolist()
    [1.0986]
    """

    expectation: str = "taylor"
    class_rates: bool = False
    binary: ClassVar[bool] = False
    multiclass: ClassVar[bool] = True
    separable: ClassVar[bool] = True
    normalised: ClassVar[bool] = True

    def __post_init__(self) -> None:
        advice = misplaced_expectation(self.expectation, FORMS)
        check_flag(self.class_rates, "class_rates")
        choose_form(FORMS, self.expectation, "Softmax", "" if advice else " The samplers need none of them.")

    @property
    def convex(self) -> bool:
        """See :class:`bayesdrop.losses.base.Loss`."""
        return self.expectation == "gaussian"

    def value(
        self, y: Int[np.ndarray, " n"], mean: Float[np.ndarray, "n K"], var: Float[np.ndarray, "n K K"]
    ) -> Float[np.ndarray, " n"]:
        """Marginalised loss (n,) of classes (n,), means (n, K) and covariances (n, K, K)."""
        level, _ = log_sum_exp(mean)
        plain = level - np.take_along_axis(mean, y[:, None], axis=1)[:, 0]
        return np.asarray(plain + FORMS[self.expectation](mean, var)[0]) if np.any(var) else plain

    def log_constant(self, weight: Any) -> Float[np.ndarray, ...]:
        """Zero; see :class:`bayesdrop.losses.protocols.Simulated`."""
        return np.zeros(np.shape(weight))

    def probability(self, score: Float[np.ndarray, "*rows K"], weight: Any = 1.0) -> Float[np.ndarray, "*rows K"]:
        """Probability of each class given the scores, over the last axis; ``C`` tempers the posterior, not them."""
        del weight
        return log_sum_exp(score)[1]

    def expected_probability(
        self, mean: Float[np.ndarray, "n K"], var: Float[np.ndarray, "n K K"], weight: float = 1.0
    ) -> Float[np.ndarray, "n K"]:
        """Expectation of :meth:`probability` for normal scores (n, K), over quasi-random points."""
        del weight
        return expected_softmax(mean, var)

    def sample_response(
        self, generator: np.random.Generator, score: Float[np.ndarray, "*rows K"], weight: Any = 1.0
    ) -> Int[np.ndarray, "*rows"]:
        """Draw classes (…) by number, given the scores (…, K): the largest of scores and Gumbel numbers."""
        del weight
        return np.asarray(np.argmax(score + generator.gumbel(size=score.shape), axis=-1))
