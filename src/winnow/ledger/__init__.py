"""The ledger: a store of all finished calls, keyed by request. `open_store` opens it by URL."""
