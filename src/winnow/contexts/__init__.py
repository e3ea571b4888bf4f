"""The contexts of a question: built from rankings, placed in a prompt, weighted, marginalized over."""
