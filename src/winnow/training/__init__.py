"""Supervised fine-tuning of readers, and joint training of relevance estimators and generators."""
