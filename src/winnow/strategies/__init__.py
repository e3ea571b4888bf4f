"""Prompting strategies, such as concatenation, Post-Fusion and answer marginalization.

The `plan` method of a strategy is a generator without I/O: it yields requests, receives their
results and returns the answer. To add a strategy, add a module to this folder and a YAML file to
conf/strategy.
"""
