"""Web search: an engine that queries a search API, reads the pages, and records their snapshots."""
