"""Losses with kinks: their dual without noise, by coordinates and interior points, bounds, and ends at zero weights."""
