"""Masks that are summed over: the likelihood of a row over all its masks, and the sampler that it judges."""
