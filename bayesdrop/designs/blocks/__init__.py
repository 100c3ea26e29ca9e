"""Read rows a block at a time: sources, checks and the design."""
