"""Synthetic data, and models with random weights, to test a method without downloads."""
