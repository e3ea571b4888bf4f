"""A page over the questions, prompts and votes of a sweep."""
