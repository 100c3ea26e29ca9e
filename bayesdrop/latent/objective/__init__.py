"""What a fit with a hidden layer minimises: the energy, and covariances of the noised units."""
