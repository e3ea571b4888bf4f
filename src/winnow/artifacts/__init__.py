"""Artifacts, the files that stages write: their columns, their storage, and the manifest that
records how each was made.
"""
