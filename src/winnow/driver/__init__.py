"""The driver: it runs plans, and has each distinct model call made once."""
