"""Averages over the masks of a row, by enumeration or from the characteristic function of its score."""
