"""Parsers of corpora, one module per public format. A parser is an iterable that yields passages
one at a time.
"""
