"""The local reader: batches give what single prompts give."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from winnow.errors import ConfigError, ModelError
from winnow.modeling.chat import render_chat
from winnow.readers.local import LocalReader
from winnow.records import Decoding
from winnow.requests import Generate, Generation, Likelihood, Message, Request, Score, Search
from winnow.testing import make_tiny_causal_lm

TEXTS = [f"The quick brown fox number {n} " * (1 + n % 4) for n in range(9)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model."""
    return make_tiny_causal_lm(tmp_path_factory.mktemp("lm"), TEXTS, context_length=200)


def requests(decoding: Decoding | None = None) -> list[Generate]:
    return [Generate((Message("user", text),), decoding or Decoding(8)) for text in TEXTS]


def answers(reader: LocalReader, queries: list[Generate]) -> dict[str, str]:
    """Submit all and collect until nothing is left."""
    reader.submit(queries)
    replies = {}
    while batch := reader.collect(5.0):
        replies.update({q.messages[0].content: r.text for q, r in batch})  # type: ignore[union-attr]
    return replies


def test_batches_equal_single_prompts_in_float32(folder: Path) -> None:
    """Left padding and mixed lengths change no greedy text."""
    together = answers(LocalReader(str(folder), "tiny", "float32", batch_size=4), requests())
    alone = answers(LocalReader(str(folder), "tiny", "float32", batch_size=1), requests())
    assert together == alone
    assert len(together) == len(TEXTS)
    assert any(together.values())


def test_a_batch_keeps_its_token_budget(folder: Path) -> None:
    """The longest prompts come first; padded tokens stay within the budget."""
    reader = LocalReader(str(folder), "tiny", "float32", batch_tokens=100, batch_size=8)
    reader.submit(requests())
    first = reader.collect(5.0)
    widest = max(reader.count_tokens(q) for q, _ in first)
    assert widest == max(reader.count_tokens(q) for q in requests())
    assert widest * len(first) <= 100


def test_usage_and_finish(folder: Path) -> None:
    """Tokens in are the prompt's; a reply cut by the limit says "length"."""
    reader = LocalReader(str(folder), "tiny", "float32")
    reader.submit(requests(Decoding(2))[:1])
    ((request, result),) = reader.collect(5.0)
    assert result.usage.tokens_in == reader.count_tokens(request)  # type: ignore[union-attr]
    assert result.usage.tokens_out <= 2  # type: ignore[union-attr]
    assert result.finish in {"stop", "length"}  # type: ignore[union-attr]
    assert reader.collect(5.0) == []


def test_sampling_is_seeded(folder: Path) -> None:
    """The same seed gives the same text, another sample another one (of nine, at least one)."""
    hot = [Decoding(8, temperature=2.0, seed=seed) for seed in (1, 1, 2)]
    runs = [answers(LocalReader(str(folder), "tiny", "float32"), requests(d)) for d in hot]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_sampled_texts_do_not_depend_on_their_company(folder: Path) -> None:
    """Greedy and sampled prompts of several temperatures share batches; each text is what it is
    alone.
    """
    queries = [
        q for d in (Decoding(8), Decoding(8, 0.7, 0.9), Decoding(8, 2.0)) for q in requests(d)
    ]
    together, alone = (
        LocalReader(str(folder), "tiny", "float32", batch_size=size) for size in (6, 1)
    )
    replies = [_texts(reader, queries) for reader in (together, alone)]
    assert replies[0] == replies[1]
    assert len(set(replies[0].values())) > 12


def _texts(reader: LocalReader, queries: list[Generate]) -> dict[Generate, str]:
    reader.submit(queries)
    replies = {}
    while batch := reader.collect(5.0):
        replies.update({q: r.text for q, r in batch})  # type: ignore[union-attr]
    return replies  # type: ignore[return-value]


def test_likelihoods_equal_a_plain_forward_pass(folder: Path) -> None:
    """Log P(continuation, end | prompt), token by token, for each alone; batches and padding change
    nothing.
    """
    import torch

    reader = LocalReader(str(folder), "tiny", "float32", batch_size=4)
    queries = [
        Likelihood((Message("user", t),), c, include_eos=e)
        for t in TEXTS[:3]
        for c in ("fox", "the quick fox")
        for e in (True, False)
    ]
    reader.submit(queries)
    replies: dict[Request, float] = {}
    while batch := reader.collect(5.0):
        replies.update({q: r.value for q, r in batch})  # type: ignore[union-attr]
    tokenizer = reader.lm.tokenizer
    for one in queries:
        prompt = tokenizer(render_chat(tokenizer, one.messages), add_special_tokens=False)[
            "input_ids"
        ]
        target = (
            tokenizer(one.continuation, add_special_tokens=False)["input_ids"]
            + [tokenizer.eos_token_id] * one.include_eos
        )
        with torch.no_grad():
            steps = (
                reader.lm.model(torch.tensor([prompt + target], device=reader.lm.device))
                .logits[0, len(prompt) - 1 : -1]
                .log_softmax(-1)
            )
        assert replies[one] == pytest.approx(
            sum(float(step[t]) for step, t in zip(steps, target, strict=True)), abs=1e-4
        )


def test_log_probabilities_of_what_was_written(folder: Path) -> None:
    """One a written token; those of sampled texts are the model's own, before temperature and
    noise.
    """
    import torch

    reader = LocalReader(str(folder), "tiny", "float32")
    reader.submit(requests(Decoding(4, logprobs=True))[:2])
    results = dict(reader.collect(5.0))
    for request, result in results.items():
        assert isinstance(request, Generate)
        assert isinstance(result, Generation)
        assert result.logprobs is not None
        assert len(result.logprobs) == result.usage.tokens_out
        assert max(result.logprobs) <= 0
    hot = requests(Decoding(4, temperature=1.5, logprobs=True))[:1]
    reader.submit(hot)
    ((_, sampled),) = reader.collect(5.0)
    assert isinstance(sampled, Generation)
    tokenizer = reader.lm.tokenizer
    prompt = tokenizer(render_chat(tokenizer, hot[0].messages), add_special_tokens=False)[
        "input_ids"
    ]
    steps = (
        reader.lm.model(torch.tensor([prompt], device=reader.lm.device))
        .logits[0, -1]
        .log_softmax(-1)
    )
    assert sampled.logprobs is not None
    assert min(abs(steps - sampled.logprobs[0])) < 1e-4
    reader.submit(requests()[:1])
    assert reader.collect(5.0)[0][1].logprobs is None  # type: ignore[union-attr]


def test_four_bits_need_a_gpu(folder: Path) -> None:
    """And safetensors; the message says so."""
    with pytest.raises(ConfigError, match="needs a GPU"):
        _ = LocalReader(str(folder), "t", device="cpu", quantize="4bit").lm
    with pytest.raises(ConfigError, match="none or 4bit"):
        LocalReader(str(folder), "t", quantize="8bit")
    assert LocalReader(str(folder), "t", "bfloat16", quantize="4bit").identity.endswith(
        "bfloat16/4bit"
    )


def test_the_window_is_known(folder: Path) -> None:
    """Prompt and reply together must fit."""
    reader = LocalReader(str(folder), "tiny", "float32")
    assert reader.token_limit == 200
    assert LocalReader(str(folder), "tiny", "float32", context_length=30).token_limit == 30
    beyond = LocalReader(str(folder), "tiny", "float32", context_length=201)
    with pytest.raises(ConfigError, match=r"context_length=201 exceeds the 200 tokens that .*lm"):
        beyond.fits(requests()[0])
    assert reader.fits(requests()[0])
    assert not reader.fits(Generate((Message("user", "fox " * 300),), Decoding(8)))


def test_identity_and_refusals(folder: Path) -> None:
    """Precision is part of the identity; other requests and empty batches are refused."""
    assert (
        LocalReader(str(folder), "t", "float32").identity
        != LocalReader(str(folder), "t", "bfloat16").identity
    )
    assert (
        LocalReader(str(folder), "t", "float32").identity
        != LocalReader(str(folder), "t", "float32", context_length=64).identity
    )
    with pytest.raises(ConfigError, match="batch_size must be at least 1, or null; received 0"):
        LocalReader(str(folder), "t", batch_size=0)
    with pytest.raises(ConfigError, match="serves Generate"):
        LocalReader(str(folder), "t").count_tokens(Search("q", 1))


def test_named_tokens_have_log_probabilities_at_every_step(tmp_path: Path) -> None:
    """All of them, not only the chosen one; they are those of a plain forward pass, and a split
    text is refused.
    """
    folder = make_tiny_causal_lm(tmp_path / "m", TEXTS)
    reader = LocalReader(str(folder), "tiny", "float32", "cpu")
    tokenizer = reader.lm.tokenizer
    words = tuple(tokenizer.convert_ids_to_tokens(range(10, 14)))
    prompt = (Message("user", "abc"),)
    request = Generate(prompt, Decoding(max_new_tokens=4, logprobs=True), token_logprobs=words)
    reader.submit([request])
    ((_, result),) = reader.collect(5.0)
    assert isinstance(result, Generation)
    assert result.token_logprobs is not None
    assert result.logprobs is not None
    assert {word: len(values) for word, values in result.token_logprobs.items()} == dict.fromkeys(
        words, len(result.logprobs)
    )
    ids = torch.tensor([reader.encode(request).ids], device=reader.lm.device)
    with torch.inference_mode():
        first = reader.lm.model(ids).logits[0, -1].float().log_softmax(dim=-1)
    for number, word in enumerate(words, start=10):
        assert result.token_logprobs[word][0] == pytest.approx(float(first[number]), abs=1e-4)
    reader.submit([Generate(prompt, Decoding(), token_logprobs=("several words here",))])
    with pytest.raises(ModelError, match="splits 'several words here'"):
        reader.collect(5.0)


def test_a_deterministic_reply_depends_on_its_request_alone(folder: Path) -> None:
    """Bit for bit: in any order, with any company; and the ledger knows such replies
    from others.
    """
    prompts = [
        Generate(
            (Message("user", f"{prompt} {'and ' * n}more"),),
            Decoding(max_new_tokens=8, logprobs=True),
        )
        for n, prompt in enumerate(
            ["Who is it?", "Where?", "A river in a town", "Name the mayor of it"] * 3
        )
    ]

    def results(order: Sequence[Generate]) -> dict[Generate, object]:
        reader = LocalReader(
            str(folder), "tiny", dtype="bfloat16", device="cpu", batch_size=5, deterministic=True
        )
        reader.submit(order)
        found: dict[Generate, object] = {}
        while batch := reader.collect(0.0):
            assert len(batch) == 1
            found.update(
                {request: result for request, result in batch if isinstance(request, Generate)}
            )
        return found

    first = results(prompts)
    for seed in range(3):
        assert results(random.Random(seed).sample(prompts, len(prompts))) == first
    plain, alone = (
        LocalReader(str(folder), "tiny", dtype="bfloat16", deterministic=flag).identity
        for flag in (False, True)
    )
    assert plain != alone


def test_tokens_and_the_best_ones_at_each_step_are_reported(folder: Path) -> None:
    """A greedy token is the first of the best; the texts of the tokens make up the reply; padding
    is left out.
    """
    reader = LocalReader(str(folder), "t", dtype="float32")
    decoding = Decoding(6, logprobs=True, top_logprobs=3)
    reader.submit([*requests(decoding)[:3], *requests(Decoding(6, logprobs=True))[:1]])
    replies = []
    while batch := reader.collect(5.0):
        replies += [(request, reply) for request, reply in batch if isinstance(reply, Generation)]
    for request, reply in replies:
        assert isinstance(request, Generate)
        assert reply.logprobs is not None
        if not request.decoding.top_logprobs:
            assert (reply.tokens, reply.top_logprobs) == ((), ())
            continue
        assert (
            len(reply.tokens)
            == len(reply.top_logprobs)
            == len(reply.logprobs)
            == reply.usage.tokens_out
        )
        for token, logprob, best in zip(
            reply.tokens, reply.logprobs, reply.top_logprobs, strict=True
        ):
            assert len(best) <= 3
            first = next(
                iter(best)
            )  # a part of a character has no text, and the last part has that of all
            assert token == "" or token.endswith(first) or "\ufffd" in first
            assert next(iter(best.values())) == pytest.approx(logprob, abs=1e-5)
            assert list(best.values()) == sorted(best.values(), reverse=True)
        assert reply.text in "".join(reply.tokens)


def test_a_likelihood_has_that_of_each_token_on_request(folder: Path) -> None:
    """They add up to the score; another request of the same text has the score alone, and a key of
    its own.
    """
    reader = LocalReader(str(folder), "t", dtype="float32")
    prompt = (Message("user", "The quick"),)
    queries = [
        Likelihood(prompt, "brown fox", per_token=True),
        Likelihood(prompt, "brown fox"),
        Likelihood(prompt, "fox", False),
    ]
    reader.submit(queries)
    scores = {}
    while batch := reader.collect(5.0):
        scores.update({queries.index(request): score for request, score in batch})  # type: ignore[arg-type]
    detailed, plain, _ = (scores[n] for n in range(3))
    assert isinstance(detailed, Score)
    assert isinstance(plain, Score)
    assert (
        detailed.value
        == pytest.approx(plain.value, abs=1e-5)
        == pytest.approx(sum(detailed.logprobs), abs=1e-4)
    )
    assert "".join(detailed.tokens[:-1]).strip() == "brown fox"
    assert len(detailed.tokens) == len(detailed.logprobs)
    assert (plain.tokens, plain.logprobs) == ((), ())


def test_openvino_refuses_what_it_does_not_report(folder: Path) -> None:
    """Before the first call, with the setting that helps."""
    reader = LocalReader(str(folder), "t", dtype="float32", device="cpu", runtime="openvino")
    for request in (
        Generate((Message("user", "a"),), Decoding(logprobs=True, top_logprobs=1)),
        Likelihood((Message("user", "a"),), "b", per_token=True),
    ):
        assert "runtime=torch" in (reader.explain_refusal(request) or "")
    assert reader.explain_refusal(Likelihood((Message("user", "a"),), "b")) is None


def test_options_of_the_chat_template_are_part_of_both_identities(folder: Path) -> None:
    """Of PyTorch's and of OpenVINO's."""
    pytest.importorskip("openvino_genai")
    for runtime in ("torch", "openvino"):
        identities = {
            LocalReader(
                str(folder),
                "tiny",
                dtype="float32",
                device="cpu",
                runtime=runtime,
                template_options=options,
            ).identity
            for options in ({}, {"enable_thinking": True}, {"enable_thinking": False})
        }
        assert len(identities) == 3


def test_the_whole_window_may_be_named(folder: Path) -> None:
    """As long as the model reads it."""
    reader = LocalReader(str(folder), "tiny", "float32", context_length=200)
    assert reader.token_limit == 200
