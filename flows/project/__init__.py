"""What settings resolve to: artifacts, cells, models, engines, metrics, and checks before a run."""
