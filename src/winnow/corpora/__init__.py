"""Corpus parsers, one module per public format: iterables that yield passages one at a time."""
