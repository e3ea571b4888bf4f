"""The decoder-only estimator."""

import math
from pathlib import Path

import pytest
import torch

from winnow.estimators.causal import CausalEstimator
from winnow.estimators.pair import get_single_token_id
from winnow.modeling.pair_inputs import PairTemplate
from winnow.records import Passage
from winnow.testing import make_tiny_causal_lm

PASSAGE = Passage("a", "Emma", "Jane Austen wrote Emma.")


def test_it_is_the_probability_of_the_next_token(tmp_path: Path) -> None:
    """After question, passage and " relevant:": P(" true") against P(" false")."""
    base = make_tiny_causal_lm(tmp_path / "lm", ["who wrote emma relevant: true false"] * 9)
    estimator = CausalEstimator(str(base), dtype="float32")
    assert estimator.template == PairTemplate(suffix=" relevant:")
    ids = estimator.tokens.encode("who wrote emma", PASSAGE)
    p = (
        estimator.lm.model(torch.tensor([ids], device=estimator.lm.device))
        .logits[0, -1]
        .softmax(dim=-1)
    )
    true, false = (
        p[get_single_token_id(estimator.lm.tokenizer, word, "")].item()
        for word in (" true", " false")
    )
    assert estimator.score([("who wrote emma", PASSAGE)])[0] == pytest.approx(
        math.log(true / false), abs=1e-4
    )
