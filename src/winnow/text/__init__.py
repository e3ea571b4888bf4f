"""Rules for texts that strategies, metrics and trainings share: what a reply says, and what a
passage contains.
"""
