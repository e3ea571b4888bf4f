"""Synthetic data and models with random weights, to test training methods without downloads."""
