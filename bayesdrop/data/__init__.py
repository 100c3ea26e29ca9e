"""Data as a user has them: arrays, data frames, tables, formulas and files, made one checked thing at the door."""
