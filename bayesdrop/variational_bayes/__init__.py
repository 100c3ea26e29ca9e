"""Variational Bayes: a mean field of the feature-noising model, in closed form."""
