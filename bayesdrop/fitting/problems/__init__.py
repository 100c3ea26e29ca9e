"""Fits of problems that share a matrix: a block of them, many classes jointly, and one pass over a stream."""
