"""Linear systems of a step: factors, preconditioners, conjugate gradients, and pairs of secants."""
