"""The feature-noising model of many classes: kernel, state and moves."""
