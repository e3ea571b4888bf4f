"""File formats: text, JSON lines and TSV, with line numbers in error messages, and FiD's exchange format."""
