"""Losses with kinks: their dual without noise, by coordinates and interior points, and ends at the tips of cones."""
