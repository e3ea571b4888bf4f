"""Conversion of causal language models to OpenVINO's format, as OpenVINO GenAI reads it.

optimum-intel is the usual tool for this, but its releases need older versions of transformers and
huggingface-hub than Winnow. The conversion traces one call of the model with a cache of keys and
values, and turns the cache into state of the graph. Texts are tokenized by transformers.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tqdm import tqdm
from transformers import DynamicCache

from winnow.artifacts.files import atomic_write
from winnow.artifacts.provenance import describe_files
from winnow.errors import ModelError
from winnow.identity.hub import parse_model_name
from winnow.modeling.loading import LanguageModel, load_causal_lm
from winnow.modeling.openvino import disable_telemetry
from winnow.modeling.openvino_conversions import (
    FILES,
    MODEL_FILE,
    find_converted,
    get_conversion_folder,
)
from winnow.modeling.openvino_function import suppress_conversion_messages
from winnow.modeling.openvino_weights import compress_weights, mark_rounded, round_matrices
from winnow.modeling.text_interface import write_interface

if TYPE_CHECKING:
    import openvino

_log = logging.getLogger(__name__)
_BATCH, _PAST, _NEW = 2, 5, 3
"""Sizes of the traced call: rows, cached tokens and new tokens. The graph is valid for any sizes.
"""
_CHECKED = (19, 6)
"""Numbers of tokens in the calls with which a conversion is checked."""
_MAX_DIFFERENCE = 0.01
"""Largest difference of logits, as a share of the largest logit, that rounding may cause."""
_INPUTS = ("input_ids", "attention_mask", "position_ids")


def convert_causal_lm(
    path: str, folder: Path, weights: str = "full", dtype: str = "float32"
) -> Path:
    """Convert a causal language model once, and return the folder of the converted model.

    Args:
        path: Safetensors folder, hub name with a commit, or GGUF file.
        folder: Folder for converted models. The name of a converted model is a digest of the
            weights and of what made it, so that a model that was trained again is converted again.
        weights: "full", or "int8": the matrices of the layers in 8 bits, with a scale per output
            channel.
        dtype: Precision of the computation, "float32" or "bfloat16", in which "full" matrices are
            stored.

    Raises:
        ModelError: If OpenVINO cannot run the model.
        DiskFullError: If too little space is free.
    """
    disable_telemetry()
    name = parse_model_name(path)
    if name is not None and not name.is_pinned:
        raise ModelError(
            f"{path} may change on the hub, and a conversion would not follow. Name a commit, as "
            "in owner/name@<commit>, or set reader.engine.runtime=torch."
        )
    target = get_conversion_folder(path, folder, weights, dtype)
    if find_converted(path, folder, weights, dtype):
        return target
    if target.is_dir():
        _log.warning(
            "The converted model %s was changed since its conversion. It is converted again.",
            target,
        )
        shutil.rmtree(target, ignore_errors=True)
    with tqdm(total=3, desc=f"converting {path} for OpenVINO", unit="step") as bar:
        lm = load_causal_lm(path, "float32", "cpu")
        bar.update()
        try:
            _check_positions(lm)
            with suppress_conversion_messages():
                graph = build_graph(lm)
                _check_graph(graph, lm)
                if weights == "int8":
                    graph = compress_weights(graph)
                is_rounded = weights == "full" and dtype == "bfloat16"
                rounded = round_matrices(graph, lm) if is_rounded else set[str]()
                bar.update()
        except Exception as error:
            raise ModelError(
                f"OpenVINO cannot run {path}: {' '.join(str(error).split())[:500]}. Set "
                "reader.engine.runtime=torch."
            ) from error
        bytes_each = 1 if weights == "int8" else 2 if is_rounded else 4
        num_bytes = bytes_each * sum(parameter.numel() for parameter in lm.model.parameters())
        try:
            with atomic_write(target, required_bytes=num_bytes + 2**26) as partial:
                partial.mkdir()
                _write(graph, partial / MODEL_FILE)
                mark_rounded(partial / MODEL_FILE, rounded)
                lm.model.config.save_pretrained(partial)
                write_interface(lm.text, partial)
                (partial / FILES).write_text(json.dumps(describe_files(partial), indent=1))
        except RuntimeError as error:
            raise ModelError(
                f"The conversion of {path} could not be written to {folder}: "
                f"{' '.join(str(error).split())[:500]}. Check the free space, or set "
                "+reader.engine.converted to another folder."
            ) from error
        except OSError:
            if not target.is_dir():  # another process may have converted the same model meanwhile
                raise
        bar.update()
    return target


def _check_positions(lm: LanguageModel) -> None:
    """Raise ValueError for a model that treats long texts unlike the short one that was traced."""
    if not lm.has_full_attention:
        raise ValueError("its layers attend to a window of tokens")
    parameters = getattr(lm.model.config, "rope_parameters", None) or {}
    kinds = {
        part.get("rope_type")
        for part in (parameters, *parameters.values())
        if isinstance(part, dict)
    }
    if kinds & {"dynamic", "longrope"}:
        raise ValueError("its rotary positions depend on the length of the text")


def build_graph(lm: LanguageModel) -> openvino.Model:
    """Build the graph of a causal language model, whose state is the cache of keys and values.

    Its inputs are "input_ids", "attention_mask" and "position_ids" (rows, tokens) and "beam_idx"
    (rows,); its output is "logits" (rows, tokens, vocabulary).
    """
    import openvino
    from openvino._offline_transformations import apply_make_stateful_transformation
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

    example = _build_example(lm)
    with torch.no_grad():
        trace = TorchScriptPythonDecoder(
            _CachedCall(lm.model),
            example_input=example,
            trace_kwargs={"check_trace": False},  # `_check_graph` compares what comes of it
        )
        graph = openvino.convert_model(trace, example_input=example)
    names = list(_name_ports(graph, len(example["past"])))
    _, num_heads, _, head_size = example["past"][0][0].shape
    shapes = {True: [-1, num_heads, -1, head_size], False: [-1, -1]}
    graph.reshape({port.any_name: shapes[port.any_name in names] for port in graph.inputs})
    _add_beam_indices(graph, names)
    apply_make_stateful_transformation(
        graph, {name: name.replace("past", "present") for name in names}
    )
    _initialize_states(graph)
    graph.validate_nodes_and_infer_types()
    return graph


class _TracedCache(DynamicCache):
    """A cache that starts from given keys and values, and keeps the new ones for graph output."""

    def __init__(self, past: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
        super().__init__()
        self.past = list(past)
        self.present: list[tuple[torch.Tensor, torch.Tensor]] = []

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,
        *_: Any,
        **__: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append keys and values (rows, heads, tokens, head size) of a layer, and return all."""
        keys, values = self.past[layer_idx]
        states = torch.cat([keys, key_states], dim=-2), torch.cat([values, value_states], dim=-2)
        self.present.append(states)
        return states

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the number of given tokens."""
        return self.past[layer_idx][0].shape[-2]


class _CachedCall(torch.nn.Module):
    """A call of a causal language model with a cache as a function of tensors."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        position_ids: torch.Tensor,
        past: Sequence[tuple[torch.Tensor, torch.Tensor]],
    ) -> tuple[torch.Tensor, ...]:
        """Return the logits and each layer's keys and values, with a traceably computed mask."""
        cache = _TracedCache(past)
        columns = torch.arange(attention_mask.shape[1])
        rows = columns[attention_mask.shape[1] - input_ids.shape[1] :]
        causal_mask = (columns[None, :] <= rows[:, None])[None, None] & (
            attention_mask[:, None, None, :] > 0
        )
        output = self.model(
            input_ids=input_ids,
            attention_mask=causal_mask,
            position_ids=position_ids,
            past_key_values=cache,
            use_cache=True,
        )
        return (output.logits, *(tensor for pair in cache.present for tensor in pair))


def _build_example(lm: LanguageModel) -> dict[str, Any]:
    """Build the inputs of the traced call, with a cache in the shape that the model gives it."""
    tokens = torch.arange(_PAST + _NEW).expand(_BATCH, -1) % len(lm.tokenizer)
    with torch.no_grad():
        cache = lm.model(tokens[:, :_PAST], use_cache=True).past_key_values
    return {
        "input_ids": tokens[:, _PAST:],
        "attention_mask": torch.ones_like(tokens),
        "position_ids": torch.arange(_PAST, _PAST + _NEW).expand(_BATCH, -1),
        "past": [(layer.keys, layer.values) for layer in cache.layers],
    }


def _name_ports(graph: openvino.Model, num_layers: int) -> Iterator[str]:
    """Name the inputs and outputs, and yield the names of the inputs that hold keys and values."""
    pairs = [(layer, part) for layer in range(num_layers) for part in ("key", "value")]
    past = [f"past.{layer}.{part}" for layer, part in pairs]
    for port, name in zip(graph.inputs, [*_INPUTS, *past], strict=True):
        port.get_tensor().set_names({name})
    present = [f"present.{layer}.{part}" for layer, part in pairs]
    for port, name in zip(graph.outputs, ["logits", *present], strict=True):
        port.get_tensor().set_names({name})
    yield from past


def _add_beam_indices(graph: openvino.Model, names: Sequence[str]) -> None:
    """Add the input "beam_idx", required by GenAI, which reorders the rows of the cache."""
    from openvino import opset13 as ops

    beam_indices = ops.parameter([-1], dtype=np.int32, name="beam_idx")
    beam_indices.output(0).get_tensor().add_names({"beam_idx"})
    graph.add_parameters([beam_indices])
    for port in [port for port in graph.inputs if port.any_name in names]:
        consumers = port.get_target_inputs()
        reordered = ops.gather(port.node, beam_indices, ops.constant(0, dtype=np.int32))
        for consumer in consumers:
            consumer.replace_source_output(reordered.output(0))
    graph.validate_nodes_and_infer_types()


def _initialize_states(graph: openvino.Model) -> None:
    """Give every state an empty initial value with one row for each row of the input."""
    from openvino import opset13 as ops

    ids = next(port for port in graph.inputs if port.any_name == "input_ids")
    num_rows = ops.gather(ops.shape_of(ids, output_type="i64"), ops.constant([0]), ops.constant(0))
    for node in graph.get_ops():
        if node.get_type_name() == "ReadValue":
            sizes = [
                size.get_length() if size.is_static else 0
                for size in list(node.get_output_partial_shape(0))[1:]
            ]
            shape = ops.concat(
                [num_rows, *(ops.constant(np.array([size], dtype=np.int64)) for size in sizes)], 0
            )
            zero = ops.constant(0.0, dtype=node.get_output_element_type(0).to_dtype())
            node.set_arguments([ops.broadcast(zero, shape)])


def _check_graph(graph: openvino.Model, lm: LanguageModel) -> None:
    """Raise ValueError if two graph calls do not give the model's logits for a new text length."""
    from openvino import Core

    properties = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
    request = Core().compile_model(graph, "CPU", properties).create_infer_request()
    ids = torch.arange(3, 3 + sum(_CHECKED)).unsqueeze(0) % len(lm.tokenizer)
    with torch.no_grad():
        expected_logits = lm.model(ids).logits[0].numpy()
    logits, start = [], 0
    for length in _CHECKED:
        end = start + length
        inputs = {
            "input_ids": ids[:, start:end],
            "attention_mask": torch.ones(1, end, dtype=torch.long),
        }
        inputs |= {
            "position_ids": torch.arange(start, end).unsqueeze(0),
            "beam_idx": torch.zeros(1, dtype=torch.int32),
        }
        logits.append(
            request.infer({name: tensor.numpy() for name, tensor in inputs.items()})["logits"][
                0
            ].copy()
        )
        start = end
    difference = float(np.abs(np.concatenate(logits) - expected_logits).max())
    if not difference <= _MAX_DIFFERENCE * float(np.abs(expected_logits).max()):
        raise ValueError(
            f"the converted model computes other logits, which differ by up to {difference:.3g}"
        )


def _write(graph: openvino.Model, path: Path) -> None:
    """Write a graph as it is, because half precision would also round rotary frequencies."""
    import openvino

    openvino.save_model(graph, path, compress_to_fp16=False)
