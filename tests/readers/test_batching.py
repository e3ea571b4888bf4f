"""Batches that PyTorch runs: which requests share one, in which order, and what is kept."""

from collections.abc import Sequence
from types import SimpleNamespace

from winnow.modeling.loading import LanguageModel
from winnow.readers.batching import Batches
from winnow.readers.runtime import TokenizedRequest
from winnow.records import Decoding
from winnow.requests import Generate, Generation, Likelihood, Message, Score, Usage

MESSAGES = (Message("user", "a"),)


def _load() -> LanguageModel:
    """A model whose positions are those of each text."""
    return SimpleNamespace(has_length_dependent_positions=False)  # type: ignore[return-value]


def _generate(batch: Sequence[TokenizedRequest]) -> list[Generation]:
    return [Generation("", usage=Usage(item.length, len(batch))) for item in batch]


def _score(batch: Sequence[TokenizedRequest]) -> list[Score]:
    return [Score(-1.0, Usage(item.length)) for item in batch]


def _open(max_tokens: int = 100, max_rows: int = 3) -> Batches:
    return Batches(_load, _generate, _score, max_tokens, max_rows)


def _item(length: int, request: Generate | Likelihood) -> TokenizedRequest:
    return TokenizedRequest(request, range(length))


def _collect(batches: Batches) -> list[list[int]]:
    """The lengths of the items of each batch."""
    lengths = []
    while results := batches.collect():
        lengths.append([result.usage.tokens_in for _, result in results])
    return lengths


def test_the_longest_items_come_first() -> None:
    """As many as rows and padded tokens allow; one item is always run."""
    batches = _open(max_tokens=40)
    for length in (5, 20, 30, 6, 7, 70):
        batches.add(_item(length, Generate(MESSAGES, Decoding(4))))
    assert _collect(batches) == [[70], [30], [7, 20], [5, 6]]
    assert _collect(batches) == []


def test_a_batch_has_requests_of_one_kind() -> None:
    """Replies of equal length, likelihoods by themselves."""
    batches = _open()
    for length, request in (
        (3, Generate(MESSAGES, Decoding(2))),
        (5, Likelihood(MESSAGES, "b")),
        (9, Generate(MESSAGES, Decoding(4))),
        (4, Generate(MESSAGES, Decoding(2))),
        (8, Likelihood(MESSAGES, "c")),
    ):
        batches.add(_item(length, request))
    assert _collect(batches) == [[9], [5, 8], [3, 4]]


def test_closing_drops_what_waits() -> None:
    """And PyTorch adds nothing to an identity."""
    batches = _open()
    batches.add(_item(3, Generate(MESSAGES, Decoding(2))))
    batches.close()
    assert _collect(batches) == []
    assert (batches.identity, batches.reuses_prefixes) == ("", False)
    assert batches.software.startswith("torch 2")
    assert batches.explain_refusal(Likelihood(MESSAGES, "a", per_token=True)) is None
