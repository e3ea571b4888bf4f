"""Readers: language models, on this machine or behind an API, that serve Generate and, if possible,
Likelihood requests.
"""
