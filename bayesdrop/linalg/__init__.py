"""Linear algebra that every minimiser shares: conjugate gradients, Cholesky factors, secants."""
