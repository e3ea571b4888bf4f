"""Self-RAG (Asai et al. 2024): reflection tokens say when to retrieve and how good replies are."""
