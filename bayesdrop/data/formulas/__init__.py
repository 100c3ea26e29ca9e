"""Columns from formulas: terms, encodings of categories, offsets, and a transformer for pipelines."""
