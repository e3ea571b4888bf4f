"""Generators: likelihoods do not depend on padding, and agree with what they write."""

import json
from pathlib import Path

import pytest
import torch

from winnow.records import Passage
from winnow.testing import make_tiny_t5
from winnow.training.generators import Generator, Seq2SeqGenerator, sum_target_log_probs

TEXTS = [
    "question: who wrote emma title: Emma context: Jane Austen wrote Emma answer: Jane Austen"
] * 10
PAIRS = [
    ("who wrote emma", Passage("a", "Emma", "Jane Austen wrote Emma")),
    ("who", Passage("b", "B", "A much longer text " * 3)),
]
ANSWERS = ["Jane Austen", "who"]


def seq2seq(folder: Path) -> Generator:
    return Seq2SeqGenerator(str(make_tiny_t5(folder / "t5", TEXTS)), max_answer=8)


def test_likelihoods_agree_alone_together_and_with_the_writing(tmp_path: Path) -> None:
    """A batch, each pair by itself, and the log-probability of a greedy text (unless it
    was cut).
    """
    generator = seq2seq(tmp_path)
    rows = [generator.tokens.encode(*pair) for pair in PAIRS]
    targets = [generator.encode_answer(answer) for answer in ANSWERS]
    together = generator.log_likelihood(rows, targets)
    alone = [
        generator.log_likelihood([row], [target])[0]
        for row, target in zip(rows, targets, strict=True)
    ]
    assert torch.allclose(together, torch.stack(alone), atol=1e-4)
    assert (together < 0).all()
    together.sum().backward()  # type: ignore[no-untyped-call]
    assert any(p.grad is not None for p in generator.lm.model.parameters())
    for row, batched in zip(rows, generator.generate(rows), strict=True):
        (single,) = generator.generate([row])
        assert (batched.text, batched.log_p) == (
            single.text,
            pytest.approx(single.log_p, abs=1e-4),
        )


def test_answers_end_and_are_cut(tmp_path: Path) -> None:
    """At most 8 tokens, the last of which ends the answer."""
    generator = seq2seq(tmp_path)
    end = generator.lm.tokenizer.eos_token_id
    assert generator.encode_answer("Jane Austen " * 20)[-1] == end
    assert len(generator.encode_answer("Jane Austen " * 20)) == 8
    assert generator.truncated_answers == 1, "it is one answer"
    for answer, num_truncated in (
        ("Jane Austen Jane Austen Jane Austen", 1),
        ("Jane Austen Jane Austen Jane Austen Jane", 2),
    ):
        generator.encode_answer(answer)  # of 7 and of 8 tokens, to which that of the end is added
        assert generator.truncated_answers == num_truncated


def test_target_log_likelihood_by_hand() -> None:
    """Two positions of probability 1/2 each, and one that is masked."""
    logits = torch.zeros(1, 3, 2)
    values = sum_target_log_probs(logits, torch.tensor([[0, 1, 0]]), torch.tensor([[1, 1, 0]]))
    assert values.exp().tolist() == pytest.approx([0.25])


def test_a_model_that_always_begins_with_a_token_is_trained_from_behind_it(tmp_path: Path) -> None:
    """As BART's, which generation begins with it."""
    folder = make_tiny_t5(tmp_path / "t5", TEXTS)
    file = folder / "generation_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "forced_bos_token_id": 2}))
    generator = Seq2SeqGenerator(str(folder), max_answer=8)
    row, target = generator.tokens.encode(*PAIRS[0]), generator.encode_answer("Jane Austen")
    with torch.inference_mode():
        logits = generator.lm.model(
            input_ids=torch.tensor([row]), decoder_input_ids=torch.tensor([[0, 2, *target[:-1]]])
        ).logits[0, 1:]
        (value,) = generator.log_likelihood([row], [target])
    expected = logits.log_softmax(-1).gather(1, torch.tensor(target)[:, None]).sum()
    assert float(value) == pytest.approx(float(expected), abs=1e-4)
