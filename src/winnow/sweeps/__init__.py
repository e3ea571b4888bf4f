"""Sweeps: specifying cells, running many of them on one driver, and reading back their samples."""
