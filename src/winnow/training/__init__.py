"""Training jobs, one readable file each."""
