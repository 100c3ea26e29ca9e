"""Baselines of papers on dropout training and on words: explicit corruption, MCF, FDROP and NBSVM."""

from .explicit_corruption import ExplicitCorruption
from .fdrop import FDROP
from .mcf import MCFExponential, MCFLogistic, MCFQuadratic
from .nbsvm import NBSVM

__all__ = ["FDROP", "NBSVM", "ExplicitCorruption", "MCFExponential", "MCFLogistic", "MCFQuadratic"]
