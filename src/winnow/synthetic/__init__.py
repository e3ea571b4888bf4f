"""Synthetic data and models with random weights, with which training methods are tested without
downloads.
"""
