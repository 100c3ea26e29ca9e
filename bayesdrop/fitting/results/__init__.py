"""Results of a fit: weights, rates, auxiliary variables, summary and files."""
