"""A loop for the tests of files that Numba stores: a function of a file, as Numba stores no other."""


def add_products(values, weights, result):
    """Add the products of numbers to one number."""
    for k in range(len(values)):
        result[0] += values[k] * weights[k]
