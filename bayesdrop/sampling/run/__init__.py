"""Running a kernel: chunks, stop rules, checkpoints and where the chains lie."""
