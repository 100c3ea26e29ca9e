"""Moves of rates, weights and scales together, which a sweep of one at a time mixes slowly in."""
