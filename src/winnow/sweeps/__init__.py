"""Sweeps: the specification of a cell, running many cells on one driver, and reading their samples back."""
