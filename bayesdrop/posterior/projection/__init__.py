"""Submodels without noise that predict like a posterior: their fits, the search for them, and what they lose."""
