"""Question parsers, one module per public format. Each parser is an iterable that yields questions one at a time."""
