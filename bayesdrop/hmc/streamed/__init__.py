"""Rows that are read a block at a time: density and sampler."""
