"""Winnow measures how retrieved passages affect the answers of language models."""

__version__ = "0.1.0"
