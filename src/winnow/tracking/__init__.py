"""Runs in MLflow, and the stores that keep them."""
