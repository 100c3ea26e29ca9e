"""Rows that are read a block at a time: sources, checks and the design."""
