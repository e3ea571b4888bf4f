"""Blocks of tokens whose keys and values are read once for all prompts that begin with them.

`BlockRecord` is for OpenVINO GenAI, which keeps the blocks itself: it says which prompts should
wait for another one. `BlockPool` manages blocks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice

BlockKey = tuple[int, tuple[int, ...]]
"""Identity of a full block: the number of the block before it (0 for the first), and its tokens."""
_BLOCK_SIZE = 32
"""Number of tokens whose keys and values OpenVINO GenAI stores and reuses together on a CPU."""
_MAX_BLOCKS = 200_000
"""Maximum number of blocks that are remembered as read."""


class BlockRecord:
    """The blocks that prompts began with, which show which part of a new prompt is not read again.

    A block is identified by its tokens and all tokens before it. The record does not know which
    blocks the cache has dropped, so that it may count too few tokens of a step; OpenVINO GenAI then
    reads the rest in the next one.
    """

    def __init__(self) -> None:
        """Create an empty record."""
        self._read: set[int] = set()
        self._current: set[int] = set()
        """Blocks that the current step reads."""

    def start_step(self) -> None:
        """Record the last step's blocks as read. If there are too many, forget all earlier ones."""
        if len(self._read) > _MAX_BLOCKS:
            self._read.clear()
        self._read |= self._current
        self._current.clear()

    def count_new_tokens(self, blocks: Sequence[int], num_tokens: int) -> int | None:
        """Count the tokens of a prompt that a step has to read.

        Args:
            blocks: Blocks of the prompt; see `list_blocks`.
            num_tokens: Number of tokens of the prompt.

        Returns:
            The number, or None if the current step reads a block that the prompt could reuse in the
            next one.
        """
        num_read = next(
            (number for number, block in enumerate(blocks) if block not in self._read), len(blocks)
        )
        if num_read < len(blocks) and blocks[num_read] in self._current:
            return None
        return num_tokens - num_read * _BLOCK_SIZE

    def add(self, blocks: Sequence[int]) -> None:
        """Record that the current step reads blocks."""
        self._current.update(blocks)


def list_blocks(ids: Sequence[int]) -> list[int]:
    """Return a hash of each full block of a prompt and all tokens before it."""
    blocks, before = list[int](), 0
    for start in range(0, len(ids) - _BLOCK_SIZE + 1, _BLOCK_SIZE):
        before = hash((before, *ids[start : start + _BLOCK_SIZE]))
        blocks.append(before)
    return blocks


def has_nested(prompts: Sequence[tuple[int, ...]], prompt: tuple[int, ...]) -> bool:
    """Return whether one of the prompts begins with `prompt`, is its beginning, or is equal to it.

    Args:
        prompts: Sorted prompts, none of which is the beginning of another one. Therefore only the
            two between which the prompt belongs can be nested with it.
        prompt: The other prompt.
    """
    position = bisect_left(prompts, prompt)
    neighbors = prompts[max(0, position - 1) : position + 1]
    return any(neighbor[: len(prompt)] == prompt[: len(neighbor)] for neighbor in neighbors)


class BlockPool:
    """A model's blocks of keys and values. Full ones are kept for later prompts that begin alike.

    Args:
        num_blocks: Number of blocks.
        block_size: Number of tokens per block.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        """Create a pool without known blocks."""
        self.num_blocks, self.block_size = num_blocks, block_size
        self._free = list(range(num_blocks - 1, -1, -1))
        self._known: OrderedDict[BlockKey, tuple[int, int]] = OrderedDict()
        """Number and index of each block that is kept, those first that were not used for the
        longest time.
        """
        self._counter = 0

    def find(self, ids: Sequence[int]) -> tuple[list[int], BlockKey | None]:
        """Find a prompt's known first blocks, without its last token, whose logits are needed.

        Returns:
            The indices of the blocks, and the key of the next full block; None if there is none.
        """
        block_keys: list[BlockKey] = []
        number, key = 0, None
        for start in range(0, len(ids) - self.block_size, self.block_size):
            key = (number, tuple(ids[start : start + self.block_size]))
            if key not in self._known:
                break
            block_keys.append(key)
            number, key = self._known[key][0], None
        for block_key in reversed(block_keys):
            self._known.move_to_end(
                block_key
            )  # the first block last, so that it is not dropped before those behind it
        return [self._known[block_key][1] for block_key in block_keys], key

    def allocate(self, count: int, used: set[int]) -> list[int] | None:
        """Take blocks for a prompt, dropping unused known ones; return None if too few exist."""
        shortage = max(0, count - len(self._free))
        dropped_keys = list(
            islice((key for key, (_, index) in self._known.items() if index not in used), shortage)
        )
        if len(dropped_keys) < shortage:
            return None
        for key in dropped_keys:
            self._free.append(self._known.pop(key)[1])
        return [self._free.pop() for _ in range(count)]

    def release(self, indices: Sequence[int]) -> None:
        """Give back blocks whose content is not needed."""
        self._free.extend(indices)

    def keep(self, ids: Sequence[int], indices: Sequence[int]) -> None:
        """Keep the full blocks of a prompt that was read, and give back the others.

        Args:
            ids: Tokens of the prompt.
            indices: Blocks that contain the keys and values of these tokens and of those that
                follow, in order.
        """
        number = 0
        for position, index in enumerate(indices):
            start = position * self.block_size
            if start + self.block_size >= len(ids):
                self._free.append(index)
                continue
            key = (number, tuple(ids[start : start + self.block_size]))
            if key not in self._known:
                self._counter += 1
                self._known[key] = (self._counter, index)
            elif self._known[key][1] != index:
                self._free.append(index)
            number = self._known[key][0]
