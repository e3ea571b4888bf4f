"""Winnow finds out what retrieved passages do to a language model's answers."""

__version__ = "0.1.0"
