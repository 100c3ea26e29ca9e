"""The posterior of a hidden layer."""
