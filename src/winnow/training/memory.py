"""Memory usage of a training process."""

import resource

import torch


def peak_memory() -> int:
    """Return the peak memory in bytes: GPU memory if a GPU is used, otherwise resident memory of this process."""
    if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
