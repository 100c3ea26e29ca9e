"""Linear models regularised by feature noise, with the noise learnt and its posterior known.

>>> import bayesdrop as bd
>>> bd.Model(loss=bd.Hinge(), rates=bd.PerFeature(bd.Beta(1, 1)), C=0.1).C
0.1

Names are imported when first used, so that ``import bayesdrop`` is light.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

__version__ = _version("bayesdrop")

_HOME = {
    "Beta": "priors",
    "Blocks": "designs",
    "DropoutLogisticRegression": "estimators",
    "DropoutLogisticRegressionCV": "estimators",
    "DropoutMatrixFactorization": "factorization",
    "DropoutRidge": "estimators",
    "DropoutSVC": "estimators",
    "DropoutSVCCV": "estimators",
    "DropoutSVR": "estimators",
    "EpsilonInsensitive": "losses",
    "Squared": "losses",
    "Dropout": "noise",
    "EM": "inference",
    "Fit": "results",
    "Fixed": "rates",
    "GaussianNoise": "noise",
    "Gibbs": "inference",
    "HMC": "inference",
    "NUTS": "inference",
    "Gamma": "priors",
    "Horseshoe": "priors",
    "InverseGamma": "priors",
    "Laplace": "priors",
    "Hierarchical": "rates",
    "Hinge": "losses",
    "LaplaceNoise": "noise",
    "LatentDropoutLogisticRegression": "estimators",
    "LatentDropoutSVC": "estimators",
    "LBFGS": "latent.methods",
    "Alternating": "latent.methods",
    "Minibatch": "latent.methods",
    "Logistic": "losses",
    "Model": "model",
    "MultiplicativeNoise": "noise",
    "Newton": "inference",
    "Normal": "priors",
    "NumpyroKernel": "inference",
    "PerFeature": "rates",
    "PerGroup": "rates",
    "PoissonNoise": "noise",
    "RatePath": "path",
    "Shared": "rates",
    "Stop": "inference.stopping",
    "UnscaledWarning": "centring",
    "WeightsBlock": "inference",
    "delete_features": "robustness",
    "deletion_scorer": "robustness",
    "FormulaDesign": "formula",
    "cluster": "dask_cluster",
    "fit": "inference",
    "from_formula": "formula",
    "sample": "inference",
    "sample_latent": "latent.posterior",
    "sample_factorization": "factorization",
    "variational": "inference",
    "Diagnosis": "diagnosis",
    "Prediction": "prediction",
    "diagnose": "diagnosis",
    "log_likelihood": "pointwise",
    "loo": "pointwise",
    "posterior_predictive": "predictive",
    "predict": "prediction",
    "prior_draws": "predictive",
    "reweight": "inference.reweighting",
}
_MODULES = ("baselines", "distributions", "groups", "models", "plots")

__all__ = [
    "Alternating",
    "Beta",
    "Blocks",
    "Diagnosis",
    "Dropout",
    "DropoutLogisticRegression",
    "DropoutLogisticRegressionCV",
    "DropoutMatrixFactorization",
    "DropoutRidge",
    "DropoutSVC",
    "DropoutSVCCV",
    "DropoutSVR",
    "EM",
    "EpsilonInsensitive",
    "Fit",
    "Fixed",
    "FormulaDesign",
    "Gamma",
    "GaussianNoise",
    "Gibbs",
    "HMC",
    "Hierarchical",
    "Horseshoe",
    "InverseGamma",
    "LBFGS",
    "Laplace",
    "NUTS",
    "Hinge",
    "LaplaceNoise",
    "LatentDropoutLogisticRegression",
    "LatentDropoutSVC",
    "Logistic",
    "Minibatch",
    "Model",
    "MultiplicativeNoise",
    "Newton",
    "Normal",
    "NumpyroKernel",
    "PerFeature",
    "PerGroup",
    "PoissonNoise",
    "Prediction",
    "RatePath",
    "Shared",
    "Squared",
    "Stop",
    "UnscaledWarning",
    "WeightsBlock",
    "__version__",
    "delete_features",
    "deletion_scorer",
    "cluster",
    "diagnose",
    "fit",
    "from_formula",
    "log_likelihood",
    "loo",
    "posterior_predictive",
    "predict",
    "prior_draws",
    "reweight",
    "sample",
    "sample_factorization",
    "sample_latent",
    "variational",
]

if TYPE_CHECKING:
    from .centring import UnscaledWarning
    from .dask_cluster import cluster
    from .designs import Blocks
    from .diagnosis import Diagnosis, diagnose
    from .estimators import (
        DropoutLogisticRegression,
        DropoutLogisticRegressionCV,
        DropoutRidge,
        DropoutSVC,
        DropoutSVCCV,
        DropoutSVR,
        LatentDropoutLogisticRegression,
        LatentDropoutSVC,
    )
    from .factorization import DropoutMatrixFactorization, sample_factorization
    from .formula import FormulaDesign, from_formula
    from .inference import EM, HMC, NUTS, Gibbs, Newton, NumpyroKernel, WeightsBlock, fit, sample, variational
    from .inference.reweighting import reweight
    from .inference.stopping import Stop
    from .latent.methods import LBFGS, Alternating, Minibatch
    from .latent.posterior import sample_latent
    from .losses import EpsilonInsensitive, Hinge, Logistic, Squared
    from .model import Model
    from .noise import Dropout, GaussianNoise, LaplaceNoise, MultiplicativeNoise, PoissonNoise
    from .path import RatePath
    from .pointwise import log_likelihood, loo
    from .prediction import Prediction, predict
    from .predictive import posterior_predictive, prior_draws
    from .priors import Beta, Gamma, Horseshoe, InverseGamma, Laplace, Normal
    from .rates import Fixed, Hierarchical, PerFeature, PerGroup, Shared
    from .results import Fit
    from .robustness import delete_features, deletion_scorer


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    elif name in _MODULES:
        value = import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module 'bayesdrop' has no attribute {name!r}; the public names are {__all__}.")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_MODULES})
