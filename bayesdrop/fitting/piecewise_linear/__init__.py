"""Piecewise-linear losses: their dual without noise, by coordinates and interior points, and bounds on their energy."""
