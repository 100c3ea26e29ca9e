"""How well a posterior predicts: pointwise likelihoods, leave-one-out and folds, and weights of the draws."""
