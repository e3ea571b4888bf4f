"""Metrics: pure functions that give per-question rows, then aggregates with intervals."""
