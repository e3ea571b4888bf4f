"""Metrics: pure scoring functions, and components that compute a row per question and aggregates
with intervals.
"""
