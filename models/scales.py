"""A scale of the weights that is known, or learnt with them."""

import numpyro
import numpyro.distributions as dist

__all__ = ["weight_scale"]


def weight_scale(scale):
    """``scale`` as it is; if it is a law, such as ``HalfNormal(2.0)``, a draw from it, the site ``weight_scale``."""
    return numpyro.sample("weight_scale", scale) if isinstance(scale, dist.Distribution) else scale
