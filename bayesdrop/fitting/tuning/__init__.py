"""Choice of ``C``, the structure of the rates and their strength by cross-validation."""
