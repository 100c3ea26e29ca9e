"""Run a kernel: chunks, stop rules, checkpoints and interruptions."""
