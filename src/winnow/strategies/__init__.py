"""Strategies: plans without I/O, which yield requests and receive results.

A new strategy is a module here and a YAML file in conf/strategy.
"""
