"""Search engines, which serve the Search requests of strategies."""
