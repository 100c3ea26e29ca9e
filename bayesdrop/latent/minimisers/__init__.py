"""Minimisers of the energy of a hidden layer."""
