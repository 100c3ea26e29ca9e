"""Input of a user, arrays, data frames, tables, formulas and files, validated and converted once."""
