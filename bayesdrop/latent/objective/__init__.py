"""Objective of a fit with a hidden layer: the energy, and covariances of the scores."""
