"""The T5-like reader: batches give what single prompts give."""

import json
from pathlib import Path

import pytest
import torch

from winnow.readers.seq2seq import Seq2SeqReader
from winnow.records import Decoding, Passage
from winnow.requests import Generate, Generation, Likelihood, Message, Request, Result, Score
from winnow.testing import make_tiny_t5

TEXTS = [f"question {n}: what is the number of the fox? " * (1 + n % 3) for n in range(8)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model."""
    return make_tiny_t5(tmp_path_factory.mktemp("t5"), TEXTS)


def serve(reader: Seq2SeqReader, queries: list[Request]) -> dict[Request, Result]:
    """Submit all and collect until nothing is left."""
    reader.submit(queries)
    results: dict[Request, Result] = {}
    while batch := reader.collect(5.0):
        results.update(dict(batch))  # type: ignore[arg-type]
    return results


def test_batches_equal_single_prompts(folder: Path) -> None:
    """Greedy and sampled; tokens in are the prompt's with its end token, the start token is not
    written.
    """
    queries: list[Request] = [
        Generate((Message("user", t),), d) for t in TEXTS for d in (Decoding(6), Decoding(6, 1.5))
    ]
    together, alone = (
        serve(Seq2SeqReader(str(folder), "t", "float32", batch_size=size), queries)
        for size in (5, 1)
    )
    assert together == alone
    reader = Seq2SeqReader(str(folder), "t", "float32")
    for request, result in together.items():
        assert isinstance(result, Generation)
        assert result.usage.tokens_in == reader.count_tokens(request)
        assert result.usage.tokens_out <= 6
    assert len({r.text for r in together.values() if isinstance(r, Generation)}) > 8


def test_likelihoods_equal_the_loss_of_the_model(folder: Path) -> None:
    """Minus the summed cross-entropy that transformers computes for the same labels."""
    reader = Seq2SeqReader(str(folder), "t", "float32", batch_size=3)
    queries: list[Request] = [
        Likelihood((Message("user", t),), c) for t in TEXTS[:4] for c in ("fox", "what is the fox")
    ]
    results = serve(reader, queries)
    tokenizer, model = reader.lm.tokenizer, reader.lm.model
    for one in queries:
        assert isinstance(one, Likelihood)
        labels = torch.tensor(
            [
                [
                    *tokenizer(one.continuation, add_special_tokens=False)["input_ids"],
                    tokenizer.eos_token_id,
                ]
            ]
        )
        inputs = tokenizer(one.messages[0].content, return_tensors="pt").to(reader.lm.device)
        with torch.no_grad():
            loss = model(**inputs, labels=labels.to(reader.lm.device)).loss
        score = results[one]
        assert isinstance(score, Score)
        assert score.value == pytest.approx(-float(loss) * labels.shape[1], abs=1e-3)


def test_there_is_no_window_unless_it_is_set(folder: Path) -> None:
    """Relative positions set no limit."""
    long = Generate((Message("user", "fox " * 3000),), Decoding(4))
    assert Seq2SeqReader(str(folder), "t", "float32").fits(long)
    assert not Seq2SeqReader(str(folder), "t", "float32", context_length=512).fits(long)


def test_a_prompt_of_one_passage_is_cut_as_in_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A prompt of two passages, and one that goes on behind its passage, stay whole."""
    folder = make_tiny_t5(tmp_path / "t5", ["the cat sat on the mat"])
    reader = Seq2SeqReader(str(folder), "t5", dtype="float32", device="cpu", max_length=8)
    whole = Seq2SeqReader(str(folder), "t5", dtype="float32", device="cpu")
    text = "the cat sat on the mat " * 4
    shown = Passage("1", "", text)
    requests = [
        Generate((Message("user", prompt),), Decoding(4), passages=passages)
        for prompt, passages in (
            (text, (shown,)),
            (text, (shown, Passage("2", "", "b"))),
            (f"{text} question", (shown,)),
        )
    ]
    ids = [list(reader.encode(request).ids) for request in requests]
    assert ids[2] == list(whole.encode(requests[2]).ids)
    full = list(whole.encode(requests[0]).ids)
    fits = Seq2SeqReader(str(folder), "t5", dtype="float32", device="cpu", max_length=len(full))
    assert list(fits.encode(requests[0]).ids) == full
    assert (len(full) > 8, ids[0]) == (True, full[:8])
    assert ids[1] == full
    assert "more than reader.engine.max_length=8 tokens" in caplog.text
    assert reader.identity == f"{whole.identity}/max 8"


def test_a_model_that_always_begins_with_a_token_is_scored_from_behind_it(tmp_path: Path) -> None:
    """BART writes "<s>" first; the likelihood of its own reply is that of the generation."""
    folder = make_tiny_t5(tmp_path / "t5", ["the cat sat on the mat"])
    settings = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(
        json.dumps({**settings, "forced_bos_token_id": 2})
    )
    reader = Seq2SeqReader(str(folder), "bart", dtype="float32", device="cpu")
    message = (Message("user", "the cat"),)
    target = list(reader.encode(Likelihood(message, "mat")).target)
    request = Likelihood(message, "mat")
    score = serve(reader, [request])[request]
    assert isinstance(score, Score)
    inputs = reader.lm.tokenizer("the cat", return_tensors="pt")
    with torch.inference_mode():
        logits = reader.lm.model(
            **inputs, decoder_input_ids=torch.tensor([[0, 2, *target[:-1]]])
        ).logits[0, 1:]
    expected = logits.log_softmax(-1).gather(1, torch.tensor(target)[:, None]).sum()
    assert score.value == pytest.approx(float(expected), abs=1e-4)
    (reply,) = serve(reader, [Generate(message, Decoding(1, logprobs=True))]).values()
    assert isinstance(reply, Generation)
    assert (len(reply.logprobs or ()), reply.usage.tokens_out) == (1, 1)
    with torch.inference_mode():
        first = reader.lm.model(**inputs, decoder_input_ids=torch.tensor([[0, 2]])).logits[0, -1]
    assert reply.logprobs == pytest.approx([float(first.log_softmax(-1).max())], abs=1e-4)
