"""File formats: text, JSON Lines, TSV, the exchange format of FiD (Fusion-in-Decoder), and those of
the `datasets` library.
"""
