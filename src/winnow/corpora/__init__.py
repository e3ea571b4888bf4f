"""Corpus parsers, one module per public format. Each parser is an iterable that yields passages one at a time."""
