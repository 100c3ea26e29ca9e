"""What a fit returns: weights, rates and auxiliary variables, its summary, and how it is saved."""
