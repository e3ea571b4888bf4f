"""Conversions of models for OpenVINO."""

import json
import logging
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from tests.readers.openvino_readers import CONTINUATIONS, TEXTS, open_reader, prompts, serve
from winnow.artifacts.provenance import describe_files
from winnow.errors import ConfigError, DiskFullError, ModelError
from winnow.modeling import openvino_export
from winnow.modeling.architectures import TESTED, explain_unsupported
from winnow.modeling.loading import LanguageModel, load_causal_lm
from winnow.modeling.openvino_conversions import MODEL_FILE
from winnow.records import Decoding
from winnow.requests import Likelihood, Message
from winnow.testing import make_tiny_causal_lm, make_tiny_tokenizer

pytest.importorskip("openvino_genai")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model."""
    return make_tiny_causal_lm(tmp_path_factory.mktemp("lm"), TEXTS, context_length=200)


def test_a_model_is_converted_once_for_its_weights(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second reader converts nothing; other weights in the same folder are converted again."""
    first = openvino_export.convert_causal_lm(str(folder), tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(openvino_export, "build_graph", lambda _: pytest.fail("converted again"))
        assert openvino_export.convert_causal_lm(str(folder), tmp_path) == first
    other = make_tiny_causal_lm(tmp_path / "lm", TEXTS, seed=1)
    second = openvino_export.convert_causal_lm(str(other), tmp_path)
    assert second != first
    assert {path.name for path in tmp_path.iterdir()} == {first.name, second.name, "lm"}


def test_an_interrupted_conversion_leaves_nothing_behind(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt, a full disk and an operation that OpenVINO lacks: an error, no half model, and
    then a whole one.
    """
    for function, error, raised, message in (
        ("_write", KeyboardInterrupt(), KeyboardInterrupt, ""),
        ("_write", OSError(28, "No space left on device"), DiskFullError, "became full"),
        (
            "_write",
            RuntimeError("cannot write"),
            ModelError,
            "could not be written.*Check the free space",
        ),
        (
            "build_graph",
            RuntimeError("no such operation"),
            ModelError,
            "no such operation. Set reader.engine.runtime=torch",
        ),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(openvino_export, function, raise_error(error))
            with pytest.raises(raised, match=message):
                openvino_export.convert_causal_lm(str(folder), tmp_path)
        assert list(tmp_path.iterdir()) == []
    assert (openvino_export.convert_causal_lm(str(folder), tmp_path) / MODEL_FILE).is_file()


def make_model(folder: Path, kind: str, **settings: object) -> Path:
    """Save a model of another architecture with random weights."""
    tokenizer = make_tiny_tokenizer(TEXTS)
    sizes = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "head_dim": 8,
    }
    tokens = {
        "vocab_size": len(tokenizer),
        "eos_token_id": 1,
        "bos_token_id": 2,
        "pad_token_id": 0,
    }
    config = AutoConfig.for_model(
        kind,
        **sizes | tokens | {"num_key_value_heads": 2, "max_position_embeddings": 200} | settings,
    )
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)  # type: ignore[no-untyped-call]
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(set(TESTED) - {"llama"}))
def test_other_architectures_give_the_same_results(kind: str, tmp_path: Path) -> None:
    """Likelihoods are PyTorch's, also of models with learned positions, biases and
    normed queries.
    """
    folder = make_model(
        tmp_path / "lm", kind, **({"sliding_window": None} if kind == "mistral" else {})
    )
    assert explain_unsupported(str(folder)) is None
    requests = [Likelihood((Message("user", text),), CONTINUATIONS[2]) for text in TEXTS]
    ours, reference = (
        serve(open_reader(folder, tmp_path / "ov", runtime), requests)
        for runtime in ("openvino", "torch")
    )
    for request in requests:
        assert ours[request].value == pytest.approx(reference[request].value, abs=0.01)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("mistral", {"sliding_window": 16}),
        ("gemma2", {"sliding_window": 16}),
        ("gpt_neo", {"attention_types": [[["global", "local"], 1]]}),
    ],
)
def test_a_model_that_reads_long_texts_otherwise_is_refused(
    kind: str, settings: dict[str, object], tmp_path: Path
) -> None:
    """Windows, and positions that depend on the length: the traced text is too short to
    show them.
    """
    folder = make_model(tmp_path / "lm", kind, **settings)
    assert explain_unsupported(str(folder)) is not None
    with pytest.raises(
        ModelError, match=r"attend to a window of tokens|depend on the length of the text"
    ):
        openvino_export.convert_causal_lm(str(folder), tmp_path / "ov")


def test_auto_uses_pytorch_for_what_openvino_does_not_run(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One line says why; results and identity are those of runtime=torch. With explicit
    runtime=openvino it is an error.
    """
    window = make_model(tmp_path / "lm", "mistral", sliding_window=16)
    requests = prompts(Decoding(4))[:2]
    auto, explicit = (
        open_reader(window, tmp_path / "ov", runtime) for runtime in ("auto", "torch")
    )
    assert auto.identity == explicit.identity
    assert (
        caplog.text.count(
            "runs with PyTorch instead of OpenVINO, because its layers attend to a window of tokens"
        )
        == 1
    )
    assert serve(auto, requests) == serve(explicit, requests)
    assert not (tmp_path / "ov").exists()
    with pytest.raises(ModelError, match="attend to a window"):
        serve(open_reader(window, tmp_path / "ov"), requests)
    assert open_reader(folder, tmp_path, "auto").identity == open_reader(folder, tmp_path).identity


def test_weights_of_eight_bits_are_another_model(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They have an identity and a conversion of their own, a quarter of the size, and nearly the
    same likelihoods.

    NNCF, which converts them, leaves the levels of others' handlers as they are; it would silence
    all later tests of warnings.
    """
    pytest.importorskip("nncf")
    logging.getLogger("nncf").addHandler(caplog.handler)
    full, small = (open_reader(folder, tmp_path, weights=weights) for weights in ("full", "int8"))
    assert small.identity == f"{full.identity}/int8"
    requests = [Likelihood((Message("user", text),), CONTINUATIONS[2]) for text in TEXTS]
    ours, reference = serve(small, requests), serve(full, requests)
    differences = [abs(ours[request].value - reference[request].value) for request in requests]  # type: ignore[union-attr]
    assert 0 < max(differences) < 1
    sizes = [
        sum(file.stat().st_size for file in path.glob("openvino_model.bin"))
        for path in tmp_path.iterdir()
    ]
    assert min(sizes) < 0.5 * max(sizes)
    assert caplog.handler.level == logging.NOTSET
    logging.getLogger("nncf").removeHandler(caplog.handler)
    for settings in ({"weights": "int4"}, {"weights": "int8", "quantize": "4bit"}):
        with pytest.raises(ConfigError, match="weights"):
            open_reader(folder, tmp_path, "auto", **settings)
    for runtime, settings in (("torch", {}), ("auto", {"deterministic": True})):
        with pytest.raises(ConfigError, match=r"weights=int8 needs"):
            _ = open_reader(folder, tmp_path, runtime, weights="int8", **settings).identity


def test_a_conversion_that_computes_something_else_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The converted graph is compared with the model before it is written."""
    other = load_causal_lm(
        str(make_tiny_causal_lm(tmp_path / "lm", TEXTS, seed=1)), "float32", "cpu"
    )
    build_graph = openvino_export.build_graph
    monkeypatch.setattr(openvino_export, "build_graph", lambda _: build_graph(other))
    with pytest.raises(ModelError, match="computes other logits"):
        openvino_export.convert_causal_lm(str(folder), tmp_path / "ov")


def test_two_processes_convert_the_same_model(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slower one takes the conversion of the faster one."""
    build_graph, convert = openvino_export.build_graph, openvino_export.convert_causal_lm

    def lose_the_race(lm: LanguageModel) -> object:
        monkeypatch.setattr(openvino_export, "build_graph", build_graph)
        convert(str(folder), tmp_path)
        return build_graph(lm)

    monkeypatch.setattr(openvino_export, "build_graph", lose_the_race)
    target = convert(str(folder), tmp_path)
    assert list(tmp_path.iterdir()) == [target]


def raise_error(error: BaseException) -> object:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_a_damaged_conversion_is_named(folder: Path, tmp_path: Path) -> None:
    """The message says which folder to remove."""
    reader = open_reader(folder, tmp_path)
    serve(reader, prompts(Decoding(2))[:1])
    (target,) = tmp_path.iterdir()
    (target / MODEL_FILE).write_text("damaged")
    files = {
        name: record for name, record in describe_files(target).items() if name != "files.json"
    }
    (target / "files.json").write_text(json.dumps(files))  # as if it had been written so
    with pytest.raises(
        ModelError, match=rf"{target.name}: .*remove the folder to convert the model again"
    ):
        serve(open_reader(folder, tmp_path), prompts(Decoding(2))[:1])
