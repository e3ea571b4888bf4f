"""Sweeps: the specification, the dry run, the run and the stored samples of cells. A cell is one
setting of a sweep.
"""
