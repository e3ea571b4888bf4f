"""Attention of models in training: gradients are finite on GPUs, too."""

import pytest
import torch

from winnow.training.attention import without_cudnn_attention


def test_cudnn_is_left_out_for_a_while() -> None:
    """Also if the training fails; as a decorator, it does so at each call."""
    was_enabled = torch.backends.cuda.cudnn_sdp_enabled()

    @without_cudnn_attention()
    def train() -> None:
        assert not torch.backends.cuda.cudnn_sdp_enabled()
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            train()
        assert torch.backends.cuda.cudnn_sdp_enabled() == was_enabled


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gradients_of_a_padded_batch_are_finite() -> None:
    """With 64 positions, padding on the left and scores far from zero, for which cuDNN 9 gives NaN
    on an H100.
    """
    torch.manual_seed(0)
    query, key, value = (
        (torch.randn(2, 3, 64, 64, device="cuda", dtype=torch.bfloat16) * 8 - 4).requires_grad_()
        for _ in range(3)
    )
    mask = torch.ones(64, 64, dtype=torch.bool, device="cuda").tril().repeat(2, 1, 1, 1)
    mask[1, :, :, :10] = False
    with without_cudnn_attention():
        output = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    output[:, :, 10:].sum().backward()
    assert all(
        tensor.grad is not None and tensor.grad.isfinite().all() for tensor in (query, key, value)
    )
