"""Examples as tokens, in batches of similar lengths with padding on the left."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from winnow.modeling.chat import tokenize_chat
from winnow.modeling.text_interface import TextInterface
from winnow.training.examples import Example

_WIDTH_MULTIPLE = 32
"""Batches are padded to a multiple of this many tokens, as oneDNN caches a kernel per width."""


def encode_example(example: Example, text: TextInterface) -> dict[str, Any]:
    """Tokenize an example, whose reply ends as the chat template of the model ends it.

    Returns:
        The token ids of prompt and reply as "input_ids", the number of tokens in the reply,
        including the end token, as "reply", and the id of the example as "example_id".
    """
    prompt_ids = tokenize_chat(text.tokenizer, example.messages, passages=example.passages)
    reply_ids = text.tokenizer(example.completion, add_special_tokens=False)["input_ids"]
    input_ids = [*prompt_ids, *reply_ids, text.reply_end_id]
    return {"input_ids": input_ids, "reply": len(reply_ids) + 1, "example_id": example.example_id}


class LeftPaddingCollator:
    """A collator that pads tokenized examples on the left. Labels outside replies are -100."""

    def __init__(self, pad_token_id: int) -> None:
        """Store the id of the padding token."""
        self.pad_token_id = pad_token_id

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """Collate the tokenized examples of a batch into tensors (batch, width)."""
        longest = max(len(row["input_ids"]) for row in rows)
        width = -(-longest // _WIDTH_MULTIPLE) * _WIDTH_MULTIPLE  # rounded up
        ids = torch.full((len(rows), width), self.pad_token_id)
        mask = torch.zeros(len(rows), width, dtype=torch.long)
        labels = torch.full((len(rows), width), -100)
        for n, row in enumerate(rows):
            tokens = torch.tensor(row["input_ids"])
            ids[n, width - len(tokens) :] = tokens
            mask[n, width - len(tokens) :] = 1
            labels[n, width - row["reply"] :] = tokens[-row["reply"] :]
        example_ids = [row["example_id"] for row in rows]
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "labels": labels,
            "example_ids": example_ids,
        }


class LengthGroupedSampler(torch.utils.data.Sampler[int]):
    """A sampler that shuffles the examples so that examples of a batch have similar lengths.

    The order depends only on the seed and the epoch. Trainer's own `group_by_length` draws from the
    global random state, so that a resumed run would see different batches.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        """Store the lengths of the examples in tokens, the batch size and the seed."""
        self.lengths, self.batch_size, self.seed, self.epoch = lengths, batch_size, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which seeds the order; accelerate calls this before each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        """Yield the positions of the examples, batch by batch.

        The examples are shuffled and divided into pools of 16 batches. Within a pool, they are
        sorted by length and divided into batches. Then the batches of all pools are shuffled, with
        incomplete batches last.
        """
        rng = random.Random(f"{self.seed}/{self.epoch}")
        order = list(range(len(self.lengths)))
        rng.shuffle(order)
        pool_size = 16 * self.batch_size
        batches: list[list[int]] = []
        for pool_start in range(0, len(order), pool_size):
            pool = sorted(
                order[pool_start : pool_start + pool_size],
                key=lambda position: self.lengths[position],
            )
            batches += [
                pool[start : start + self.batch_size]
                for start in range(0, len(pool), self.batch_size)
            ]
        full_batches = [batch for batch in batches if len(batch) == self.batch_size]
        short_batches = [batch for batch in batches if len(batch) < self.batch_size]
        rng.shuffle(full_batches)
        return iter([position for batch in [*full_batches, *short_batches] for position in batch])
