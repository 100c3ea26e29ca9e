"""Loops over rows that Numba compiles (the extra ``fast``): products, Gram matrices, and what meets each entry once.

Numba is imported by the first call that needs it, except by :mod:`.lanes` and :mod:`.lines`, which are imported then.
"""
