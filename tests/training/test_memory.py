"""What a training says when a GPU has too little memory."""

import pytest
import torch

from winnow.errors import ModelError
from winnow.training.memory import explain_out_of_memory, measure_peak_memory


def test_an_out_of_memory_error_names_the_settings() -> None:
    """In the order in which to try them, with torch's own reason; another error stays as it is."""

    @explain_out_of_memory("lower a", "b=true")
    def train(error: Exception | None) -> str:
        if error:
            raise error
        return "trained"

    assert train(None) == "trained"
    reason = "CUDA out of memory.\n Tried to allocate 2.00 GiB"
    with pytest.raises(
        ModelError,
        match=(
            r"\(CUDA out of memory. Tried to allocate 2.00 GiB\).*in this order: lower a; b=true\."
        ),
    ):
        train(torch.OutOfMemoryError(reason))
    with pytest.raises(RuntimeError, match="other"):
        train(RuntimeError("other"))


def test_peak_memory_is_that_of_the_process() -> None:
    """In bytes: a process with torch has more than 50 MB and less than 100 GB. On a GPU, what was
    allocated there counts.
    """
    if torch.cuda.is_available():
        torch.empty(60_000_000, dtype=torch.uint8, device="cuda")
    assert 50e6 < measure_peak_memory() < 100e9
