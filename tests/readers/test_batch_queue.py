"""The queue of requests for a server of batches, here one in memory that has no API."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.readers.batch_cases import request
from winnow.errors import BudgetError, CallRefusedError, ReaderError, StoppedError
from winnow.keys import compute_request_key
from winnow.predictions import Price
from winnow.readers.batch_queue import BatchQueue, BatchResult, BatchStatus, GoneError
from winnow.readers.batch_state import StateFiles
from winnow.readers.budget import Budget, Spending
from winnow.readers.openai_errors import RetryableError
from winnow.readers.token_estimates import estimate_max_usage
from winnow.requests import Generate, Generation, Usage


@dataclass
class Shelf:
    """A provider that answers each prompt with the next of its outcomes, or with capitals."""

    outcomes: dict[str, list[BatchResult | Exception]] = field(default_factory=dict)
    is_gone: bool = False
    batches: dict[str, Mapping[str, Generate]] = field(default_factory=dict)
    max_bytes: int = 1000

    def count_bytes(self, key: str, request: Generate) -> int:
        """Return the length of the prompt."""
        return len(request.messages[0].content)

    def create(self, name: str, requests: Mapping[str, Generate]) -> str:
        """Keep the requests."""
        self.batches[name] = requests
        return name

    def find(self, name: str) -> str | None:
        """Return the name, which is the id."""
        return name if name in self.batches else None

    def poll(self, batch_id: str) -> BatchStatus:
        """Return that the batch is finished, or that it is gone, once."""
        if self.is_gone:
            self.is_gone = False
            raise GoneError("no such batch")
        return BatchStatus("ended", is_finished=True, files=(batch_id,))

    def iter_results(
        self, file_id: str, requests: Mapping[str, Generate]
    ) -> Iterator[tuple[str, BatchResult | Exception]]:
        """Yield the next outcome of each request."""
        for key, one in requests.items():
            text = one.messages[0].content
            prepared = self.outcomes.get(text)
            yield key, prepared.pop(0) if prepared else Generation(text.upper(), usage=Usage(1, 1))


def open_queue(folder: Path, shelf: Shelf, budget: Budget = Budget()) -> BatchQueue:
    return BatchQueue(shelf, StateFiles(folder, "m", 600), Spending(budget, Price()), 0.0)


def add(queue: BatchQueue, *texts: str) -> None:
    for one in map(request, texts):
        queue.add(compute_request_key("m", one).hex(), one)


def collect(queue: BatchQueue, number: int) -> dict[str, BatchResult]:
    """Collect results until there are so many, by prompt."""
    results: dict[str, BatchResult] = {}
    for _ in range(10):
        for one, result in queue.collect(0.0):
            assert isinstance(one, Generate)
            results[one.messages[0].content] = result  # type: ignore[assignment]
        if len(results) >= number:
            break
    return results


def test_a_batch_has_as_many_requests_as_its_size_allows(tmp_path: Path) -> None:
    """A longer one is sent alone, which the server may refuse; nothing is sent twice."""
    shelf = Shelf(max_bytes=8)
    queue = open_queue(tmp_path, shelf)
    texts = ["aaaa", "bbbb", "cc", "dddddddddddd", "ee", "ffffff"]
    add(queue, *texts)
    assert collect(queue, 6).keys() == set(texts)
    sent = [
        [one.messages[0].content for one in requests.values()]
        for requests in shelf.batches.values()
    ]
    assert sent == [["aaaa", "bbbb"], ["cc"], ["dddddddddddd"], ["ee", "ffffff"]]


def test_a_billed_reply_that_cannot_be_used_counts(tmp_path: Path) -> None:
    """It is paid for; one that a busy server did not make is not."""
    lost = RetryableError("malformed", billed=True)
    shelf = Shelf({"a": [lost], "b": [RetryableError("busy")]})
    queue = open_queue(tmp_path, shelf)
    add(queue, "a", "b")
    assert collect(queue, 2).keys() == {"a", "b"}
    once = estimate_max_usage(request("a"), 1)
    assert queue.spending.spent == Usage(once.tokens_in + 2, once.tokens_out + 2)


def test_results_are_forgotten_when_they_are_confirmed(tmp_path: Path) -> None:
    """By the next call; what was spent is what the replies used."""
    shelf = Shelf()
    queue = open_queue(tmp_path, shelf)
    add(queue, "a", "b")
    results = collect(queue, 2)
    assert {text: one.text for text, one in results.items()} == {"a": "A", "b": "B"}  # type: ignore[union-attr]
    assert len(list(tmp_path.glob("*.json"))) == 1
    assert queue.collect(0.0) == []
    assert not list(tmp_path.glob("*.json"))
    assert queue.spending.spent == Usage(2, 2)


def test_a_call_that_failed_is_sent_again_three_times_at_most(tmp_path: Path) -> None:
    """Then the queue stops, after the results of the others."""
    shelf = Shelf({"a": [RetryableError("busy")] * 3})
    queue = open_queue(tmp_path, shelf)
    add(queue, "a", "b")
    assert list(collect(queue, 1)) == ["b"]
    with pytest.raises(ReaderError, match="sent in 3 batches"):
        collect(queue, 1)
    assert [len(batch) for batch in shelf.batches.values()] == [2, 1, 1]


def test_a_batch_that_is_gone_is_sent_again(tmp_path: Path) -> None:
    """Its results cannot come any more."""
    shelf = Shelf(is_gone=True)
    queue = open_queue(tmp_path, shelf)
    add(queue, "a")
    assert list(collect(queue, 1)) == ["a"]
    assert len(shelf.batches) == 2


def test_a_refusal_stops_the_queue_after_the_other_results(tmp_path: Path) -> None:
    """Nothing more is sent."""
    queue = open_queue(tmp_path, Shelf({"bad": [CallRefusedError("HTTP 401")]}))
    add(queue, "bad", "a")
    assert list(collect(queue, 1)) == ["a"]
    with pytest.raises(CallRefusedError, match="HTTP 401"):
        collect(queue, 1)


def test_a_stopped_queue_sends_nothing_and_leaves_its_batches_to_the_next_run(
    tmp_path: Path,
) -> None:
    """Hours may pass until they are finished; what is finished is returned first."""

    class Busy(Shelf):
        """A provider that works on every batch."""

        def poll(self, batch_id: str) -> BatchStatus:
            return BatchStatus("in_progress", is_finished=False)

    shelf = Busy()
    queue = open_queue(tmp_path, shelf)
    add(queue, "a")
    assert queue.collect(0.0) == []
    add(queue, "b")
    queue.stop()
    with pytest.raises(StoppedError):
        queue.collect(0.0)
    assert len(shelf.batches) == 1
    following = BatchQueue(Shelf(batches=shelf.batches), queue.states, queue.spending, 0.0)
    add(following, "a")
    assert list(collect(following, 1)) == ["a"]


def test_a_budget_ends_what_is_sent(tmp_path: Path) -> None:
    """The requests that it covers are answered before the error."""
    shelf = Shelf()
    queue = open_queue(tmp_path, shelf, Budget(tokens=27))
    add(queue, "a", "b", "c")
    answered = collect(queue, 1)
    assert 0 < len(answered) < 3
    with pytest.raises(BudgetError):
        collect(queue, 1)
    assert len(shelf.batches) == 1


def test_a_stopped_queue_polls_at_once_what_may_be_finished(tmp_path: Path) -> None:
    """However long the pause between two polls is."""
    queue = BatchQueue(
        Shelf(), StateFiles(tmp_path, "m", 600), Spending(Budget(), Price()), poll_seconds=600.0
    )
    add(queue, "a")
    assert queue.collect(0.0) == []
    queue.stop()
    assert len(queue.collect(0.0)) == 1
