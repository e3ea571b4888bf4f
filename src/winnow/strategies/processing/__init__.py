"""Context processors, which change the placed contexts before a strategy shows them: a choice of
conf/context each.
"""
