"""Ways down the energy of a hidden layer."""
