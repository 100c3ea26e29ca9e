"""The sampler of masks for one score a row: its state, its kernel and the moves that this makes."""
