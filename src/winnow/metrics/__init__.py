"""Pure scoring functions, and metrics with a row per question and aggregates with intervals."""
