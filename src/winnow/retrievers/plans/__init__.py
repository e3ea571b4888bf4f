"""Retrieval plans, which rank passages with language models: they write queries, or order the
ranking of a retriever.

A plan is a generator without I/O, like a strategy's: it yields requests, receives their
results and returns hits. To add one, add a module to this folder and a YAML file with a retriever,
its `plan` and its `engines` to conf/retriever.
"""
