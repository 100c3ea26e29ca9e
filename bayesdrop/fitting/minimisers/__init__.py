"""Ways down the energy: EM, Newton and quasi-Newton steps, least squares, and one pass over a stream."""
