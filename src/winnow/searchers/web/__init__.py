"""Search of the web: an engine that asks a search API, reads the pages that it finds, and records a
snapshot of each.
"""
