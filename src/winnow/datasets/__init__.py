"""Parsers of question data sets, one module per public format.

A parser is an iterable that yields questions one at a time. `Split` then assigns the questions to
train, dev and test.
"""
