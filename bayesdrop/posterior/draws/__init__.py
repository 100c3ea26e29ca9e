"""Draws of a posterior, read from its groups, and the rows that they meet."""
