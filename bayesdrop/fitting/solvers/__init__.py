"""Minimisers of the energy (EM, Newton's method, normal equations), their driver, and the update of the rates."""
