"""Strategies: pure plans that yield requests and receive results; add one as a file here and a YAML in conf/strategy."""
