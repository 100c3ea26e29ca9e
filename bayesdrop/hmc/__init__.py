"""Samplers that follow gradients of densities without masks: Hamiltonian Monte Carlo and NUTS."""
