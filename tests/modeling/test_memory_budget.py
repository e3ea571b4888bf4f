"""Batches that do not fit into a GPU's memory are split, and later ones are smaller."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from winnow.errors import ModelError
from winnow.estimators.cross_encoder import CrossEncoder
from winnow.modeling.memory_budget import MemoryBudget, compute_ahead
from winnow.readers.local import LocalReader
from winnow.records import Decoding, Passage
from winnow.requests import Generate, Likelihood, Message, Request
from winnow.testing import make_tiny_causal_lm, make_tiny_encoder


class SmallGpu:
    """A computation that squares numbers, and whose memory holds batches of at most `most` padded
    tokens.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.batches: list[Sequence[int]] = []

    def compute(self, batch: Sequence[int]) -> list[int]:
        """Return the squares of a batch."""
        self.batches.append(batch)
        if len(batch) * max(batch) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 2 GiB")
        return [number * number for number in batch]


def test_a_batch_that_does_not_fit_is_split(caplog: pytest.LogCaptureFixture) -> None:
    """Each half has its own result, and the message names the setting."""
    gpu, budget = SmallGpu(40), MemoryBudget(1000, "reader.engine.batch_tokens")
    parts = list(budget.run(gpu.compute, [9, 8, 7, 6, 5, 4, 3, 2], lambda number: number))
    assert parts == [([9, 8, 7, 6], [81, 64, 49, 36]), ([5, 4, 3, 2], [25, 16, 9, 4])]
    assert [len(batch) for batch in gpu.batches] == [8, 4, 4]
    assert budget.tokens == 36
    assert "batch of 72 tokens (CUDA out of memory. Tried to allocate 2 GiB)" in caplog.text
    assert "reader.engine.batch_tokens=36" in caplog.text


def test_later_batches_are_split_before_they_fail() -> None:
    """The limit that was found stays; it never rises again."""
    gpu, budget = SmallGpu(40), MemoryBudget(1000, "x")
    assert len(list(budget.run(gpu.compute, [9] * 8, lambda number: number))) == 2
    gpu.batches.clear()
    assert (
        list(budget.run(gpu.compute, [9] * 8, lambda number: number)) == [([9] * 4, [81] * 4)] * 2
    )
    assert [len(batch) for batch in gpu.batches] == [4, 4]


def test_a_single_input_that_does_not_fit_ends_the_run() -> None:
    """Smaller batches cannot help."""
    gpu, budget = SmallGpu(40), MemoryBudget(1000, "x")
    with pytest.raises(ModelError, match="single input of 50 tokens"):
        list(budget.run(gpu.compute, [1, 50], lambda number: number))
    with pytest.raises(ZeroDivisionError):  # other errors are not caught
        list(budget.run(lambda batch: [1 // 0], [1, 2], lambda number: number))


@pytest.fixture
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU whose memory holds one prompt, pair or text at a time."""

    def limit(owner: type, name: str) -> None:
        original = getattr(owner, name)

        def check(self: object, batch: Sequence[object], *rest: object) -> object:
            if len(batch) > 1:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return original(self, batch, *rest)

        monkeypatch.setattr(owner, name, check)

    limit(LocalReader, "generate")
    limit(LocalReader, "score")
    limit(CrossEncoder, "collate")


@pytest.mark.usefixtures("one_at_a_time")
def test_readers_and_estimators_go_on_with_smaller_batches(tmp_path: Path) -> None:
    """Each prompt gets its own reply, each continuation its likelihood, and each pair its score."""
    texts = [f"the sea number {number} is wide" for number in range(5)]
    reader = LocalReader(str(make_tiny_causal_lm(tmp_path / "lm", texts)), "tiny", "float32")
    requests: list[Request] = [Generate((Message("user", text),), Decoding(4)) for text in texts]
    requests += [Likelihood((Message("user", text),), "wide") for text in texts]
    reader.submit(requests)
    finished: list[Request] = []
    while results := reader.collect(0.0):
        finished += [request for request, _ in results]
    assert len(finished) == len(requests)
    assert set(map(id, finished)) == set(map(id, requests))

    estimator = CrossEncoder(str(make_tiny_encoder(tmp_path / "bert", texts * 20)), dtype="float32")
    pairs = [("what is wide", Passage(str(number), "", text)) for number, text in enumerate(texts)]
    assert np.array_equal(estimator.score(pairs), [estimator.score([pair])[0] for pair in pairs])
    assert estimator._budget.tokens < estimator.batch_tokens


def test_a_result_is_fetched_after_the_next_one_was_requested() -> None:
    """In the order of the batches, each of them once."""
    events: list[str] = []

    def compute(number: int) -> int:
        events.append(f"compute {number}")
        return number

    events.extend(f"fetch {number}" for number in compute_ahead(map(compute, range(3))))
    assert events == ["compute 0", "compute 1", "fetch 0", "compute 2", "fetch 1", "fetch 2"]
    assert list(compute_ahead([])) == []


def test_rows_run_in_batches_of_similar_length() -> None:
    """The longest first; a batch is computed before the one before it is yielded, and too long ones
    are split.
    """
    computed: list[Sequence[int]] = []

    def compute(indices: Sequence[int]) -> list[int]:
        computed.append(indices)
        return [10 * index for index in indices]

    parts = MemoryBudget(6, "x").run_rows(compute, [1, 3, 2, 3, 7])
    assert next(parts) == ([4], [40])
    assert computed == [[4], [1, 3]]
    assert list(parts) == [([1, 3], [10, 30]), ([2, 0], [20, 0])]
    assert list(MemoryBudget(6, "x").run_rows(compute, [])) == []
