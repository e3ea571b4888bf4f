"""What OpenVINO runs for a local reader, and what it refuses."""

from pathlib import Path

import pytest

from tests.readers.openvino_readers import CONTINUATIONS, TEXTS, get_runtime, open_reader, prompts
from winnow.readers.openvino_runtime import OpenVinoRuntime
from winnow.records import Decoding
from winnow.requests import Generate, Likelihood, Message
from winnow.testing import make_tiny_causal_lm

pytest.importorskip("openvino_genai")
MESSAGES = (Message("user", TEXTS[0]),)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (Likelihood(MESSAGES, "a", per_token=True), "of the tokens of a text"),
        (Generate(MESSAGES, Decoding(logprobs=True, top_logprobs=2)), "of other tokens"),
        (Generate(MESSAGES, Decoding(), token_logprobs=("a",)), "of named tokens"),
        (Generate(MESSAGES, Decoding(logprobs=True, temperature=1.0)), "of greedy replies only"),
        (Generate(MESSAGES, Decoding(temperature=1.0)), None),
        (Generate(MESSAGES, Decoding(logprobs=True)), None),
        (Likelihood(MESSAGES, "a"), None),
    ],
)
def test_what_it_does_not_serve(request_: Generate | Likelihood, reason: str | None) -> None:
    """Log-probabilities that OpenVINO GenAI does not have, each with its reason."""
    runtime = OpenVinoRuntime("lm", Path("converted"), "full", "float32", 1, 8, 64, None)
    refusal = runtime.explain_refusal(request_)
    if reason is None:
        assert refusal is None
    else:
        assert f"log-probabilities {reason}. Use runtime=torch." in str(refusal)


def test_it_is_named_with_the_precision_of_its_weights() -> None:
    """Full ones have no word of their own."""
    identities = [
        OpenVinoRuntime("lm", Path("converted"), weights, "float32", 1, 8, 64, None).identity
        for weights in ("full", "int8")
    ]
    assert identities == ["/openvino-3", "/openvino-3/int8"]


def test_generations_and_likelihoods_are_both_collected(tmp_path: Path) -> None:
    """The model is loaded for each kind when its first request comes, and released at the end."""
    folder = make_tiny_causal_lm(tmp_path / "lm", TEXTS, context_length=200)
    reader = open_reader(folder, tmp_path / "converted")
    runtime = get_runtime(reader)
    assert (runtime.batch, runtime.scorer, list(reader.collect(0.0))) == (None, None, [])
    requests = [*prompts(Decoding(2))[:2], Likelihood(MESSAGES, CONTINUATIONS[0])]
    reader.submit(requests)
    assert runtime.batch is not None
    assert runtime.scorer is not None
    collected = []
    while results := reader.collect(5.0):
        collected += [request for request, _ in results]
    assert sorted(map(repr, collected)) == sorted(map(repr, requests))
    reader.close()
    assert (runtime.batch, runtime.scorer) == (None, None)
