"""The ledger stores the result of every finished model call, so that no call is made twice.
`open_store` opens it by URL.
"""
