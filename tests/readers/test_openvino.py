"""The local reader with OpenVINO GenAI: the same texts and likelihoods as PyTorch, and clear
errors.
"""

import json
import logging
import random
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from winnow.artifacts.provenance import describe_files
from winnow.errors import ConfigError, DiskFullError, ModelError
from winnow.modeling import openvino_export
from winnow.modeling.architectures import TESTED, explain_unsupported
from winnow.modeling.loading import LanguageModel, load_causal_lm
from winnow.readers import openvino
from winnow.readers.batching import TokenizedRequest
from winnow.readers.local import LocalReader
from winnow.readers.openvino import ContinuousBatch
from winnow.records import (
    Decoding,
    Generate,
    Generation,
    Likelihood,
    Message,
    Request,
    Result,
    Score,
)
from winnow.testing import make_tiny_causal_lm, make_tiny_tokenizer

pytest.importorskip("openvino_genai")
TEXTS = [f"The quick brown fox number {n} " * (1 + n % 4) for n in range(9)]
CONTINUATIONS = ("The", "The quick", "The quick brown fox jumps over the lazy dog number 7")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model."""
    return make_tiny_causal_lm(tmp_path_factory.mktemp("lm"), TEXTS, context_length=200)


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of conversions, which all tests share."""
    return tmp_path_factory.mktemp("converted")


def open_reader(
    folder: Path, converted: Path, runtime: str = "openvino", **settings: object
) -> LocalReader:
    return LocalReader(
        str(folder), "tiny", "float32", runtime=runtime, converted=str(converted), **settings
    )  # type: ignore[arg-type]


def serve(reader: LocalReader, requests: Sequence[Request]) -> dict[Request, Result]:
    """Submit all requests and collect until nothing is left."""
    reader.submit(requests)
    results: dict[Request, Result] = {}
    while done := reader.collect(60.0):
        results.update(done)
    return results


def prompts(decoding: Decoding) -> list[Generate]:
    return [Generate((Message("user", text),), decoding) for text in TEXTS]


def test_both_runtimes_give_the_same_greedy_replies(folder: Path, converted: Path) -> None:
    """Texts, reasons of the end, token counts and log-probabilities are those of PyTorch in
    float32.
    """
    requests = prompts(Decoding(12, logprobs=True))
    ours, reference = (
        serve(open_reader(folder, converted, runtime), requests)
        for runtime in ("openvino", "torch")
    )
    assert len(ours) == len(TEXTS)
    for request in requests:
        mine, theirs = ours[request], reference[request]
        assert isinstance(mine, Generation)
        assert isinstance(theirs, Generation)
        assert (mine.text, mine.finish, mine.usage) == (theirs.text, theirs.finish, theirs.usage)
        assert mine.logprobs == pytest.approx(theirs.logprobs, abs=1e-3)


def test_both_runtimes_give_the_same_likelihoods(folder: Path, converted: Path) -> None:
    """Also of continuations that begin alike, of which the second finds its tokens in the cache,
    and of a second call.
    """
    requests = [
        Likelihood((Message("user", text),), continuation, include_eos=include_eos)
        for text in TEXTS
        for continuation in CONTINUATIONS
        for include_eos in (False, True)
    ]
    reader = open_reader(folder, converted)
    reference = serve(open_reader(folder, converted, "torch"), requests)
    for _ in range(2):
        ours = serve(reader, requests)
        for request in requests:
            mine, theirs = ours[request], reference[request]
            assert isinstance(mine, Score)
            assert isinstance(theirs, Score)
            assert mine.value == pytest.approx(theirs.value, abs=2e-3)
            assert mine.usage == theirs.usage


def test_sampled_texts_depend_only_on_their_request(folder: Path, converted: Path) -> None:
    """The same seed gives the same text alone and in company, with and without a filled cache;
    another seed gives others.
    """
    hot = {seed: prompts(Decoding(8, temperature=2.0, top_p=0.95, seed=seed)) for seed in (1, 2)}
    reader = open_reader(folder, converted)
    together = serve(reader, [*hot[1], *hot[2]])
    alone = {
        request: result
        for request in reversed(hot[1])
        for _, result in serve(reader, [request]).items()
    }
    assert all(together[request] == alone[request] for request in hot[1])
    assert any(
        together[first] != together[second] for first, second in zip(hot[1], hot[2], strict=True)
    )
    again = serve(open_reader(folder, converted), hot[1])
    assert all(together[request] == again[request] for request in hot[1])


def test_samples_of_a_prompt_differ(folder: Path, converted: Path) -> None:
    """The number of the sample is part of its seed."""
    decoding = Decoding(8, temperature=2.0, samples=4)
    samples = [Generate((Message("user", TEXTS[0]),), decoding, sample) for sample in range(4)]
    texts = {result.text for result in serve(open_reader(folder, converted), samples).values()}  # type: ignore[union-attr]
    assert len(texts) > 1


def test_results_do_not_depend_on_the_size_of_a_step(folder: Path, converted: Path) -> None:
    """With room for fewer tokens than a prompt has, for some prompts and for all."""
    likelihoods = [Likelihood((Message("user", text),), CONTINUATIONS[2]) for text in TEXTS]
    requests = [*prompts(Decoding(4)), *likelihoods]
    parts, some, whole = (
        serve(open_reader(folder, converted, batch_tokens=tokens), requests)
        for tokens in (32, 150, 4096)
    )
    for request in requests:
        mine, other, theirs = parts[request], some[request], whole[request]
        if isinstance(mine, Score):
            values = [mine.value, other.value, theirs.value]  # type: ignore[union-attr]
            assert max(values) - min(values) < 2e-3
        else:
            assert mine == other == theirs


def test_prompts_that_are_the_beginning_of_others_are_read_rightly(
    folder: Path, converted: Path
) -> None:
    """OpenVINO GenAI lets prompts that run together write to each other's last block; samples of a
    prompt are such prompts.
    """
    reader, reference = (
        open_reader(folder, converted, runtime) for runtime in ("openvino", "torch")
    )
    rng = random.Random(13)
    words = rng.choices(["the", "quick", "brown", "fox", "number", "1", "2", "3"], k=90)
    lengths = [1, 5, 20, 26, 27, 28, 40, 58, 59, 60, 80]
    requests = [
        Generate(
            (Message("user", " ".join(words[: rng.choice(lengths)])),),
            Decoding(rng.choice([1, 4, 9]), logprobs=True),
            sample,
        )
        for sample in range(60)
    ]
    expected = serve(reference, requests)
    batch = reader._open_batch()
    batch.max_tokens = 60
    results: dict[Request, Result] = {}
    for request in requests:  # some join while others run
        reader.submit([request])
        if rng.random() < 0.3:
            results.update(reader.collect(0.0))
    while done := reader.collect(0.0):
        results.update(done)
    for request in requests:
        mine, theirs = results[request], expected[request]
        assert isinstance(mine, Generation)
        assert isinstance(theirs, Generation)
        assert mine.logprobs == pytest.approx(theirs.logprobs, abs=1e-3)


def test_a_reply_cut_by_a_full_cache_is_an_error(folder: Path, converted: Path) -> None:
    """It would look like a reply that reached its number of tokens; other results of the step are
    returned first.
    """
    reader = open_reader(folder, converted)
    good, cut = prompts(Decoding(2))[:2]
    reader.submit([good, cut])
    assert reader._batch is not None
    read = reader._batch._read

    def ignore(item: TokenizedRequest, handle: object) -> object:
        return read(
            item, SimpleNamespace(get_status=lambda: None) if item.request == cut else handle
        )

    reader._batch._read = ignore  # type: ignore[method-assign]
    assert [request for request, _ in reader.collect(5.0)] == [good]
    with pytest.raises(
        ModelError, match=r"no complete reply to a prompt of .*Set reader.engine.cache_gb=4"
    ):
        reader.collect(5.0)


def test_the_runtime_is_part_of_the_identity(folder: Path, converted: Path) -> None:
    """Results of one runtime are never taken for those of the other; "auto" is resolved where
    OpenVINO GenAI is installed.
    """
    torch_reader, ours = (
        open_reader(folder, converted, runtime) for runtime in ("torch", "openvino")
    )
    assert ours.identity == f"{torch_reader.identity}/openvino-2"
    resolve = LocalReader.resolve_settings
    assert (
        resolve({"device": "cpu", "dtype": "float32", "runtime": "auto"})["runtime"]
        == "openvino-2_or_torch"
    )
    assert (
        resolve({"device": "cpu", "dtype": "float32", "runtime": "openvino"})["runtime"]
        == "openvino-2"
    )
    for key in ("openvino-2", "openvino-2_or_torch", "openvino_or_torch"):
        assert resolve({"device": "cpu", "dtype": "float32", "runtime": key})["runtime"] == key
    assert resolve({"device": "cpu", "dtype": "float16", "runtime": "auto"})["runtime"] == "torch"
    assert (
        resolve({"device": "cpu", "dtype": "float32", "runtime": "auto", "deterministic": True})[
            "runtime"
        ]
        == "torch"
    )


def test_what_openvino_does_not_serve_is_refused(folder: Path, converted: Path) -> None:
    """Named tokens, log-probabilities of samples, other precisions and weights in 4 bits."""
    reader = open_reader(folder, converted)
    message = (Message("user", "fox"),)
    assert "named tokens" in str(
        reader.explain_refusal(Generate(message, Decoding(4), token_logprobs=("x",)))
    )
    assert "greedy" in str(
        reader.explain_refusal(Generate(message, Decoding(4, 1.0, logprobs=True)))
    )
    assert reader.explain_refusal(Generate(message, Decoding(4, logprobs=True))) is None
    assert (
        open_reader(folder, converted, "torch").explain_refusal(
            Generate(message, Decoding(4, 1.0, logprobs=True))
        )
        is None
    )
    with pytest.raises(ModelError, match=r"may change on the hub.*Name a commit"):
        openvino_export.convert_causal_lm("owner/name", converted)
    with pytest.raises(ConfigError, match="deterministic=True"):
        open_reader(folder, converted, deterministic=True)
    with pytest.raises(ConfigError, match="cache_gb must be at least 1; received 0"):
        open_reader(folder, converted, cache_gb=0)
    with pytest.raises(ConfigError, match="float32 or bfloat16; received dtype=float16"):
        ContinuousBatch(folder, reader.lm, "float16", 1, 1, 1, 1)


def test_a_failure_of_the_library_is_named(
    folder: Path, converted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Instead of a traceback, the command ends with the folder and what to do; results so far are
    in the ledger.
    """
    reader = open_reader(folder, converted)
    reader.submit(prompts(Decoding(2)))
    assert reader._batch is not None
    monkeypatch.setattr(
        reader._batch, "_pipeline", SimpleNamespace(add_request=_raise(RuntimeError("no memory")))
    )
    with pytest.raises(
        ModelError, match=r"failed on .*: no memory. Set reader.engine.runtime=torch"
    ):
        reader.collect(5.0)


@pytest.mark.parametrize(("dtype", "precision"), [("float32", "f32"), ("bfloat16", "bf16")])
def test_keys_and_values_have_the_precision_of_the_model(
    folder: Path, converted: Path, monkeypatch: pytest.MonkeyPatch, dtype: str, precision: str
) -> None:
    """By default, OpenVINO GenAI stores them in 8 bits."""
    import openvino_genai

    received: list[dict[str, object]] = []

    def load(folder: str, scheduler: object, device: str, properties: dict[str, object]) -> None:
        received.append(properties)

    monkeypatch.setattr(openvino_genai, "ContinuousBatchingPipeline", load)
    monkeypatch.setattr(openvino, "check_precision", lambda _: None)
    ContinuousBatch(folder, open_reader(folder, converted).lm, dtype, 1, 1, 1, 1)
    assert received[0]["KV_CACHE_PRECISION"] == received[0]["INFERENCE_PRECISION_HINT"] == precision


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
            patch.setattr(openvino_export, function, _raise(error))
            with pytest.raises(raised, match=message):
                openvino_export.convert_causal_lm(str(folder), tmp_path)
        assert list(tmp_path.iterdir()) == []
    assert (
        openvino_export.convert_causal_lm(str(folder), tmp_path) / openvino_export.MODEL_FILE
    ).is_file()


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


def _raise(error: BaseException) -> object:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_a_damaged_conversion_is_named(folder: Path, tmp_path: Path) -> None:
    """The message says which folder to remove."""
    reader = open_reader(folder, tmp_path)
    serve(reader, prompts(Decoding(2))[:1])
    (target,) = tmp_path.iterdir()
    (target / openvino_export.MODEL_FILE).write_text("damaged")
    files = {
        name: record for name, record in describe_files(target).items() if name != "files.json"
    }
    (target / "files.json").write_text(json.dumps(files))  # as if it had been written so
    with pytest.raises(
        ModelError, match=rf"{target.name}: .*remove the folder to convert the model again"
    ):
        serve(open_reader(folder, tmp_path), prompts(Decoding(2))[:1])
