"""What the features do, by a fit, an estimator or a posterior: tables of weights and average marginal effects."""
