"""Readers: engines that answer Generate (and, where they can, Likelihood) requests."""
