"""Many classes, jointly: density, curvature and factors of the softmax."""
