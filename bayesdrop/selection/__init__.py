"""Choosing the dropout rate and ``C``: folds, paths and cross-validation."""
