"""Corpus parsers: one file a public format, each an iterable of passages that streams."""
