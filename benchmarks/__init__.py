"""What is timed or reproduced, one command each."""
