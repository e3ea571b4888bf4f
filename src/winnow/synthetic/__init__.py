"""Synthetic data and models made from random weights, to prove a method without downloads."""
