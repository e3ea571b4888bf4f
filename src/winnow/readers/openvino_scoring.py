"""Likelihoods on a CPU with OpenVINO: prompts of any length are read together, and what they share
is read once.

OpenVINO GenAI computes a likelihood only as a by-product of generation: with the logits of every
token of the prompt, and one by one if an earlier prompt left the tokens of a continuation in its
cache. Here, the graph of the converted model runs without GenAI. It has the attention of GenAI's
continuous batching ("paged attention"): the tokens of all prompts form one row without padding, and
their keys and values lie in blocks that later prompts use again. Logits are computed for the
continuations alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from winnow.errors import ModelError
from winnow.modeling.openvino import (
    PRECISION_HINTS,
    build_properties,
    check_precision,
    disable_telemetry,
)
from winnow.modeling.openvino_conversions import MODEL_FILE
from winnow.readers.prefix_blocks import BlockKey, BlockPool
from winnow.readers.runtime import TokenizedRequest

if TYPE_CHECKING:
    import openvino

_MAX_LOGITS = 512
"""Maximum number of continuation tokens per step. Logits take vocabulary x 4 bytes per token."""
_POSITIONS = "positions"
"""New input of the graph: positions in the row of all tokens at which logits are computed."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A request of a step: its tokens to read, and the blocks before and behind the first one."""

    item: TokenizedRequest
    tokens: Sequence[int]
    known: Sequence[int]
    new: Sequence[int]

    @property
    def ends(self) -> range:
        """Return the positions among `tokens` whose logits belong to the continuation."""
        return range(len(self.tokens) - len(self.item.target), len(self.tokens))


class ContinuationScorer:
    """The graph of a converted model, which computes the likelihoods of continuations.

    Args:
        folder: Folder of the converted model; see `winnow.modeling.openvino_conversions`.
        dtype: "float32" or "bfloat16".
        cache_gb: Memory for keys and values in GiB.
        max_tokens: Maximum number of tokens that are read in one step. A longer request is read
            alone.

    Raises:
        ModelError: If OpenVINO cannot load the model.
    """

    def __init__(self, folder: Path, dtype: str, cache_gb: int, max_tokens: int) -> None:
        """Load and compile the graph."""
        disable_telemetry()
        check_precision(dtype)
        import openvino

        self.folder, self.cache_gb, self.max_tokens = folder, cache_gb, max_tokens
        self._waiting: deque[TokenizedRequest] = deque()
        self._empty: list[TokenizedRequest] = []
        """Requests whose continuation has no token."""
        properties = build_properties(dtype) | {"KV_CACHE_PRECISION": PRECISION_HINTS[dtype]}
        try:
            core = openvino.Core()
            graph = core.read_model(folder / MODEL_FILE)
            use_blocks(graph)
            select_positions(graph)
            self._request = core.compile_model(graph, "CPU", properties).create_infer_request()
            self._pool = self._create_pool()
        except (RuntimeError, ValueError, ImportError) as error:
            raise ModelError(
                f"OpenVINO cannot load {folder}: {' '.join(str(error).split())[:500]}. Set "
                "reader.engine.runtime=torch, or remove the folder to convert the model again if "
                "its files are damaged."
            ) from error

    def _create_pool(self) -> BlockPool:
        """Allocate as many blocks as the memory holds; the system provides each on first write."""
        import openvino

        inputs = self._request.model_inputs
        caches = [port for port in inputs if "cache." in port.any_name]
        shapes = [[size.get_length() for size in list(port.partial_shape)[1:]] for port in caches]
        num_bytes = sum(
            int(np.prod(shape)) * port.element_type.size
            for shape, port in zip(shapes, caches, strict=True)
        )
        num_blocks = max(1, self.cache_gb * 2**30 // num_bytes)
        for port, shape in zip(caches, shapes, strict=True):
            tensor = openvino.Tensor(port.element_type, openvino.Shape([num_blocks, *shape]))
            self._request.set_tensor(port.any_name, tensor)
        self._names = {port.any_name for port in inputs if port not in caches}
        return BlockPool(num_blocks, shapes[0][1])

    def add(self, item: TokenizedRequest) -> None:
        """Add a request.

        Raises:
            ModelError: If its prompt has no token.
        """
        if not item.ids:
            raise ModelError(
                f"{self.folder}: a prompt has no token, after which a continuation could follow."
            )
        (self._waiting if item.target else self._empty).append(item)

    def collect(self) -> list[tuple[TokenizedRequest, float]]:
        """Run one step, and return its requests with their continuations' log-likelihoods in nats.

        Raises:
            ModelError: If OpenVINO fails, or if a request needs more memory for keys and values
                than there is.
        """
        if self._empty:
            finished_items, self._empty = self._empty, []
            return [(item, 0.0) for item in finished_items]
        rows = self._choose()
        if not rows:
            return []
        try:
            logits = self._infer(rows)
        except RuntimeError as error:
            for row in rows:
                self._pool.release(row.new)
            raise ModelError(
                f"OpenVINO failed on {self.folder}: {' '.join(str(error).split())[:500]}. Set "
                "reader.engine.runtime=torch, or a lower reader.engine.batch_tokens."
            ) from error
        for row in rows:
            self._pool.keep(row.item.ids, [*row.known, *row.new])
        return list(zip([row.item for row in rows], self._sum_logprobs(rows, logits), strict=True))

    def _choose(self) -> list[_Row]:
        """Choose the next step's requests, except those that can use a block that it computes."""
        rows, postponed = list[_Row](), list[TokenizedRequest]()
        block_keys, used_blocks, num_tokens, num_logits = set[BlockKey](), set[int](), 0, 0
        while self._waiting:
            item = self._waiting[0]
            known_blocks, next_key = self._pool.find(item.ids)
            tokens = [*item.ids, *item.target[:-1]][len(known_blocks) * self._pool.block_size :]
            if next_key in block_keys:
                postponed.append(self._waiting.popleft())
                continue
            num_logits += len(item.target)
            if rows and (num_tokens + len(tokens) > self.max_tokens or num_logits > _MAX_LOGITS):
                break
            new = self._pool.allocate(
                -(-len(tokens) // self._pool.block_size), used_blocks | set(known_blocks)
            )
            if new is None:
                break
            num_tokens += len(tokens)
            used_blocks.update(known_blocks, new)
            block_keys |= {next_key} if next_key else set()
            rows.append(_Row(self._waiting.popleft(), tokens, known_blocks, new))
        self._waiting.extendleft(reversed(postponed))
        if self._waiting and not rows:
            raise ModelError(
                f"{self.folder}: the keys and values of a prompt of {self._waiting[0].length} "
                f"tokens need more than {self.cache_gb} GiB. Set "
                f"reader.engine.cache_gb={2 * self.cache_gb}."
            )
        return rows

    def _infer(self, rows: Sequence[_Row]) -> Any:
        """Read a step's tokens, and return the logits (tokens of all continuations, vocabulary)."""
        before = [len(row.known) * self._pool.block_size for row in rows]
        lengths = [len(row.tokens) for row in rows]
        starts = list(accumulate(lengths, initial=0))
        inputs = {
            "input_ids": np.fromiter(chain.from_iterable(row.tokens for row in rows), np.int64),
            "position_ids": np.concatenate(
                [np.arange(start, start + n) for start, n in zip(before, lengths, strict=True)]
            ),
            "past_lens": np.array(before, dtype=np.int32),
            "subsequence_begins": np.array(starts, dtype=np.int32),
            "block_indices": np.array(
                [index for row in rows for index in (*row.known, *row.new)], dtype=np.int32
            ),
            "block_indices_begins": np.array(
                list(accumulate((len(row.known) + len(row.new) for row in rows), initial=0)),
                dtype=np.int32,
            ),
            "max_context_len": np.array(
                max(map(sum, zip(before, lengths, strict=True))), dtype=np.int32
            ),
            _POSITIONS: np.array(
                [start + end for row, start in zip(rows, starts, strict=False) for end in row.ends]
            ),
        }
        unknown_inputs = self._names - inputs.keys()
        if unknown_inputs:
            raise RuntimeError(f"its graph has the unknown inputs {sorted(unknown_inputs)}")
        return self._request.infer({name: inputs[name] for name in self._names})["logits"]

    def _sum_logprobs(self, rows: Sequence[_Row], logits: Any) -> list[float]:
        """Sum the log-probabilities of the tokens of each continuation."""
        targets = torch.tensor(
            [token for row in rows for token in row.item.target], dtype=torch.int64
        )
        if len(targets) != len(logits):
            raise ModelError(
                f"OpenVINO gave logits of shape {logits.shape} for {len(targets)} tokens of "
                f"{self.folder}. Set reader.engine.runtime=torch."
            )
        logits = torch.from_numpy(logits).reshape(len(targets), -1)
        logprobs = (
            logits.gather(1, targets[:, None])[:, 0].double() - logits.logsumexp(dim=1).double()
        )
        return [
            float(part.sum()) for part in logprobs.split([len(row.item.target) for row in rows])
        ]


def use_blocks(graph: openvino.Model) -> None:
    """Replace the attention of a graph and its state with paged attention, as in OpenVINO GenAI."""
    from openvino._offline_transformations import paged_attention_transformation

    paged_attention_transformation(graph)


def select_positions(graph: openvino.Model) -> None:
    """Change a graph so that it computes logits only for the positions of a new input.

    Raises:
        ValueError: If the output of the graph is not computed from a matrix product with weights.
    """
    from openvino import opset13 as ops

    node = graph.output("logits").node
    while not (node.get_type_name() == "MatMul" and _is_constant(node.input_value(1).node)):
        if node.get_input_size() == 0:
            raise ValueError("its logits are not computed by a matrix product")
        node = node.input_value(0).node
    positions = ops.parameter([-1], dtype=np.int64, name=_POSITIONS)
    positions.output(0).get_tensor().add_names({_POSITIONS})
    graph.add_parameters([positions])
    gather_node = ops.gather(node.input_value(0), positions, ops.constant(0, dtype=np.int64))
    node.input(0).replace_source_output(gather_node.output(0))
    graph.validate_nodes_and_infer_types()


def _is_constant(node: Any) -> bool:
    """Return whether a node holds weights, possibly stored in 8 bits or in another layout."""
    while node.get_type_name() in ("Convert", "Multiply", "Subtract", "Transpose", "Reshape"):
        node = node.input_value(0).node
    return bool(node.get_type_name() == "Constant")
