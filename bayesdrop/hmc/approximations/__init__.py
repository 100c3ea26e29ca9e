"""Normal approximations of a posterior, which whiten it: without noise, with it, and with noise that is drawn."""
