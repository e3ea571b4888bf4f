"""The evaluator of CRAG's authors."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, T5ForSequenceClassification

from winnow.errors import ModelError
from winnow.estimators.t5_regression import T5Regression
from winnow.records import Passage
from winnow.testing import make_tiny_t5

TEXTS = ["who wrote emma [SEP] Emma // Jane Austen wrote Emma"] * 20
PAIRS = [
    ("who wrote emma", Passage("a", "Emma", "Jane Austen wrote Emma.")),
    (
        "who wrote emma",
        Passage("b", "The sea", "The sea is blue, and wide, and deep, and cold in winter."),
    ),
]


def make_regression(folder: Path, outputs: int) -> str:
    """Save a tiny T5 with a head that has a number of outputs."""
    base = make_tiny_t5(folder, TEXTS)
    config = AutoConfig.from_pretrained(base)
    config.num_labels = outputs
    torch.manual_seed(0)
    model: Any = T5ForSequenceClassification(config)
    model.save_pretrained(base)
    return str(base)


def test_the_score_is_the_only_output(tmp_path: Path) -> None:
    """Also in a batch with padding; nothing bounds it."""
    base = make_regression(tmp_path / "t5", 1)
    estimator = T5Regression(base, dtype="float32")
    model: Any = T5ForSequenceClassification.from_pretrained(base)
    rows = [estimator.tokens.encode(*pair) for pair in PAIRS]
    assert len(rows[0]) != len(rows[1])
    with torch.inference_mode():
        expected = [model(torch.tensor([row])).logits.item() for row in rows]
    assert estimator.score(PAIRS).tolist() == pytest.approx(expected, abs=1e-4)
    assert estimator.score(PAIRS[:1]).tolist() == pytest.approx(expected[:1], abs=1e-4)


def test_a_model_without_a_head_gets_one_and_a_classifier_is_refused(tmp_path: Path) -> None:
    """The weights of a new head are random, and training makes them."""
    estimator = T5Regression(str(make_tiny_t5(tmp_path / "plain", TEXTS)), dtype="float32")
    assert estimator.score(PAIRS).shape == (2,)
    with pytest.raises(ModelError, match="3 classes"):
        T5Regression(make_regression(tmp_path / "classes", 3)).score(PAIRS)


def test_a_text_with_the_end_token_is_scored_in_any_batch(tmp_path: Path) -> None:
    """The head reads at the last token of each pair, as alone."""
    estimator = T5Regression(make_regression(tmp_path / "t5", 1), dtype="float32")
    end = estimator.lm.tokenizer.eos_token
    pairs = [*PAIRS, ("who wrote emma", Passage("c", "Emma", f"Jane {end} Austen wrote Emma."))]
    alone = [estimator.score([pair]).item() for pair in pairs]
    assert estimator.score(pairs).tolist() == pytest.approx(alone, abs=1e-4)
