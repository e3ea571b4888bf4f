"""Language models, local or behind an API, that serve Generate and possibly Likelihood requests."""
