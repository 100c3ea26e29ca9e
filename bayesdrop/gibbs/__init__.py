"""Gibbs samplers of the feature-noising model, masks included, and of the pseudo-posterior under averaged noise."""
