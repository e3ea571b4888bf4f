"""The ledger stores finished model calls so that none is repeated. `open_store` opens it by URL."""
