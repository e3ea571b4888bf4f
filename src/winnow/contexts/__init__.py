"""Contexts of questions: how they are built from rankings, placed in a prompt, weighted, and
marginalized over.
"""
