"""The kernel, and what it is made of: trajectories, the search for a step, densities and factors."""
