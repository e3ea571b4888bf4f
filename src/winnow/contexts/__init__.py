"""Contexts of questions: built from rankings, placed in prompts, weighted and marginalized over."""
