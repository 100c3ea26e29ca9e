"""Baselines that papers on dropout training compare with: explicit corruption, marginalised losses, worst deletion."""

from .explicit_corruption import ExplicitCorruption
from .fdrop import FDROP
from .mcf import MCFExponential, MCFLogistic, MCFQuadratic

__all__ = ["FDROP", "ExplicitCorruption", "MCFExponential", "MCFLogistic", "MCFQuadratic"]
