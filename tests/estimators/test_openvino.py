"""Scoring by OpenVINO: PyTorch's numbers, at any batch size and length, and nothing reported to anyone."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from winnow import models
from winnow.errors import ConfigError, ModelError
from winnow.estimators.causal import CausalEstimator
from winnow.estimators.cross_encoder import CrossEncoder
from winnow.estimators.openvino import Compiled
from winnow.estimators.pair import PairEstimator
from winnow.estimators.t5 import T5Estimator
from winnow.models import resolve_runtime
from winnow.records import Passage
from winnow.testing import tiny_encoder, tiny_t5

pytest.importorskip("openvino")
TEXTS = ["question: who wrote emma title: Emma context: Jane Austen wrote Emma true false", "the sea is blue and wide"] * 20
PAIRS = [("who wrote emma", Passage(str(n), "Emma", "Jane Austen wrote Emma. " * n)) for n in range(1, 9)]
PAIRS.append(("what is blue", Passage("b", "The sea", "The sea is blue, and wide, and deep, and cold in winter.")))
Make = Callable[..., PairEstimator]


def t5(folder: Path, **settings: str) -> T5Estimator:
    return T5Estimator(str(tiny_t5(folder / "t5", TEXTS)), words=(" true", " false"), **settings)  # type: ignore[arg-type]


def classes(folder: Path, **settings: str) -> CrossEncoder:
    torch.manual_seed(0)  # of the new classifier
    return CrossEncoder(str(tiny_encoder(folder / "bert", TEXTS)), head="classes", **settings)  # type: ignore[arg-type]


def pooled(folder: Path, **settings: str) -> CrossEncoder:
    return CrossEncoder(str(tiny_encoder(folder / "bert", TEXTS)), head="pooled", **settings)  # type: ignore[arg-type]


def apart(folder: Path, **settings: str) -> CrossEncoder:
    return CrossEncoder(str(tiny_encoder(folder / "bert", TEXTS)), head="pooled", apart=1, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [t5, classes, pooled, apart])
def test_it_gives_pytorchs_numbers(make: Make, tmp_path: Path) -> None:
    """In batches of several sizes and lengths, also a second time, when the first's memory is used again."""
    expected = make(tmp_path, dtype="float32").score(PAIRS)
    estimator = make(tmp_path, dtype="float32", runtime="openvino")
    estimator.batch_tokens = 60
    assert estimator.score(PAIRS) == pytest.approx(expected, abs=1e-4)
    assert estimator.score(PAIRS[:1]) == pytest.approx(expected[:1], abs=1e-4)
    assert make(tmp_path, dtype="bfloat16", runtime="openvino").score(PAIRS) == pytest.approx(expected, abs=0.1)


def test_results_are_the_callers_to_keep() -> None:
    """The next call does not write into them."""
    layer = torch.nn.Linear(3, 2)
    compiled = Compiled(layer, layer, [torch.zeros(2, 3)], "float32", "a layer")
    first = compiled(torch.ones(1, 3))[0]
    kept = first.clone()
    compiled(torch.zeros(1, 3))
    assert torch.equal(first, kept)
    assert torch.allclose(first, layer(torch.ones(1, 3)), atol=1e-6)


def test_what_it_cannot_run_is_told() -> None:
    """With the model's name and the setting that runs it."""

    def strange(values: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvals(values)

    with pytest.raises(ModelError, match=r"OpenVINO cannot run models/x: .* Set estimator.engine.runtime=torch"):
        Compiled(torch.nn.Identity(), strange, [torch.eye(3)], "float32", "models/x")
    with pytest.raises(ConfigError, match="received dtype=float16"):
        Compiled(torch.nn.Identity(), strange, [torch.eye(3)], "float16", "models/x")
    with pytest.raises(ConfigError, match=r"causal estimator runs with .*torch alone; received 'auto'"):
        CausalEstimator("x", runtime="auto")


def test_auto_takes_it_on_a_cpu_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what was asked for and cannot be had is refused."""
    assert [resolve_runtime(name, "cpu") for name in ("auto", "torch", "openvino")] == ["openvino", "torch", "openvino"]
    with pytest.raises(ConfigError, match=r"one of auto, torch, openvino; received 'onnx'"):
        resolve_runtime("onnx", "cpu")
    monkeypatch.setattr(models, "find_spec", lambda _name: None)
    assert resolve_runtime("auto", "cpu") == "torch"
    with pytest.raises(ConfigError, match="it is not installed"):
        resolve_runtime("openvino", "cpu")
    monkeypatch.setattr(models, "pick_device", lambda _name: torch.device("cuda"))
    assert resolve_runtime("auto", "cuda") == "torch"
    with pytest.raises(ConfigError, match="received device=cuda"):
        resolve_runtime("openvino", "cuda")


def test_its_converter_reports_nothing() -> None:
    """Its telemetry is never imported."""
    code = (
        "import sys, torch; from winnow.estimators.openvino import Compiled; layer = torch.nn.Linear(3, 2); "
        "Compiled(layer, layer, [torch.zeros(2, 3)], 'float32', 'a layer'); print(sys.modules['openvino_telemetry'])"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert made.stdout.strip() == "None"
