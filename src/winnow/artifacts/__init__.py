"""Artifacts (the files that stages write): columns, storage, and manifests of their provenance."""
