"""Predictors with one hidden layer whose inputs are noised."""
