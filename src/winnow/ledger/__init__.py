"""The ledger: every finished call, addressed by its request. `open_store` opens it by URL."""
