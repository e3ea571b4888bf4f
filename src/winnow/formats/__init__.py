"""File formats: text, JSON Lines, TSV, FiD (Fusion-in-Decoder), and the `datasets` library."""
