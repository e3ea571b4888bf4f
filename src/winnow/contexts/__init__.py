"""Contexts of questions: built from rankings, placed in a prompt, weighted, and marginalized over."""
