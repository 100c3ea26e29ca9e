"""Posteriors: ArviZ groups, diagnosis, prediction, simulation and scores."""
