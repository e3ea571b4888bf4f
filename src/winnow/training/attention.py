"""The attention of models in training."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def without_cudnn_attention() -> Iterator[None]:
    """Compute attention without cuDNN; also a decorator.

    On H100 and H200 GPUs, PyTorch from 2.11 on computes attention with cuDNN. Its gradients are NaN
    for some lengths of padded batches (https://github.com/pytorch/pytorch/issues/196678).
    """
    was_enabled = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(was_enabled)
