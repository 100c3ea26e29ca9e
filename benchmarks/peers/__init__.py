"""What users would pick instead, on tables and words: errors, log losses, calibration and time beside ours."""
