"""Fit and sample predictors with one hidden layer whose inputs are noised."""
