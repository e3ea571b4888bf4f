"""What prompts begin with in common."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from winnow.readers.local import LocalReader
from winnow.readers.prefix import collate, compute_prefix_length
from winnow.records import Decoding
from winnow.requests import Generate, Generation, Likelihood, Message, Request
from winnow.testing import make_tiny_causal_lm

TEXTS = [f"The quick brown fox number {n} " * (1 + n % 4) for n in range(9)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model."""
    return make_tiny_causal_lm(tmp_path_factory.mktemp("lm"), TEXTS, context_length=200)


def results(reader: LocalReader, queries: Sequence[Request]) -> list[Any]:
    """Submit all, collect until nothing is left, and return texts or scores in their order."""
    reader.submit(queries)
    values: dict[Request, Any] = {}
    while batch := reader.collect(5.0):
        values.update({q: r.text if isinstance(r, Generation) else r.value for q, r in batch})  # type: ignore[union-attr]
    return [values[one] for one in queries]


def test_a_shared_beginning_is_read_once_and_changes_nothing(folder: Path) -> None:
    """Texts and likelihoods of prompts that begin alike are those of each prompt alone, also where
    only targets differ.
    """
    begin = "Answer the question with a short factoid answer, often between one and five words. "
    queries = [Generate((Message("user", begin + text),), Decoding(6)) for text in TEXTS[:4]]
    likely = [
        Likelihood(one.messages, text) for one in queries[:2] for text in ("the fox", "brown")
    ]
    reader = LocalReader(str(folder), "tiny", "float32")
    inputs = collate(reader.lm, [reader.encode(one).ids for one in queries])
    assert inputs["past_key_values"].get_seq_length() >= 16
    assert inputs["attention_mask"].sum(dim=1).tolist() == [
        reader.count_tokens(one) for one in queries
    ]
    alone = LocalReader(str(folder), "tiny", "float32", batch_size=1)
    assert results(reader, queries) == results(alone, queries)
    assert results(reader, likely) == pytest.approx(results(alone, likely), abs=1e-4)


def test_a_common_prefix_leaves_each_row_a_token() -> None:
    """Equal rows, a row that begins another, and rows that differ at once."""
    assert compute_prefix_length([[1, 2, 3], [1, 2, 3]]) == 2
    assert compute_prefix_length([[1, 2], [1, 2, 3], [1, 2, 4]]) == 1
    assert compute_prefix_length([[1, 2], [3, 4]]) == 0
