from . import baselines, distributions, losses, models, plots
from .data.formulas.formula import FormulaDesign, from_formula
from .data.formulas.transformer import FormulaTransformer
from .designs import Blocks
from .designs.dask.cluster import cluster
from .effects.comparisons import comparisons, predictions_grid
from .effects.hypotheses import hypothesis
from .effects.intraclass import intraclass_correlation
from .effects.marginal import marginal_effects
from .effects.table import weights_table
from .estimators import (
    DropoutLogisticRegression,
    DropoutNegativeBinomialRegressor,
    DropoutPoissonRegressor,
    DropoutQuantileRegressor,
    DropoutRidge,
    DropoutSVC,
    DropoutSVR,
)
from .estimators.robustness import delete_features, deletion_scorer
from .factorization import DropoutMatrixFactorization, sample_factorization
from .fitting.fit import fit
from .fitting.results.result import Fit
from .fitting.solvers.em import EM
from .fitting.solvers.newton import Newton
from .gibbs.method import Gibbs
from .gibbs.numpyro_block import WeightsBlock
from .hmc.method import HMC
from .hmc.nuts import NUTS
from .latent.estimators import LatentDropoutLogisticRegression, LatentDropoutSVC
from .latent.minimisers.alternating import Alternating
from .latent.minimisers.lbfgs import LBFGS
from .latent.sampling import sample_latent
from .losses import (
    Binomial,
    EpsilonInsensitive,
    Hinge,
    Logistic,
    NegativeBinomial,
    Poisson,
    Quantile,
    Softmax,
    Squared,
)
from .model import Model
from .noise import Dropout, GaussianNoise, LaplaceNoise, MultiplicativeNoise, PoissonNoise
from .posterior.arviz_groups import groups
from .posterior.credible_sets import credible_sets
from .posterior.diagnostics.diagnosis import Diagnosis, diagnose
from .posterior.diagnostics.mixing import largest_r_hat
from .posterior.draws.draws_table import draws_table
from .posterior.draws.log_prior import log_prior
from .posterior.held_out import Elpd, elpd, kfold
from .posterior.leave_one_out import loo
from .posterior.noise_average.regularizer import regularizer
from .posterior.numpyro_kernel import NumpyroKernel
from .posterior.prediction import Prediction, predict
from .posterior.priors_table import priors_table
from .posterior.projection.path import Projection
from .posterior.projection.project import project
from .posterior.sampling import sample
from .posterior.scores.pointwise import log_likelihood
from .posterior.scores.reweighting import reweight
from .posterior.simulation import posterior_predictive, prior_draws
from .priors import Beta, Gamma, HalfCauchy, HalfNormal, Horseshoe, InverseGamma, Laplace, Normal, SpikeSlab
from .program_cache import cache_programs
from .rates import Fixed, Hierarchical, PerFeature, PerGroup, Shared, Tuned
from .sampling.run.stopping import Stop
from .selection.cross_validation import DropoutLogisticRegressionCV, DropoutSVCCV
from .selection.path import RatePath
from .selection.regressors import DropoutRidgeCV, DropoutSVRCV
from .variational_bayes.fitting import variational
from .variational_bayes.result import Variational
from .warnings import (
    AccuracyWarning,
    ApproximationWarning,
    DefaultModelWarning,
    FormulaWarning,
    IncompleteWarning,
    InfluenceWarning,
    MissingWarning,
    MixingWarning,
    NarrowIntervalsWarning,
    PseudoLikelihoodWarning,
    SelectionWarning,
    UnscaledWarning,
)

__version__: str

__all__ = [
    "EM",
    "HMC",
    "LBFGS",
    "NUTS",
    "AccuracyWarning",
    "Alternating",
    "ApproximationWarning",
    "DefaultModelWarning",
    "Beta",
    "Binomial",
    "Blocks",
    "Diagnosis",
    "Dropout",
    "DropoutLogisticRegression",
    "DropoutLogisticRegressionCV",
    "DropoutMatrixFactorization",
    "DropoutNegativeBinomialRegressor",
    "DropoutPoissonRegressor",
    "DropoutQuantileRegressor",
    "DropoutRidge",
    "DropoutRidgeCV",
    "DropoutSVC",
    "DropoutSVCCV",
    "DropoutSVR",
    "DropoutSVRCV",
    "Elpd",
    "EpsilonInsensitive",
    "Fit",
    "Fixed",
    "FormulaDesign",
    "FormulaTransformer",
    "FormulaWarning",
    "Gamma",
    "GaussianNoise",
    "Gibbs",
    "HalfCauchy",
    "HalfNormal",
    "Hierarchical",
    "Hinge",
    "Horseshoe",
    "IncompleteWarning",
    "InfluenceWarning",
    "MissingWarning",
    "InverseGamma",
    "Laplace",
    "LaplaceNoise",
    "LatentDropoutLogisticRegression",
    "LatentDropoutSVC",
    "Logistic",
    "MixingWarning",
    "Model",
    "MultiplicativeNoise",
    "NarrowIntervalsWarning",
    "NegativeBinomial",
    "Newton",
    "Normal",
    "NumpyroKernel",
    "PerFeature",
    "PerGroup",
    "Poisson",
    "PoissonNoise",
    "Prediction",
    "Projection",
    "PseudoLikelihoodWarning",
    "Quantile",
    "RatePath",
    "SelectionWarning",
    "Shared",
    "Softmax",
    "SpikeSlab",
    "Squared",
    "Stop",
    "Tuned",
    "UnscaledWarning",
    "Variational",
    "WeightsBlock",
    "__version__",
    "baselines",
    "cache_programs",
    "cluster",
    "comparisons",
    "credible_sets",
    "delete_features",
    "deletion_scorer",
    "diagnose",
    "distributions",
    "draws_table",
    "elpd",
    "fit",
    "from_formula",
    "groups",
    "hypothesis",
    "intraclass_correlation",
    "kfold",
    "largest_r_hat",
    "log_likelihood",
    "log_prior",
    "loo",
    "losses",
    "marginal_effects",
    "models",
    "plots",
    "posterior_predictive",
    "predict",
    "predictions_grid",
    "prior_draws",
    "priors_table",
    "project",
    "regularizer",
    "reweight",
    "sample",
    "sample_factorization",
    "sample_latent",
    "variational",
    "weights_table",
]
