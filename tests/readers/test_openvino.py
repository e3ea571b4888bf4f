"""The local reader with OpenVINO GenAI: the same texts and likelihoods as PyTorch, and clear
errors.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.readers.openvino_readers import (
    CONTINUATIONS,
    TEXTS,
    get_runtime,
    open_reader,
    prompts,
    serve,
)
from tests.readers.test_openvino_conversions import raise_error
from winnow.errors import ConfigError, ModelError
from winnow.modeling import openvino_export
from winnow.readers import openvino
from winnow.readers.local import LocalReader
from winnow.readers.openvino import ContinuousBatch, _RunningRequest
from winnow.readers.runtime import TokenizedRequest
from winnow.records import Decoding
from winnow.requests import Generate, Generation, Likelihood, Message, Request, Result, Score
from winnow.testing import make_tiny_causal_lm

pytest.importorskip("openvino_genai")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model."""
    return make_tiny_causal_lm(tmp_path_factory.mktemp("lm"), TEXTS, context_length=200)


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of conversions, which all tests share."""
    return tmp_path_factory.mktemp("converted")


def check_same_replies(
    requests: Sequence[Request], ours: Mapping[Request, Result], others: Mapping[Request, Result]
) -> None:
    """Check that two readers gave the same texts, ends, usage and log-probabilities."""
    for request in requests:
        mine, theirs = ours[request], others[request]
        assert isinstance(mine, Generation)
        assert isinstance(theirs, Generation)
        assert (mine.text, mine.finish, mine.usage) == (theirs.text, theirs.finish, theirs.usage)
        assert mine.logprobs == pytest.approx(theirs.logprobs, abs=1e-3)


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
    check_same_replies(requests, ours, reference)


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
    batch = get_runtime(reader).open_batch()
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
    batch = get_runtime(reader).open_batch()
    openvino_genai = pytest.importorskip("openvino_genai")
    start = batch._start

    def start_cut(item: TokenizedRequest) -> object:
        handle = start(item)
        running = openvino_genai.GenerationStatus.RUNNING
        failing = SimpleNamespace(
            get_status=lambda: running if handle.get_status() == running else None,
            can_read=handle.can_read,
            read=handle.read,
        )
        return failing if item.request == cut else handle

    batch._start = start_cut  # type: ignore[method-assign]
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
    assert ours.identity == f"{torch_reader.identity}/openvino-3"
    resolve = LocalReader.resolve_settings
    assert (
        resolve({"device": "cpu", "dtype": "float32", "runtime": "auto"})["runtime"]
        == "openvino-3_or_torch"
    )
    assert (
        resolve({"device": "cpu", "dtype": "float32", "runtime": "openvino"})["runtime"]
        == "openvino-3"
    )
    for key in ("openvino-3", "openvino-3_or_torch", "openvino_or_torch"):
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
        ContinuousBatch(folder, reader.text, "float16", 1, 1, 1, 1)


def test_a_failure_of_the_library_is_named(
    folder: Path, converted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Instead of a traceback, the command ends with the folder and what to do; results so far are
    in the ledger.
    """
    reader = open_reader(folder, converted)
    reader.submit(prompts(Decoding(2)))
    monkeypatch.setattr(
        get_runtime(reader).open_batch(),
        "_pipeline",
        SimpleNamespace(add_request=raise_error(RuntimeError("no memory"))),
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
    ContinuousBatch(folder, open_reader(folder, converted).text, dtype, 1, 1, 1, 1)
    assert received[0]["KV_CACHE_PRECISION"] == received[0]["INFERENCE_PRECISION_HINT"] == precision


def test_stop_strings_end_a_reply_as_in_the_other_runtime(folder: Path, converted: Path) -> None:
    """Also those that end in white space, which the library itself handles otherwise; the prompts
    run together, and each may be the beginning of a later one.
    """
    ours, torch_reader = (
        open_reader(folder, converted, runtime) for runtime in ("openvino", "torch")
    )
    tokenizer = ours.text.tokenizer
    (whole,) = serve(ours, prompts(Decoding(16, logprobs=True))[:1]).values()
    assert isinstance(whole, Generation)
    ids = tokenizer(whole.text, add_special_tokens=False)["input_ids"]
    parts = {
        tokenizer.decode(ids[start:end])
        for start in range(len(ids))
        for end in range(start + 1, min(start + 4, len(ids)) + 1)
    }
    stops = sorted({part + blank for part in parts for blank in ("", " ", "\n\n") if part})
    requests = [prompts(Decoding(16, logprobs=True, stop=(stop,)))[0] for stop in stops]
    assert len(requests) > 50
    mine, theirs = serve(ours, requests), serve(torch_reader, requests)
    check_same_replies(requests, mine, theirs)
    (again,) = serve(ours, prompts(Decoding(16, logprobs=True))[:1]).values()
    assert again == whole


def test_what_was_generated_behind_a_stop_string_is_no_part_of_the_reply(
    folder: Path, converted: Path
) -> None:
    """A step of the library may give several tokens; neither their number nor their
    log-probabilities count.
    """
    openvino_genai = pytest.importorskip("openvino_genai")
    reader = open_reader(folder, converted, "openvino")
    batch = get_runtime(reader).open_batch()
    (item, *_) = prompts(Decoding(8, logprobs=True, stop=("fox",)))

    class Handle:
        """A request that gave four tokens in its last step."""

        def get_status(self) -> object:
            return openvino_genai.GenerationStatus.STOP

    ids = list(range(40, 44))
    running = _RunningRequest(
        TokenizedRequest(item, [1, 2, 3]), Handle(), batch._decode, ids, [-1.0, -2.0, -3.0, -4.0],
        end=2,
    )  # fmt: skip
    result = batch._build_result(running)
    assert isinstance(result, Generation)
    assert (result.usage.tokens_in, result.usage.tokens_out) == (3, 2)
    assert result.logprobs == (-1.0, -2.0)
    assert result.text == batch._decode(ids[:2])


def test_a_token_that_ends_a_reply_is_counted_and_not_shown(folder: Path, converted: Path) -> None:
    """Also if it is an ordinary token for the tokenizer."""
    openvino_genai = pytest.importorskip("openvino_genai")
    batch = get_runtime(open_reader(folder, converted, "openvino")).open_batch()
    batch.text = replace(batch.text, end_token_ids=frozenset({41}))
    finished = openvino_genai.GenerationStatus.FINISHED
    item = TokenizedRequest(prompts(Decoding(8))[0], [1, 2, 3])
    handle = SimpleNamespace(get_status=lambda: finished)
    result = batch._build_result(_RunningRequest(item, handle, batch._decode, [40, 41]))
    assert isinstance(result, Generation)
    assert (result.text, result.finish) == (batch._decode([40]), "stop")
    assert result.usage.tokens_out == 2
