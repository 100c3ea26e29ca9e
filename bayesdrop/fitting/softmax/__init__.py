"""Joint fits of many classes: energy, curvature and minimiser."""
