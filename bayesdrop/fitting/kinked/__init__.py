"""Losses with kinks: their dual by coordinates and interior points, and ends at the tips of cones."""
