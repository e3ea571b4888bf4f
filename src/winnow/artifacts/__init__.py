"""Artifacts: column contracts, Parquet files, atomic writes, and the manifest that says how each was made."""
