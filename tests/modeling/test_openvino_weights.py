"""Weights of a converted model in bfloat16: half the file, and the same results."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.readers.openvino_readers import CONTINUATIONS, TEXTS, prompts, serve
from winnow.modeling.devices import resolve_dtype
from winnow.modeling.loading import load_causal_lm
from winnow.modeling.openvino_conversions import MODEL_FILE
from winnow.modeling.openvino_export import convert_causal_lm
from winnow.readers.local import LocalReader
from winnow.records import Decoding
from winnow.requests import Likelihood, Message, Request, Result
from winnow.testing import make_tiny_causal_lm

pytest.importorskip("openvino_genai")


@pytest.mark.skipif(resolve_dtype("auto", "cpu") != "bfloat16", reason="needs a CPU with bfloat16")
def test_rounded_matrices_give_the_same_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replies, their probabilities and likelihoods are equal to the bit, because OpenVINO rounds
    float32 alike.
    """
    folder = make_tiny_causal_lm(tmp_path / "lm", TEXTS, context_length=200)
    requests = [
        *prompts(Decoding(6, logprobs=True)),
        *(Likelihood((Message("user", text),), CONTINUATIONS[2]) for text in TEXTS),
    ]

    def run() -> dict[Request, Result]:
        reader = LocalReader(
            str(folder), "tiny", "bfloat16", runtime="openvino", converted=str(tmp_path)
        )
        return serve(reader, requests)

    rounded = run()
    (target,) = (path for path in tmp_path.iterdir() if (path / MODEL_FILE).is_file())
    full = convert_causal_lm(str(folder), tmp_path)
    sizes = [path.joinpath("openvino_model.bin").stat().st_size for path in (target, full)]
    assert 0.5 <= sizes[0] / sizes[1] < 0.6
    monkeypatch.setattr("winnow.readers.openvino_runtime.find_converted", lambda *_: full)
    assert run() == rounded


def test_stored_matrices_are_rounded_to_the_nearest(tmp_path: Path) -> None:
    """Of every matrix, and of nothing else; on any CPU."""
    import openvino

    folder = make_tiny_causal_lm(tmp_path / "lm", TEXTS)
    target = convert_causal_lm(str(folder), tmp_path, dtype="bfloat16")
    model = load_causal_lm(str(folder), "float32", "cpu").model
    graph = openvino.Core().read_model(target / MODEL_FILE)
    matrices = {f"self.model.{n}": p for n, p in model.named_parameters() if p.dim() == 2}
    num_rounded = 0
    for node in graph.get_ops():
        if node.get_type_name() == "Constant" and node.get_element_type() == openvino.Type.bf16:
            (reader,) = node.output(0).get_target_inputs()
            stored = torch.from_numpy(node.data.view(np.int16).copy()).view(torch.bfloat16)
            own = matrices[reader.get_node().get_friendly_name()].detach()
            assert torch.equal(stored.reshape(own.shape), own.to(torch.bfloat16))
            num_rounded += 1
    assert num_rounded == len(matrices)


def test_each_precision_has_a_conversion(tmp_path: Path) -> None:
    """One that computes in float32 reads all bits of the weights."""
    folder = make_tiny_causal_lm(tmp_path / "lm", TEXTS)
    targets = {
        convert_causal_lm(str(folder), tmp_path, dtype=dtype) for dtype in ("float32", "bfloat16")
    }
    assert len(targets) == 2
