"""RAG-sequence: the likelihood of the answer under the retriever's weights."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from tests.training.methods import rag
from winnow.training.rag import Rag

if TYPE_CHECKING:
    from conftest import SmallWorld


def test_the_loss_is_the_weighted_likelihood(small: SmallWorld) -> None:
    """Eq. 2 by hand: scores log 3 and 0 weigh 3/4 and 1/4; the printed objective sums -log P_G over
    the contexts instead.
    """
    scores = [torch.tensor(3.0).log().item(), 0.0]
    group = replace(
        small.train[0],
        contexts=tuple(
            replace(c, score=s) for c, s in zip(small.train[0].contexts, scores, strict=False)
        ),
    )
    values = torch.tensor([[0.5], [0.1]]).log()
    method = rag(small.base)
    assert method.loss(values, [group])["loss"].item() == pytest.approx(
        -torch.tensor(0.75 * 0.5 + 0.25 * 0.1).log().item()
    )
    assert isinstance(method, Rag)
    alike = replace(method, scale=1e-9)
    assert alike.loss(values, [group])["loss"].item() == pytest.approx(
        -torch.tensor(0.5 * 0.5 + 0.5 * 0.1).log().item()
    )


def test_chunks_hold_the_likelihood_of_the_drawn_answer(small: SmallWorld) -> None:
    """One column, one row per pair, whatever the budget."""
    method = rag(small.base)
    assert isinstance(method, Rag)
    method.generator.lm.model.eval()  # type: ignore[no-untyped-call]
    group = small.train[0]
    rows = [method.generator.tokens.encode(group.question.text, c.passage) for c in group.contexts]
    target = method.generator.encode_answer(group.sample_target(0, 0))
    expected = method.generator.log_likelihood(rows, [target] * len(rows))
    values = torch.zeros(len(rows), 1)
    for chunk in method.chunks([group], 0, 0, 40):
        values[list(chunk.rows)] = chunk.run()
    assert torch.allclose(values[:, 0], expected, atol=1e-5)
