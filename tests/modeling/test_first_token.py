"""The last layer of an encoder, computed for the first token alone."""

import copy

import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification

from winnow.modeling.first_token import skip_unread_tokens

SIZES = {
    "vocab_size": 60, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 40, "pad_token_id": 1,
    "hidden_dropout_prob": 0.2,
}  # fmt: skip
IDS = torch.randint(2, 60, (3, 17), generator=torch.Generator().manual_seed(1))
MASK = torch.ones_like(IDS)
MASK[0, 9:] = MASK[1, 3:] = 0


def make_classifier(model_type: str, attention: str = "sdpa") -> torch.nn.Module:
    """A classifier with random weights."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(model_type, **SIZES, attn_implementation=attention)
    model: torch.nn.Module = AutoModelForSequenceClassification.from_config(config).eval()
    return model


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("model_type", ["bert", "camembert", "electra", "roberta", "xlm-roberta"])
def test_logits_are_those_of_the_whole_layer(model_type: str, attention: str) -> None:
    """With padding, without a mask, and with gradients; the last layer has a single output."""
    model = make_classifier(model_type, attention)
    fast = copy.deepcopy(model)
    assert skip_unread_tokens(fast)
    for mask in (MASK, None):
        torch.testing.assert_close(
            fast(IDS, mask).logits, model(IDS, mask).logits, rtol=1e-5, atol=1e-6
        )
    assert fast.base_model(IDS, MASK).last_hidden_state.shape == (3, 1, 32)  # type: ignore[operator]
    for one in (fast, model):
        one(IDS, MASK).logits.logsumexp(1).sum().backward()
    for fast_weight, weight in zip(fast.parameters(), model.parameters(), strict=True):
        if weight.grad is not None:
            torch.testing.assert_close(fast_weight.grad, weight.grad, rtol=1e-4, atol=1e-6)


def test_padding_is_not_read() -> None:
    """Another token behind the mask changes nothing, and one before it does."""
    model = make_classifier("bert")
    skip_unread_tokens(model)
    behind, before = IDS.clone(), IDS.clone()
    behind[0, 9:] = 5
    before[0, 8] = IDS[0, 8] % 50 + 3
    logits = model(IDS, MASK).logits
    torch.testing.assert_close(model(behind, MASK).logits, logits)
    assert (model(before, MASK).logits - logits)[0].abs().max() > 1e-5


def test_a_training_is_the_same() -> None:
    """With the same random numbers, dropout gives the same loss; names of weights do not change."""
    model = make_classifier("bert")
    fast = copy.deepcopy(model)
    skip_unread_tokens(fast)
    assert list(fast.state_dict()) == list(model.state_dict())
    logits = []
    for one in (model.train(), fast.train()):
        torch.manual_seed(3)
        logits.append(one(IDS, MASK).logits)
    assert torch.equal(*logits)


def test_other_attention_and_decoders_stay_as_they_are() -> None:
    """Their masks have another shape, or the first token cannot attend to others."""
    model = make_classifier("bert")
    model.config._attn_implementation = "flash_attention_2"  # type: ignore[union-attr]
    assert not skip_unread_tokens(model)
    model.config._attn_implementation, model.config.is_decoder = "sdpa", True  # type: ignore[union-attr]
    assert not skip_unread_tokens(model)


def test_other_models_stay_as_they_are() -> None:
    """DistilBERT has layers of another kind, and its logits do not change."""
    config = AutoConfig.for_model(
        "distilbert", vocab_size=60, dim=32, hidden_dim=64, n_layers=2, n_heads=4
    )
    model = AutoModelForSequenceClassification.from_config(config).eval()
    logits = model(IDS, MASK).logits
    assert not skip_unread_tokens(model)
    assert torch.equal(model(IDS, MASK).logits, logits)
