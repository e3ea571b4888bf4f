"""Fusion-in-decoder: contexts are encoded alone and laid end to end, whatever else is
in the batch.
"""

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from winnow.modeling.fid import decode_answer, fuse_contexts, generate_fused
from winnow.modeling.loading import LanguageModel
from winnow.testing import make_tiny_t5

TEXTS = ["question: who wrote emma title: Emma context: Jane Austen wrote Emma"] * 4


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    """Return a small T5 of random weights, of a seed with which it writes something."""
    path = str(make_tiny_t5(tmp_path_factory.mktemp("fused") / "t5", TEXTS, seed=9))
    model = AutoModelForSeq2SeqLM.from_pretrained(path).eval()
    return LanguageModel(model, AutoTokenizer.from_pretrained(path), torch.device("cpu"))


def rows(lm: LanguageModel, *texts: str) -> list[list[int]]:
    """Return the token rows of some contexts."""
    return [list(lm.tokenizer(text)["input_ids"]) for text in texts]


def test_contexts_stand_in_order_without_padding_between(lm: LanguageModel) -> None:
    """A question's states are those of each context encoded by itself; the shorter question is
    padded at its end alone.
    """
    long, short = (
        rows(lm, "who wrote emma", "emma", "Jane Austen wrote Emma title"),
        rows(lm, "Emma context"),
    )
    with torch.inference_mode():
        fused = fuse_contexts(lm, [long, short])
        encoder = lm.model.get_encoder()
        alone = [
            encoder(input_ids=torch.tensor([row])).last_hidden_state[0] for row in (*long, *short)
        ]
    states, reach = fused["encoder_outputs"].last_hidden_state, fused["attention_mask"]
    assert reach.tolist() == [
        [1] * sum(map(len, long)),
        [1] * len(short[0]) + [0] * (sum(map(len, long)) - len(short[0])),
    ]
    assert torch.allclose(states[0], torch.cat(alone[:3]), atol=1e-5)
    assert torch.allclose(states[1, : len(short[0])], alone[3], atol=1e-5)


def test_an_answer_does_not_depend_on_its_neighbors(lm: LanguageModel) -> None:
    """Questions answered together are answered as each alone; with one context, as the plain model
    does.
    """
    inputs = [rows(lm, "who wrote emma", "Jane Austen wrote Emma"), rows(lm, "Emma context")]
    together = generate_fused(lm, inputs, 6)
    assert all(together)
    assert together[0] != together[1]
    assert together == [generate_fused(lm, [one], 6)[0] for one in inputs]
    with torch.inference_mode():
        plain = lm.model.generate(torch.tensor(inputs[1]), max_new_tokens=6, do_sample=False)  # type: ignore[operator]
    assert together[1] == plain[0, 1:].tolist()
    text = lm.tokenizer.decode(plain[0, 1:], skip_special_tokens=True).strip()
    assert decode_answer(lm, together[1]) == text
