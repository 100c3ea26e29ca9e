"""Matrix factorisation with dropout on its columns: the optimum, its solvers and the Bayesian form."""

from .estimator import DropoutMatrixFactorization
from .sampling import sample_factorization

__all__ = ["DropoutMatrixFactorization", "sample_factorization"]
