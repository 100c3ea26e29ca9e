"""Feature noises: five coefficients per feature, a sampler and a log-moment-generating function."""

from .base import Coefficients, Expansion, MaskNoise, Noise
from .dropout import Dropout
from .poisson import PoissonNoise
from .scaled import GaussianNoise, LaplaceNoise, MultiplicativeNoise

__all__ = [
    "Coefficients",
    "Dropout",
    "Expansion",
    "GaussianNoise",
    "LaplaceNoise",
    "MaskNoise",
    "MultiplicativeNoise",
    "Noise",
    "PoissonNoise",
]
