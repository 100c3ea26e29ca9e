"""Choosing by cross-validation what the sign rule cannot know: ``C``, the structure of the rates, their strength."""
