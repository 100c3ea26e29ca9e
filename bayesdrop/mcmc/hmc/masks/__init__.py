"""Masks that are summed over: exact sums of the noising model for one weight at a time, and their sampler."""
