"""The samplers of masks, for one score a row and for many classes: states, kernels and the moves that these make."""
