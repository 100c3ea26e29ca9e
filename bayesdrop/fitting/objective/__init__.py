"""Objective of a point fit: the marginalised energy of the data, and its parts."""
