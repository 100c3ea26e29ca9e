"""The kernel and its parts: trajectories, the search for the number of steps, densities and factors."""
