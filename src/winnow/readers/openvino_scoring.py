"""Likelihoods on a CPU with OpenVINO, in batches of prompts of similar length.

OpenVINO GenAI computes a likelihood only as a by-product of generation: with the logits of every token of the prompt, and one
by one if an earlier prompt left the tokens of a continuation in its cache. Here, the graph of the converted model runs without
GenAI, computes logits for the continuations alone, and reads the beginning that all prompts of a batch share only once.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from winnow.errors import ModelError
from winnow.modeling.openvino import build_properties, check_precision, disable_telemetry
from winnow.modeling.openvino_export import MODEL_FILE
from winnow.modeling.pair_inputs import pad_rows
from winnow.readers.generation import sum_target_logprobs
from winnow.readers.prefix import compute_prefix_length

if TYPE_CHECKING:
    import openvino

    from winnow.readers.batching import TokenisedRequest

_MAX_ROWS = 8
"""Number of prompts that are read together. With more, the values between the layers leave the processor's cache."""
_WIDTH_MULTIPLE = 16
"""Batches are padded to a multiple of this number of tokens, because OpenVINO prepares the layers for each new shape."""
_POSITIONS, _KEPT = "positions", "kept"
"""New inputs of the graph: the positions (rows, tokens of the continuation) in the batch whose logits are computed, and the
number of tokens whose keys and values become outputs."""


class ContinuationScorer:
    """The graph of a converted model without state, which computes logits for given positions.

    Args:
        folder: Folder of the converted model; see `winnow.modeling.openvino_export`.
        dtype: "float32" or "bfloat16".

    Raises:
        ModelError: If OpenVINO cannot load the model.

    """

    def __init__(self, folder: Path, dtype: str) -> None:
        """Load and compile the graph."""
        disable_telemetry()
        check_precision(dtype)
        import openvino

        self.folder = folder
        try:
            core = openvino.Core()
            graph = core.read_model(folder / MODEL_FILE)
            self._past_shapes = remove_state(graph)
            select_positions(graph)
            self._request = core.compile_model(graph, "CPU", build_properties(dtype)).create_infer_request()
        except (RuntimeError, ValueError) as error:
            raise ModelError(
                f"OpenVINO cannot load {folder}: {' '.join(str(error).split())[:500]}. Set reader.engine.runtime=torch, or "
                "remove the folder to convert the model again if its files are damaged."
            ) from error
        self._prefix: tuple[int, ...] = ()
        self._past = {name: np.zeros(shape, np.float32) for name, shape in self._past_shapes.items()}
        """Keys and values of the tokens in `_prefix`."""

    def score(self, batch: Sequence[TokenisedRequest]) -> list[float]:
        """Compute the log-likelihood of each continuation in nats.

        Raises:
            ModelError: If OpenVINO fails, for example for want of memory, or if a prompt has no token.

        """
        prompts = [item.ids for item in batch]
        if not all(prompts):
            raise ModelError(f"{self.folder}: a prompt has no token, after which a continuation could follow.")
        start = compute_prefix_length(prompts) if len(prompts) > 1 else 0
        try:
            self._read_prefix(tuple(prompts[0][:start]))
            parts = [self._score(batch[first : first + _MAX_ROWS], start) for first in range(0, len(batch), _MAX_ROWS)]
        except RuntimeError as error:
            raise ModelError(
                f"OpenVINO failed on {self.folder}: {' '.join(str(error).split())[:500]}. Set reader.engine.runtime=torch, or "
                "a lower reader.engine.batch_tokens."
            ) from error
        return list(itertools.chain.from_iterable(parts))

    def _score(self, batch: Sequence[TokenisedRequest], start: int) -> list[float]:
        """Compute the log-likelihoods of prompts whose first `start` tokens were read before."""
        rows = [[*item.ids[start:], *item.target] for item in batch]
        ids, mask = (tensor.numpy() for tensor in pad_rows(rows, 0))
        padding = ((0, 0), (0, -ids.shape[1] % _WIDTH_MULTIPLE))
        ids, mask = np.pad(ids, padding), np.pad(mask, padding)
        longest = max(len(item.target) for item in batch)
        ends = np.array([len(row) - len(item.target) for row, item in zip(rows, batch, strict=True)])
        positions = np.minimum(ends[:, None] - 1 + np.arange(longest), ids.shape[1] - 1)
        logits = self._infer(ids, mask, positions)["logits"]
        if logits.shape[:2] != positions.shape:
            raise ModelError(
                f"OpenVINO gave logits of shape {logits.shape} for {positions.shape} positions of {self.folder}. Set "
                "reader.engine.runtime=torch."
            )
        return sum_target_logprobs(torch.from_numpy(logits), [item.target for item in batch], align_right=False)

    def _read_prefix(self, prefix: tuple[int, ...]) -> None:
        """Compute the keys and values of a beginning, unless it is that of the batch before."""
        if prefix == self._prefix:
            return
        self._prefix = ()
        self._past = {name: np.zeros(shape, np.float32) for name, shape in self._past_shapes.items()}
        if prefix:
            ids = np.array([prefix], dtype=np.int64)
            outputs = self._infer(ids, np.ones_like(ids), np.zeros((1, 1), dtype=np.int64), kept=len(prefix))
            self._past = {name: outputs[_name_present(name)].copy() for name in self._past}
        self._prefix = prefix

    def _infer(self, ids: Any, mask: Any, positions: Any, kept: int = 0) -> Any:
        """Read tokens (rows, tokens) that follow the beginning, and return the outputs of the graph."""
        start = len(self._prefix)
        inputs = {
            "input_ids": ids,
            "attention_mask": np.hstack([np.ones((len(ids), start), dtype=np.int64), mask]),
            "position_ids": np.broadcast_to(np.arange(start, start + ids.shape[1]), ids.shape),
            _POSITIONS: positions,
            _KEPT: np.array([kept], dtype=np.int64),
        }
        return self._request.infer(inputs | self._past)


def remove_state(graph: openvino.Model) -> dict[str, tuple[int, ...]]:
    """Turn the state of a graph, which is the keys and values of earlier tokens, into inputs and outputs.

    The inputs have one row, from which every row of the batch goes on. The outputs are the keys and values of the first row
    for as many tokens as the new input "kept" says. Without state, OpenVINO computes attention three times as fast.

    Returns:
        The shape of each of these inputs without tokens.

    """
    from openvino import opset13 as ops

    ids = next(port for port in graph.inputs if port.any_name == "input_ids")
    num_rows = ops.gather(ops.shape_of(ids, output_type="i64"), ops.constant([0]), ops.constant(0))
    rows_shape = ops.concat([num_rows, ops.constant(np.ones(3, dtype=np.int64))], 0)
    kept = ops.parameter([1], dtype=np.int64, name=_KEPT)
    kept.output(0).get_tensor().add_names({_KEPT})
    parameters, results, shapes = [kept], [], {}
    one, first, axes = ops.constant([1, 1]), ops.constant([0, 0]), ops.constant([0, 2])
    nodes = graph.get_ops()
    reads = {node.get_variable_id(): node for node in nodes if node.get_type_name() == "ReadValue"}
    for number, assign in enumerate([node for node in nodes if node.get_type_name() == "Assign"]):
        name, read = f"past.{number}", reads[assign.get_variable_id()]
        sizes = read.get_output_partial_shape(0)
        shape = [1, sizes[1].get_length(), -1, sizes[3].get_length()]
        past = ops.parameter(shape, dtype=np.float32, name=name)
        past.output(0).get_tensor().add_names({name})
        parameters.append(past)
        shapes[name] = tuple(max(0, size) for size in shape)
        expanded = ops.broadcast(past, rows_shape, broadcast_spec="BIDIRECTIONAL")
        for consumer in [target for port in read.output(0).get_target_inputs() for target in _follow_gather(port)]:
            consumer.replace_source_output(expanded.output(0))
        stop = ops.concat([ops.constant([1]), kept], 0)
        present = ops.slice(assign.input_value(0), first, stop, one, axes)
        present.output(0).get_tensor().add_names({_name_present(name)})
        results.append(ops.result(present))
        graph.remove_sink(assign)
    graph.add_parameters(parameters)
    graph.add_results(results)
    graph.remove_parameter(next(port.node for port in graph.inputs if port.any_name == "beam_idx"))
    graph.validate_nodes_and_infer_types()
    return shapes


def _follow_gather(port: Any) -> list[Any]:
    """Return the inputs that receive the output of the node behind an input: a reordering of rows."""
    return list(port.get_node().output(0).get_target_inputs())


def _name_present(past: str) -> str:
    """Return the name of the output whose values become an input of later calls."""
    return past.replace("past", "present")


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
    positions = ops.parameter([-1, -1], dtype=np.int64, name=_POSITIONS)
    positions.output(0).get_tensor().add_names({_POSITIONS})
    graph.add_parameters([positions])
    selected = ops.gather(node.input_value(0), positions, ops.constant(1, dtype=np.int64), batch_dims=1)
    node.input(0).replace_source_output(selected.output(0))
    graph.validate_nodes_and_infer_types()


def _is_constant(node: Any) -> bool:
    """Return whether a node holds weights, possibly stored in 8 bits or in another layout."""
    while node.get_type_name() in ("Convert", "Multiply", "Subtract", "Transpose", "Reshape"):
        node = node.input_value(0).node
    return bool(node.get_type_name() == "Constant")
