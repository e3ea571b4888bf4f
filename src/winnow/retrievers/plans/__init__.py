"""Retrieval plans, which rank passages with language models that write queries or order a ranking.

A plan is a generator without I/O, like a strategy's: it yields requests, receives their
results and returns hits. To add one, add a module to this folder and a YAML file with a retriever,
its `plan` and its `engines` to conf/retriever.
"""
