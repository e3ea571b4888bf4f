"""CRAG (Yan et al. 2024): evaluate and refine what was retrieved and search for what is missing."""
