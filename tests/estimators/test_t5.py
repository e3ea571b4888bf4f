"""RE-RAG's estimator."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from winnow.estimators.pair import get_single_token_id
from winnow.estimators.t5 import T5Estimator
from winnow.records import Passage
from winnow.testing import make_tiny_t5

TEXTS = ["question: who wrote emma title: Emma context: Jane Austen wrote Emma true false"] * 20
PAIRS = [
    ("who wrote emma", Passage("a", "Emma", "Jane Austen wrote Emma.")),
    (
        "who wrote emma",
        Passage("b", "The sea", "The sea is blue, and wide, and deep, and cold in winter."),
    ),
]


def test_it_is_the_probability_of_the_first_written_token(tmp_path: Path) -> None:
    """Against `generate` for one token: log P(true) - log P(false) of RE-RAG's eq. 3."""
    estimator = T5Estimator(
        str(make_tiny_t5(tmp_path / "t5", TEXTS)), dtype="float32", label_words=(" true", " false")
    )
    lm = estimator.lm
    for question, passage in PAIRS:
        ids = estimator.tokens.encode(question, passage)
        output = lm.model.generate(  # type: ignore[operator]
            torch.tensor([ids], device=lm.device),
            max_new_tokens=1,
            output_logits=True,
            return_dict_in_generate=True,
        )
        p = output.logits[0][0].float().softmax(dim=-1)
        true, false = (
            p[get_single_token_id(lm.tokenizer, word, "")].item() for word in (" true", " false")
        )
        relevance = true / (true + false)
        assert estimator.score([(question, passage)])[0] == pytest.approx(
            math.log(relevance / (1 - relevance)), abs=1e-4
        )


def test_half_precision_keeps_the_order_of_scores(tmp_path: Path) -> None:
    """Embeddings and decoder stay in float32, whatever the encoder's layers run in."""
    base = str(make_tiny_t5(tmp_path / "t5", TEXTS))
    whole, half = (
        T5Estimator(base, dtype=dtype, label_words=(" true", " false"))
        for dtype in ("float32", "bfloat16")
    )
    model: Any = half.lm.model
    assert model.encoder.block[0].layer[0].SelfAttention.q.weight.dtype == torch.bfloat16
    assert {
        model.shared.weight.dtype,
        model.lm_head.weight.dtype,
        *(p.dtype for p in model.decoder.parameters()),
    } == {torch.float32}
    assert half.score(PAIRS) == pytest.approx(whole.score(PAIRS), abs=0.02)
