"""Diagnostics of draws: mixing, tails of importance weights, problems and advice."""
