"""Memory of a training process: its measurement, and what to do when a GPU has too little."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from winnow.errors import ModelError


def measure_peak_memory() -> int:
    """Return the peak memory in bytes: of the GPU if used, else this process's resident memory."""
    if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux reports kibibytes


@contextmanager
def explain_out_of_memory(*remedies: str) -> Iterator[None]:
    """Convert torch's out-of-memory error to one that names settings to change; also a decorator.

    Args:
        remedies: Settings of the training that need less memory, the first to try first.

    Raises:
        ModelError: If a GPU has too little memory. The checkpoint of the training stays.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(
            f"The GPU has too little memory for this training ({reason}). Change one of its "
            f"settings, in this order: {'; '.join(remedies)}. After those that affect only the "
            "speed, the training continues from the checkpoint."
        ) from error
