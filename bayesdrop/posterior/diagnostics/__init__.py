"""Whether draws can be trusted: mixing, tails of importance weights, what is wrong and what to do."""
