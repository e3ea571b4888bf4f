"""Corrective retrieval: CRAG (Yan et al. 2024) evaluates what was retrieved, refines it, and
searches for what is missing.
"""
