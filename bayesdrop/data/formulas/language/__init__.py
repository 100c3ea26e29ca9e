"""The language of stored formulas: its nodes, their limits, and how they are read, translated and computed."""
