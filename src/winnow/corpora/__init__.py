"""Corpus parsers: one file per public format, each an iterable of passages that streams."""
