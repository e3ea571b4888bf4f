"""Self-RAG (Asai et al. 2024): a model that says by reflection tokens when to retrieve and how good
its replies are.
"""
