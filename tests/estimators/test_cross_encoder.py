"""The cross-encoder: its two heads, and layers that read question and passage apart."""

from pathlib import Path

import numpy as np
import pytest
import torch

from winnow.errors import ConfigError, ModelError
from winnow.estimators.cross_encoder import CrossEncoder
from winnow.records import Passage
from winnow.testing import make_tiny_encoder

TEXTS = ["who wrote emma Emma. Jane Austen wrote Emma", "the sea is blue and wide"] * 20
PAIRS = [
    ("who wrote emma", Passage("a", "Emma", "Jane Austen wrote Emma.")),
    ("who wrote emma", Passage("b", "The sea", "The sea is blue, and wide, and deep, and cold in winter.")),
    ("what is blue", Passage("b", "The sea", "The sea is blue, and wide, and deep, and cold in winter.")),
]


def test_a_hub_reranker_keeps_its_one_logit(tmp_path: Path) -> None:
    """A folder with a classifier of one class: the logit is the log-odds."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    base = make_tiny_encoder(tmp_path / "bert", TEXTS)
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(base, num_labels=1)
    model.save_pretrained(tmp_path / "reranker")
    AutoTokenizer.from_pretrained(base).save_pretrained(tmp_path / "reranker")
    estimator = CrossEncoder(str(tmp_path / "reranker"), dtype="float32")
    rows = [estimator.tokens.encode(*PAIRS[0])]
    starts = torch.arange(len(rows[0])) >= estimator.tokens.get_passage_start(PAIRS[0][0])
    expected = model.eval()(torch.tensor(rows), token_type_ids=starts.long()[None]).logits[0, 0].item()
    assert estimator.score(PAIRS[:1])[0] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_with_all_layers_apart_each_text_is_read_alone(attention: str, tmp_path: Path) -> None:
    """The cosine of two texts encoded one by one, as a sentence encoder's; with a layer fewer the two see each other.

    Scoring runs the one attention, training on a CPU the other; weights are large, so that a mask that masks nothing shows.
    """
    base = str(make_tiny_encoder(tmp_path / "bert", TEXTS))
    estimator = CrossEncoder(base, dtype="float32", head="pooled")
    estimator.lm.model.set_attn_implementation(attention)
    with torch.no_grad():
        for weight in estimator.lm.model.encoder.parameters():  # type: ignore[union-attr]
            weight.mul_(8)
    estimator.separate_layers = len(estimator.lm.model.encoder.layer)  # type: ignore[union-attr,arg-type]
    expected = []
    for question, passage in PAIRS:
        ids = estimator.tokens.encode(question, passage)
        start = estimator.tokens.get_passage_start(question) - 1
        parts = [estimator.lm.model(torch.tensor([part])).last_hidden_state.mean(dim=1) for part in (ids[:start], ids[start:])]
        assert ids[0] == ids[start]
        expected.append(20 * torch.cosine_similarity(*parts).item())
    assert np.allclose(estimator.score(PAIRS), expected, atol=1e-3)
    estimator.separate_layers -= 1
    assert not np.allclose(estimator.score(PAIRS), expected, atol=1e-3)


def test_settings_are_checked(tmp_path: Path) -> None:
    """Heads, a first token that would not see the passage, and more layers apart than there are."""
    with pytest.raises(ModelError, match=r"separate_layers=3 needs a BERT model with .* with 2 layers"):
        CrossEncoder(str(make_tiny_encoder(tmp_path / "bert", TEXTS)), head="pooled", separate_layers=3).score(PAIRS)
    with pytest.raises(ConfigError, match="head must be classes or pooled; received 'x'"):
        CrossEncoder("x", head="x")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="0 with head=classes; received separate_layers=2 and head=classes"):
        CrossEncoder("x", separate_layers=2)
