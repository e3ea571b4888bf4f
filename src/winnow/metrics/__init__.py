"""Metrics: pure functions, and the components that give a row per question and aggregates with intervals."""
