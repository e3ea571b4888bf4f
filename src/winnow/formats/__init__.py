"""File formats: text, JSON lines and TSV with line numbers in every error; FiD's exchange format."""
