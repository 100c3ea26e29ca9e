r"""The model of :mod:`bayesdrop.models.feature_noising` with both augmentations: masks, and variables of the loss.

    logistic: ω ~ PG(C, s), y ~ σ((2y − 1)s)^C       hinge: λ ~ Exp(½), y enters through 2 e^{−cζ} N(cζ; 0, λ)

with ``c = C/2``, ``ζ = 1 − (2y − 1)s``, ``Z = [1, X∘α]`` and full conditionals (Polson & Scott 2011; Polson et al. 2013)

    ω_i | · ~ PG(C, s_i), κ_i = C(y_i − ½)     or     λ_i | · ~ GIG(½, 1, c²ζ_i²), ω_i = c²/λ_i, κ_i = (2y_i − 1)(ω_i + c)
    (b, w) | · ~ N(Q⁻¹Zᵀκ, Q⁻¹),   Q = diag(1/intercept_scale², 1/scale²) + ZᵀΩZ
    logit P(α_id = 1 | ·) = log(1 − η_d) − log η_d + u(κ_i − ω_i(s_i⁻ + u/2)),   u = w_d x_id, s_i⁻ the score without it
    η_d | · ~ Beta(A + #dropped, B + #kept)   over the entries that are not zero

``conditionals`` draws from them under NumPyro's HMCGibbs, the intercept left to NUTS. ``bd.sample`` has the same law.
"""  # noqa: E501

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import NUTS, HMCGibbs

from bayesdrop.distributions import HingeGivenScale, LogisticPseudoLikelihood, PolyaGamma, reciprocal_inverse_gaussian
from bayesdrop.models.feature_noising import enumerated, masked_scores
from bayesdrop.models.observed import check_labels
from bayesdrop.models.scales import draw_weights
from bayesdrop.models.steps import six_steps

__all__ = ["conditionals", "demonstrate", "program"]


def program(X, y=None, hinge=False, C=1.0, A=1.0, B=1.0, groups=None, scale=1.0, intercept_scale=2.5):
    """``X`` (n, p), ``y`` (n,) of 0 and 1; Polya-Gamma variables, or latent scales if ``hinge``."""
    check_labels(y, len(X))
    score = masked_scores(X, groups, A, B, scale, intercept_scale)
    with numpyro.plate("obs_id", len(X)):
        if hinge:
            likelihood = HingeGivenScale(score, numpyro.sample("latent_scale", dist.Exponential(0.5)), C)
        else:
            likelihood = LogisticPseudoLikelihood(score, C)
            numpyro.sample("omega", PolyaGamma(C, score))
        numpyro.sample("y", likelihood, obs=y)


def conditionals(X, y, hinge=False, C=1.0, A=1.0, B=1.0, scale=1.0):
    """Return the ``gibbs_fn`` of HMCGibbs for all sites but the intercept; one rate per feature."""

    def draw(rng_key, gibbs_sites, hmc_sites):
        kept, rate, b, sites = gibbs_sites["kept"], gibbs_sites["rate"], hmc_sites["intercept"], {}
        keys, sign, c = jax.random.split(rng_key, 4), 2 * y - 1, 0.5 * C
        score = (X * kept) @ gibbs_sites["weight"] + b
        if hinge:
            sites["latent_scale"] = reciprocal_inverse_gaussian(keys[0], jnp.abs(c * (1 - sign * score)))
            omega = c**2 / sites["latent_scale"]
        else:
            omega = sites["omega"] = PolyaGamma(C, score).sample(keys[0])
        kappa = sign * (omega + c) if hinge else C * (y - 0.5)
        Z = X * kept
        weight = draw_weights(keys[1], Z, omega, kappa - omega * b, scale)
        score = Z @ weight + b
        for d in range(X.shape[1]):
            u = X[:, d] * weight[d]
            without = score - kept[:, d] * u
            logit = jnp.log1p(-rate[d]) - jnp.log(rate[d]) + u * (kappa - omega * (without + u / 2))
            one = jax.random.bernoulli(jax.random.fold_in(keys[2], d), jax.nn.sigmoid(logit))
            kept, score = kept.at[:, d].set(one.astype(kept.dtype)), without + one * u
        dropped, stayed = (jnp.sum((X != 0) & (kept == one), axis=0) for one in (0, 1))
        return {**sites, "weight": weight, "kept": kept, "rate": jax.random.beta(keys[3], A + dropped, B + stayed)}

    return draw


def demonstrate(**options):
    """Run the six steps on 30 rows, the conditionals under HMCGibbs."""
    X = jax.random.normal(jax.random.key(1), (30, 2))
    options["kernel"] = lambda p, y: HMCGibbs(NUTS(p), conditionals(X, y), ["omega", "weight", "kept", "rate"])
    return six_steps(program, X, smooth=enumerated, **options)


if __name__ == "__main__":
    demonstrate()
