"""Scores of a posterior: pointwise likelihoods, leave-one-out, folds, and importance weights of draws."""
