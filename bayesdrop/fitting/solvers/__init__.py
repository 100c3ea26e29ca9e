"""Ways down the energy (EM, Newton's steps, normal equations), the driver that runs them, and rates that follow."""
