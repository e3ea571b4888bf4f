"""Measurement of the memory that a training process uses."""

import resource

import torch


def measure_peak_memory() -> int:
    """Return the peak memory in bytes: the GPU's if a GPU was used, otherwise the resident memory of this process."""
    if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux reports kibibytes
