"""What the stages of flows/ share: their registry, the command line, shards, and MLflow runs."""
