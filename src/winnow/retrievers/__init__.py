"""Retrievers, which build the index of a corpus, open it, and search it in batches."""
