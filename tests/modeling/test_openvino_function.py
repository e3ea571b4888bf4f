"""Scoring by OpenVINO: PyTorch's numbers, at any batch size and length, and nothing reported to
anyone.
"""

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from winnow.errors import ConfigError, ModelError
from winnow.estimators.causal import CausalEstimator
from winnow.estimators.cross_encoder import CrossEncoder
from winnow.estimators.pair import PairEstimator
from winnow.estimators.t5 import T5Estimator
from winnow.modeling import devices as models
from winnow.modeling.devices import resolve_dtype, resolve_runtime
from winnow.modeling.openvino_function import CompiledFunction
from winnow.records import Passage
from winnow.testing import make_tiny_encoder, make_tiny_t5

pytest.importorskip("openvino")
TEXTS = [
    "question: who wrote emma title: Emma context: Jane Austen wrote Emma true false",
    "the sea is blue and wide",
] * 20
PAIRS = [
    ("who wrote emma", Passage(str(n), "Emma", "Jane Austen wrote Emma. " * n)) for n in range(1, 9)
]
PAIRS.append(
    (
        "what is blue",
        Passage("b", "The sea", "The sea is blue, and wide, and deep, and cold in winter."),
    )
)
Make = Callable[..., PairEstimator]


def t5(folder: Path, **settings: str) -> T5Estimator:
    return T5Estimator(
        str(make_tiny_t5(folder / "t5", TEXTS)), label_words=(" true", " false"), **settings
    )  # type: ignore[arg-type]


def classes(folder: Path, **settings: str) -> CrossEncoder:
    torch.manual_seed(0)
    estimator = CrossEncoder(
        str(make_tiny_encoder(folder / "bert", TEXTS)), head="classes", **settings
    )  # type: ignore[arg-type]
    torch.nn.init.normal_(estimator.lm.model.classifier.weight, std=9.0)  # type: ignore[union-attr,arg-type]
    return estimator


def pooled(folder: Path, **settings: str) -> CrossEncoder:
    return CrossEncoder(str(make_tiny_encoder(folder / "bert", TEXTS)), head="pooled", **settings)  # type: ignore[arg-type]


def apart(folder: Path, **settings: str) -> CrossEncoder:
    return CrossEncoder(
        str(make_tiny_encoder(folder / "bert", TEXTS)),
        head="pooled",
        separate_layers=1,
        **settings,
    )  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [t5, classes, pooled, apart])
def test_it_gives_pytorchs_numbers(make: Make, tmp_path: Path) -> None:
    """In batches of several sizes and lengths, also a second time, when the first's memory is used
    again.
    """
    expected = make(tmp_path, dtype="float32").score(PAIRS)
    assert expected.std() > 5e-3
    estimator = make(tmp_path, dtype="float32", runtime="openvino")
    estimator.batch_tokens = 60
    assert estimator.score(PAIRS) == pytest.approx(expected, abs=1e-4)
    assert estimator.score(PAIRS[:1]) == pytest.approx(expected[:1], abs=1e-4)


@pytest.mark.skipif(
    resolve_dtype("auto", "cpu") != "bfloat16", reason="this CPU does not compute in bfloat16"
)
@pytest.mark.parametrize("make", [t5, pooled])
def test_bfloat16_is_close(make: Make, tmp_path: Path) -> None:
    """Within a third of what tells the pairs apart."""
    expected = make(tmp_path, dtype="float32").score(PAIRS)
    assert make(tmp_path, dtype="bfloat16", runtime="openvino").score(PAIRS) == pytest.approx(
        expected, abs=float(expected.std()) / 3
    )


def test_scores_are_the_callers_to_keep(tmp_path: Path) -> None:
    """An output is overwritten by the next call; scores are not."""
    estimator = t5(tmp_path, dtype="float32", runtime="openvino")
    first = estimator.score(PAIRS[:1])
    kept = first.copy()
    assert estimator.score(PAIRS[1:2]) != pytest.approx(kept, abs=1e-4)
    assert first.tolist() == kept.tolist()


def test_nan_is_the_models_and_names_the_question(tmp_path: Path) -> None:
    """Not taken for an output that was not written."""
    estimator = pooled(tmp_path, dtype="float32", runtime="openvino")
    for parameter in estimator.lm.model.parameters():
        torch.nn.init.constant_(parameter, torch.nan)
    with pytest.raises(ModelError, match="gave NaN for question 'who wrote emma'"):
        estimator.score(PAIRS[:1])


def test_what_it_cannot_run_is_told() -> None:
    """With the model's name and the setting that runs it: an operation it lacks, a function that
    goes by its input's size.
    """
    square, level = (torch.eye(3),), logging.getLogger().level

    def by_size(values: torch.Tensor) -> torch.Tensor:
        return values * len(values)

    with pytest.raises(
        ModelError, match=r"OpenVINO cannot run models/x: .* Set estimator.engine.runtime=torch"
    ):
        CompiledFunction(
            torch.nn.Identity(), torch.linalg.eigvals, square, square, "float32", "models/x"
        )
    assert logging.getLogger().level == level
    with pytest.raises(
        ModelError,
        match="cannot run models/x: the trace is only valid for inputs of the example's size",
    ):
        CompiledFunction(
            torch.nn.Identity(), by_size, square, (torch.ones(2, 3),), "float32", "models/x"
        )
    with pytest.raises(ConfigError, match="received dtype=float16"):
        CompiledFunction(torch.nn.Identity(), by_size, square, square, "float16", "models/x")
    with pytest.raises(
        ConfigError, match="causal estimator supports runtime=torch only; received 'openvino'"
    ):
        CausalEstimator("x", runtime="openvino")
    assert CausalEstimator("x", runtime="auto").runtime == "torch"


def test_an_input_that_it_gives_nothing_for_is_no_score_of_the_last_one(tmp_path: Path) -> None:
    """More tokens than positions: OpenVINO may say nothing, and leave its output as it was."""
    estimator = pooled(tmp_path, dtype="float32", runtime="openvino")
    estimator.score(PAIRS)
    for length in (estimator.lm.context_length + 40, estimator.lm.context_length + 1):
        with pytest.raises(
            ModelError, match=r"bert: OpenVINO wrote no output for inputs of \[\(1, \d+\), "
        ):
            estimator._log_odds(estimator.collate([[1] * length], [3]))


def test_what_a_model_cannot_read_is_refused(tmp_path: Path) -> None:
    """More tokens than it has positions, a tokenizer that knows more than the model."""
    with pytest.raises(ConfigError, match=r"max_length=4000 exceeds the \d+ tokens that .* reads"):
        CrossEncoder(str(make_tiny_encoder(tmp_path / "bert", TEXTS)), max_length=4000).score(PAIRS)
    estimator = pooled(tmp_path, runtime="openvino")
    estimator.lm.tokenizer.add_tokens(["another"])
    with pytest.raises(ModelError, match=r"tokens, but the model has embeddings for only \d+"):
        estimator.score(PAIRS)


def test_auto_takes_it_on_a_cpu_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what was asked for and cannot be had is refused."""
    assert [resolve_runtime(name, "cpu") for name in ("auto", "torch", "openvino")] == [
        "openvino",
        "torch",
        "openvino",
    ]
    with pytest.raises(ConfigError, match=r"one of auto, torch, openvino; received 'onnx'"):
        resolve_runtime("onnx", "cpu")
    monkeypatch.setattr(models, "find_spec", lambda _name: None)
    assert resolve_runtime("auto", "cpu") == "torch"
    with pytest.raises(ConfigError, match="openvino is not installed"):
        resolve_runtime("openvino", "cpu")
    assert resolve_runtime("auto", "cuda") == resolve_runtime("auto", "cpu", "float16") == "torch"
    with pytest.raises(ConfigError, match="received device=cuda"):
        resolve_runtime("openvino", "cuda")


def test_its_converter_reports_nothing() -> None:
    """Its telemetry is never imported."""
    code = (
        "import sys, torch; from winnow.modeling.openvino_function import CompiledFunction; "
        "layer = torch.nn.Linear(3, 2); CompiledFunction(layer, layer, (torch.zeros(2, 3),), "
        "(torch.ones(1, 3),), 'float32', 'x'); print(sys.modules['openvino_telemetry'])"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "None"
