"""Context processors (conf/context), which change placed contexts before a strategy shows them."""
