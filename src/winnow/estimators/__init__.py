"""Relevance estimators, which compute the log-odds that a passage is relevant to a question."""
