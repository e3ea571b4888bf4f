"""Question parsers: one file per public format, each an iterable of questions that streams."""
