"""Markov chain Monte Carlo: which posterior is sampled, by which kernel, on which matrix."""
