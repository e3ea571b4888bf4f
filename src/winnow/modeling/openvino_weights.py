"""Weights of a converted model in fewer bits than float32."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np
import torch

from winnow.modeling.loading import LanguageModel

if TYPE_CHECKING:
    import openvino


def round_matrices(graph: openvino.Model, lm: LanguageModel) -> set[str]:
    """Store the matrices of a model in bfloat16, and return the names of the nodes that read them.

    OpenVINO rounds them alike, to the nearest even number, when it computes in bfloat16. Results
    are the same to the bit, from a file of half the size and with less memory.
    """
    import openvino
    from openvino import opset13 as ops

    parameters = lm.model.named_parameters()
    names = {f"self.model.{name}" for name, values in parameters if values.dim() == 2}
    rounded = set[str]()
    for node in graph.get_ops():
        name = node.get_friendly_name()
        if node.get_type_name() != "Constant" or name not in names:
            continue
        values = torch.from_numpy(node.data).to(torch.bfloat16).view(torch.int16).numpy()
        tensor = openvino.Tensor(openvino.Type.bf16, list(values.shape))
        tensor.data.view(np.int16).reshape(values.shape)[...] = values
        conversion = ops.convert(ops.constant(tensor), "f32")
        conversion.set_friendly_name(name)
        for consumer in node.output(0).get_target_inputs():
            consumer.replace_source_output(conversion.output(0))
        rounded.add(name)
    graph.validate_nodes_and_infer_types()
    return rounded


def mark_rounded(file: Path, names: set[str]) -> None:
    """Mark nodes that convert matrices to float32 as decompression, which OpenVINO then leaves out.
    Its Python interface does not have the mark.
    """
    if not names:
        return
    tree = ElementTree.parse(file)  # noqa: S314 (OpenVINO has just written it)
    for layer in tree.iter("layer"):
        if layer.get("type") == "Convert" and layer.get("name") in names:
            information = ElementTree.Element("rt_info")
            ElementTree.SubElement(information, "attribute", name="decompression", version="0")
            layer.insert(1, information)  # after its data
    tree.write(file, encoding="utf-8", xml_declaration=True)


def compress_weights(graph: openvino.Model) -> openvino.Model:
    """Quantize the layers' matrices symmetrically to 8 bits, with a scale per output channel."""
    import nncf

    logging.getLogger("nncf").setLevel(
        logging.ERROR
    )  # nncf.set_log_level would set the level of others' handlers, too
    return nncf.compress_weights(graph, mode=nncf.CompressWeightsMode.INT8_SYM)
