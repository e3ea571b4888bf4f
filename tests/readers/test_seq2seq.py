"""The T5-like reader: batches give what single prompts give."""

from pathlib import Path

import pytest
import torch

from winnow.readers.seq2seq import Seq2SeqReader
from winnow.records import Decoding
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
