"""Samplers with dropout masks, for one score per row and for many classes: states, kernels and their moves."""
