"""Question parsers: one file a public format, each an iterable of questions that streams."""
