"""Draws of a posterior, read from its groups, and new rows matched with them."""
