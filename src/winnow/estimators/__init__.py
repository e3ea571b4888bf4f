"""Relevance estimators: log-odds that a passage is relevant to a question."""
