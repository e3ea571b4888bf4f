"""Sweeps: the specification, dry run, run and stored samples of cells (settings of a sweep)."""
