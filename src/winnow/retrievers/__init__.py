"""Retrievers: build an index of a corpus, open it, search it in batches."""
