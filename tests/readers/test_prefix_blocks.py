"""Which prompts wait for others that begin alike, and which blocks are used again."""

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from winnow.readers import openvino_scoring, prefix_blocks
from winnow.readers.openvino import ContinuousBatch
from winnow.readers.openvino_scoring import ContinuationScorer
from winnow.readers.prefix_blocks import BlockPool, BlockRecord, has_nested, list_blocks
from winnow.readers.runtime import TokenizedRequest
from winnow.records import Decoding
from winnow.requests import Generate, Likelihood


class RecordedBatch(ContinuousBatch):
    """A batch whose pipeline finishes every request in the step in which it starts, and which
    records the steps.
    """

    def _load(self) -> object:
        self.steps: list[list[int]] = []
        return SimpleNamespace(step=lambda: None)

    def _start(self, item: TokenizedRequest) -> object:
        self._counter += 1
        self.steps[-1].append(item.ids[-1])
        return item

    def read_all(self, num_steps: int = 1) -> list[list[int]]:
        """Return the last token of each prompt, step by step. Each prompt runs for a number of
        steps.
        """
        started: list[tuple[int, int]] = []
        while self._waiting:
            self.steps.append([])
            before = set(self._running)
            self._admit()
            started += [(len(self.steps), number) for number in self._running.keys() - before]
            for step, number in started:
                if step == len(self.steps) - num_steps + 1:
                    running = self._running.pop(number)
                    self._prompts.remove(tuple(running.item.ids))
            assert all(
                not has_nested(self._prompts[:n], prompt) for n, prompt in enumerate(self._prompts)
            )
        return self.steps


def read_all(
    prompts: Sequence[Sequence[int]],
    *,
    max_rows: int = 100,
    max_tokens: int = 10_000,
    num_steps: int = 1,
) -> list[list[int]]:
    batch = RecordedBatch(Path(), None, "float32", 1, max_rows, max_tokens, 10_000)  # type: ignore[arg-type]
    for ids in prompts:
        batch.add(TokenizedRequest(Generate((), Decoding()), ids))
    return batch.read_all(num_steps)


def test_a_prompt_waits_for_one_that_begins_alike() -> None:
    """Only if a whole block is the same, and only for the step that reads it; the others keep their
    order.
    """
    shared, other = list(range(64)), list(range(100, 164))
    assert read_all(
        [[*shared, 1], [*shared, 2], [*other, 3], [*shared[:31], 4], [*shared[:32], *other, 5]]
    ) == [
        [1, 3, 4],
        [2, 5],
    ]
    assert read_all([[*shared, 1], [*shared, 2], [*shared, 3], [*other, 4]], max_rows=2) == [
        [1, 4],
        [2, 3],
    ]


def test_tokens_that_were_read_before_leave_room_for_more_prompts() -> None:
    """A step reads at most `max_tokens` new tokens, or one longer prompt."""
    shared, others = list(range(64)), [list(range(n, n + 40)) for n in (100, 200, 300)]
    prompts = [[*shared, *other, n] for n, other in enumerate(others)]
    assert read_all(prompts, max_tokens=90) == [[0], [1, 2]]
    assert read_all(prompts, max_tokens=80) == [[0], [1], [2]]
    assert read_all([*others, shared], max_tokens=10) == [[139], [239], [339], [63]]


def test_prompts_of_which_one_begins_with_the_other_do_not_run_together() -> None:
    """However long they run; equal ones neither. Others that merely begin alike do."""
    short = [*range(40)]
    prompts = [[*short, 1], short, [*short, 1], [*short, 1, 2], [*short, 3], [7]]
    assert read_all(prompts) == [[1, 7], [39], [1, 3], [2]]
    assert read_all(prompts, num_steps=3) == [[1, 7], [3], [], [1], [], [], [39], [], [], [2]]


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=5).map(tuple), max_size=8),
    st.lists(st.integers(0, 1), max_size=6),
)
def test_nested_prompts_are_found_between_their_neighbors(
    prompts: list[tuple[int, ...]], ids: list[int]
) -> None:
    """As by a comparison with every one."""
    running: list[tuple[int, ...]] = []
    for prompt in (*prompts, tuple(ids)):
        expected = any(other[: len(prompt)] == prompt[: len(other)] for other in running)
        assert has_nested(running, prompt) == expected
        if not expected:
            running = sorted([*running, prompt])


def test_the_record_of_blocks_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is emptied once it is too long; a prompt then counts in full."""
    monkeypatch.setattr(prefix_blocks, "_MAX_BLOCKS", 2)
    record, blocks = BlockRecord(), list_blocks(range(100))
    assert len(blocks) == len(set(blocks)) == 3
    assert blocks[:2] == list_blocks([*range(64), 7])
    record.add(blocks)
    assert record.count_new_tokens(blocks, 100) is None
    record.start_step()
    assert record.count_new_tokens(blocks, 100) == 4
    record.start_step()
    assert record.count_new_tokens(blocks, 100) == 100


class RecordedScorer(ContinuationScorer):
    """A scorer whose blocks contain the tokens themselves, so that every step can be checked."""

    def __init__(self, num_blocks: int, block_size: int, max_tokens: int) -> None:
        self.folder, self.cache_gb, self.max_tokens = Path("model"), 1, max_tokens
        self._waiting, self._empty = deque(), []
        self._pool = BlockPool(num_blocks, block_size)
        self.memory: dict[int, list[int]] = {}
        """The tokens up to the end of each block, which its keys and values depend on."""
        self.steps: list[list[int]] = []
        """Numbers of tokens that each request of each step read."""

    def _infer(self, rows: Sequence[Any]) -> Any:
        size, written = self._pool.block_size, set[int]()
        for row in rows:
            tokens = [*row.item.ids, *row.item.target[:-1]]
            assert [self.memory[index] for index in row.known] == [
                tokens[: (n + 1) * size] for n in range(len(row.known))
            ]
            assert row.tokens == tokens[len(row.known) * size :]
            assert list(row.tokens[row.ends.start : row.ends.stop]) == [
                row.item.ids[-1],
                *row.item.target[:-1],
            ]
            assert len(row.new) == -(-len(row.tokens) // size)
            written.update(row.new)
        assert len(written) == sum(len(row.new) for row in rows)
        assert not written & {index for row in rows for index in row.known}
        for row in rows:
            tokens = [*row.item.ids, *row.item.target[:-1]]
            blocks = enumerate((*row.known, *row.new), start=1)
            self.memory |= {index: tokens[: n * size] for n, index in blocks if index in row.new}
        self.steps.append([len(row.tokens) for row in rows])
        return np.zeros((sum(len(row.item.target) for row in rows), 2))


def score_all(
    scorer: RecordedScorer, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]
) -> list[list[int]]:
    """Score prompts with continuations, and return how many tokens each request of each
    step read.
    """
    request = Likelihood((), "")
    for ids, target in pairs:
        scorer.add(TokenizedRequest(request, ids, target))
    num_results = 0
    while results := scorer.collect():
        num_results += len(results)
    assert num_results == len(pairs)
    pool = scorer._pool
    assert sorted([*pool._free, *(index for _, index in pool._known.values())]) == list(
        range(pool.num_blocks)
    )
    steps, scorer.steps = scorer.steps, []
    return steps


def test_continuations_of_a_prompt_read_its_blocks_once() -> None:
    """In the step after the first one's; the last token of the prompt is read again for
    its logits.
    """
    prompt, other = [*range(10)], [*range(20, 30)]
    assert score_all(
        RecordedScorer(50, 4, 100), [(prompt, [1, 1]), (prompt, [1]), (prompt, [0]), (other, [1])]
    ) == [
        [11, 10],
        [2, 2],
    ]
    assert score_all(RecordedScorer(50, 5, 100), [(prompt, [1]), (prompt, [1, 0])]) == [[10], [6]]
    assert score_all(RecordedScorer(50, 4, 12), [(prompt, [1]), (other, [1]), (prompt, [0])]) == [
        [10],
        [10, 2],
    ]


def test_a_block_is_known_by_all_tokens_before_it() -> None:
    """Prompts that repeat themselves have equal blocks at other places."""
    first, second, third = [1, 1], [2, 2], [3, 3]
    scorer = RecordedScorer(50, 2, 100)
    assert score_all(scorer, [([*first, *first, 9], [1])]) == [[5]]
    assert score_all(
        scorer, [([*first, *second, *first, 9], [1]), ([*third, *second, *first, 9], [1])]
    ) == [[5, 7]]
    assert score_all(
        scorer, [([*third, *second, *first, 8], [1]), ([*first, *first, *first, 9], [1])]
    ) == [[1, 3]]


def test_a_step_has_few_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each needs memory for the whole vocabulary; a longer continuation is scored alone."""
    monkeypatch.setattr(openvino_scoring, "_MAX_LOGITS", 4)
    prompts = [[n, n] for n in range(4)]
    targets = [[1, 1], [1, 1], [1], [1] * 6]
    assert score_all(RecordedScorer(50, 4, 100), list(zip(prompts, targets, strict=True))) == [
        [3, 3],
        [2],
        [7],
    ]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 1), min_size=1, max_size=9),
            st.lists(st.integers(0, 1), max_size=3),
        ),
        max_size=20,
    ),
    st.integers(1, 3),
    st.integers(1, 20),
)
def test_every_step_finds_the_tokens_that_it_needs(
    pairs: list[tuple[list[int], list[int]]], block_size: int, max_tokens: int
) -> None:
    """Whatever the prompts share, and however few blocks there are. A second scoring finds the
    blocks of the first.
    """
    num_blocks = 1 + 12 // block_size
    scorer = RecordedScorer(num_blocks, block_size, max_tokens)
    first = score_all(scorer, pairs)
    second = score_all(scorer, pairs)
    assert sum(map(sum, second)) <= sum(len(ids) + len(target) for ids, target in pairs)
    for step in (*first, *second):
        assert len(step) == 1 or sum(step) <= max_tokens
