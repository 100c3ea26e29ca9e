"""Effects of the features, by a fit, an estimator or a posterior: weights and average marginal effects."""
