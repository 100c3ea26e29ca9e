"""Minimisers of the energy (EM, Newton's method, duals), their driver, and the update of the rates."""
