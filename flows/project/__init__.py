"""What settings lead to: artifacts with their keys, cells, models, engines, metrics, and the checks
before a run.
"""
