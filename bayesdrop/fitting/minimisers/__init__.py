"""Ways down the energy: EM, Newton, least squares, and one pass over a stream."""
