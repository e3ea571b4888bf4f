"""Readers: engines that serve Generate requests and, if they support it, Likelihood requests."""
