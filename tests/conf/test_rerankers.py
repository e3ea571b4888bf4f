"""Rerankers of the hub read pairs as they were trained to."""

from pathlib import Path

import pytest

from flows.settings.door import compose
from winnow.records import Passage
from winnow.testing import make_tiny_encoder, make_tiny_t5

PASSAGE = Passage("p", "Emma", "A novel by Austen.")
TEXTS = ["Query: who wrote it? Document: Emma A novel by Austen. Relevant: true false"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("monot5", "Query: who wrote it? Document: Emma A novel by Austen. Relevant:"),
        ("minilm_reranker", "who wrote it? Emma A novel by Austen."),
        ("bge_reranker", "who wrote it? Emma A novel by Austen."),
    ],
)
def test_the_text_of_a_pair(name: str, text: str, tmp_path: Path) -> None:
    """Without the special tokens between question and passage; a score is a number."""
    make = make_tiny_t5 if name == "monot5" else make_tiny_encoder
    folder = make(tmp_path / "model", TEXTS)
    cfg = compose([f"estimator={name}"]).estimator
    assert cfg.trained is False
    estimator = cfg.engine.build(path=str(folder), dtype="float32", device="cpu", runtime="torch")
    row = estimator.tokens.encode("who wrote it?", PASSAGE)
    decoded = estimator.lm.tokenizer.decode(row, skip_special_tokens=True)
    assert decoded.replace(" ", "").lower() == text.replace(" ", "").lower()
