"""Effects of the features, from a fit, an estimator or a posterior: weights and average marginal effects."""
