"""Sampling by Gumbel noise, and the reading of written tokens."""

import pytest
import torch

from winnow.readers.generation import SeededSampler, gather_target_logprobs
from winnow.records import Decoding
from winnow.requests import Generate, Message


def request(number: int, decoding: Decoding) -> Generate:
    return Generate((Message("user", "x"),), decoding, sample=number)


def draws(decoding: Decoding, logits: list[float], count: int) -> torch.Tensor:
    """How often each token is the draw, as shares."""
    sampler = SeededSampler([request(n, decoding) for n in range(count)])
    scores = sampler(
        torch.zeros(count, 1, dtype=torch.long), torch.tensor([logits]).repeat(count, 1)
    )
    return torch.bincount(scores.argmax(dim=-1), minlength=len(logits)) / count


def test_draws_follow_the_softmax_at_its_temperature() -> None:
    """Of 4,000 draws, the shares are those of the softmax within four standard errors (0.03)."""
    logits = [2.0, 1.0, 0.0, -1.0]
    for temperature in (0.7, 1.5):
        expected = (torch.tensor(logits) / temperature).softmax(dim=-1)
        assert draws(Decoding(temperature=temperature), logits, 4000).tolist() == pytest.approx(
            expected.tolist(), abs=0.032
        )


def test_top_p_keeps_the_smallest_sufficient_set() -> None:
    """Probabilities 0.64, 0.24, 0.09, 0.03: at p = 0.7 the first two are left, at p = 0.5 only the
    first.
    """
    logits = [2.0, 1.0, 0.0, -1.0]
    two = draws(Decoding(temperature=1.0, top_p=0.7), logits, 2000)
    assert two[2:].tolist() == [0, 0]
    assert two[0].item() == pytest.approx(0.731, abs=0.05)
    assert draws(Decoding(temperature=1.0, top_p=0.5), logits, 100).tolist() == [1, 0, 0, 0]


def test_greedy_rows_are_left_alone() -> None:
    """A batch may hold both."""
    sampler = SeededSampler([request(0, Decoding()), request(0, Decoding(temperature=1.0))])
    scores = torch.tensor([[1.0, 2.0], [1.0, 2.0]])
    out = sampler(torch.zeros(2, 1, dtype=torch.long), scores)
    assert scores.tolist() == [[1.0, 2.0], [1.0, 2.0]], "log-probabilities are read from these"
    assert out[0].tolist() == [1.0, 2.0]
    assert out[1].tolist() != [1.0, 2.0]


def test_target_log_probabilities_by_hand() -> None:
    """Two tokens of probability 1/2 and 1/4; padding on either side is left out."""
    half, quarter = torch.tensor([1.0, 1.0]).log(), torch.tensor([1.0, 3.0]).log()
    pad = torch.tensor([5.0, -5.0])
    right = torch.stack([torch.stack([pad, half, quarter]), torch.stack([pad, pad, quarter])])
    left = torch.stack([torch.stack([half, quarter, pad])])
    log = torch.tensor([0.5, 0.25]).log()
    gathered = gather_target_logprobs(right, [[1, 0], [0]], align_right=True)
    assert [float(one.sum()) for one in gathered] == pytest.approx(
        [float(log.sum()), float(log[1])]
    )
    assert [len(one) for one in gathered] == [2, 1]
    (only,) = gather_target_logprobs(left, [[1, 0]], align_right=False)
    assert float(only.sum()) == pytest.approx(float(log.sum()))
