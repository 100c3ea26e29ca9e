"""Learnt scales of the weights: the map that decouples the weights from them, and moves along it."""
