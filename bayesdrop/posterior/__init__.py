"""What is made of draws: ArviZ groups, diagnosis, prediction, simulation and scores."""
