"""Priors that are scale mixtures: the map that decouples scales from weights, and moves along it."""
