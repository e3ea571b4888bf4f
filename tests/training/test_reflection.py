"""Examples of a Self-RAG model, and a tiny model that learns to write reflection tokens."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.test_examples import RANKED
from tests.training.test_sft import SETTINGS, TEXTS, silent
from winnow.errors import ConfigError
from winnow.modeling.loading import load_causal_lm
from winnow.readers.local import LocalReader
from winnow.records import Decoding
from winnow.requests import Generation
from winnow.strategies.prompt import Prompt
from winnow.strategies.self_rag.reflection import TOKENS
from winnow.strategies.self_rag.segments import build_segment_request
from winnow.testing import make_context, make_tiny_causal_lm
from winnow.training.reflection import ReflectionMix
from winnow.training.sft import add_tokens, fine_tune

PROMPT = Prompt(
    "{contexts} {question}", "Do {question}", "{contexts} {candidates} {question}", "<p>{text}</p>"
)


def test_kinds_and_replies() -> None:
    """A passage with the answer is relevant and supports it; the prompts are those of
    the strategy.
    """
    examples = ReflectionMix(4, 3, 2).build_examples(RANKED, PROMPT, seed=1)
    kinds = [example.example_id.split("/")[1] for example in examples]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "relevant": 4,
        "irrelevant": 3,
        "decision": 2,
    }
    for example in examples:
        number, kind = example.example_id.split("/")
        beginning = example.messages[1].content if len(example.messages) == 2 else ""
        assert example.messages[0].content == f"Do Q{number}?"
        if kind == "relevant":
            assert beginning == f"[Retrieval]<p>it is answer{number}</p>"
            assert example.completion == f"[Relevant]answer{number}[Fully supported][Utility:5]"
        elif kind == "irrelevant":
            assert beginning in ("[Retrieval]<p>nothing here</p>", "[Retrieval]<p>nor here</p>")
            assert example.completion == "[Irrelevant]unknown[Utility:1]"
        else:
            assert (beginning, example.completion) == ("", "[Retrieval]")
    assert examples == ReflectionMix(4, 3, 2).build_examples(RANKED, PROMPT, seed=1)
    assert examples != ReflectionMix(4, 3, 2).build_examples(RANKED, PROMPT, seed=2)


def test_nothing_to_learn_from_is_refused() -> None:
    """No question with both sorts of passages, and a mix with one kind of passage."""
    with pytest.raises(ConfigError, match="No training question"):
        ReflectionMix().build_examples([(RANKED[0][0], [make_context(1, "x")])], PROMPT, 1)
    with pytest.raises(ConfigError, match="at least 1"):
        ReflectionMix(irrelevant=0)


def test_new_tokens_start_as_the_mean_of_their_pieces(tmp_path: Path) -> None:
    """Also in a separate output layer; special tokens that the tokenizer has stay, and known tokens
    keep their embeddings.
    """
    for tied in (True, False):
        base = make_tiny_causal_lm(tmp_path / str(tied), TEXTS, tied=tied)
        lm = load_causal_lm(str(base), "float32", "cpu")
        lm.tokenizer.add_special_tokens({"extra_special_tokens": ["<old>"]})
        pieces = lm.tokenizer("[Utility:5]", add_special_tokens=False)["input_ids"]
        assert len(pieces) > 1
        model: Any = lm.model
        means = [
            layer.weight[pieces].mean(dim=0)
            for layer in (model.get_input_embeddings(), model.get_output_embeddings())
        ]
        add_tokens(lm, ["[Utility:5]", "<old>"])
        (token,) = lm.tokenizer("[Utility:5]", add_special_tokens=False)["input_ids"]
        for layer, mean in zip(
            (model.get_input_embeddings(), model.get_output_embeddings()), means, strict=True
        ):
            torch.testing.assert_close(layer.weight[token], mean)
        assert len(lm.tokenizer("<old>", add_special_tokens=False)["input_ids"]) == 1
        before = model.get_input_embeddings().weight.clone()
        add_tokens(lm, ["[Utility:5]"])
        torch.testing.assert_close(model.get_input_embeddings().weight, before)


@pytest.mark.parametrize("tied", [True, False])
def test_lora_trains_the_embeddings_of_new_tokens(tmp_path: Path, tied: bool) -> None:
    """And leaves those of the others, in both layers."""
    base = make_tiny_causal_lm(
        tmp_path / "base", [*TEXTS, "Do Q0? answer0 unknown nothing here it is nor"], tied=tied
    )
    examples = ReflectionMix(4, 4, 4).build_examples(RANKED[:2], PROMPT, seed=1)
    settings = replace(SETTINGS, epochs=3, learning_rate=1e-2, lora_rank=2)
    fine_tune(str(base), examples, settings, tmp_path / "out", silent, ReflectionMix.new_tokens)
    start = load_causal_lm(str(base), "float32", "cpu")
    add_tokens(start, ReflectionMix.new_tokens)
    trained = load_causal_lm(str(tmp_path / "out"), "float32", "cpu")
    ids = trained.tokenizer.convert_tokens_to_ids(["[Relevant]", "[Utility:5]"])
    for name in ("get_input_embeddings", "get_output_embeddings"):
        new, old = (getattr(lm.model, name)().weight.bfloat16() for lm in (trained, start))
        assert not torch.equal(new[ids], old[ids])
        others = [
            n
            for n in range(len(old))
            if n not in trained.tokenizer.convert_tokens_to_ids(list(TOKENS))
        ]
        assert torch.equal(new[others], old[others])


def test_a_model_learns_the_tokens(tmp_path: Path) -> None:
    """They are added to its vocabulary, each as one token; the trained model writes them, and has
    no chat template.
    """
    base = make_tiny_causal_lm(
        tmp_path / "base", [*TEXTS, "Do Q0? answer0 unknown nothing here it is nor"]
    )
    examples = ReflectionMix(4, 4, 4).build_examples(RANKED[:2], PROMPT, seed=1)
    settings = replace(SETTINGS, epochs=60, learning_rate=5e-3)
    fine_tune(str(base), examples, settings, tmp_path / "out", silent, ReflectionMix.new_tokens)
    reader = LocalReader(str(tmp_path / "out"), "m", "float32", "cpu")
    assert reader.lm.tokenizer.chat_template is None
    assert all(
        len(reader.lm.tokenizer(token, add_special_tokens=False)["input_ids"]) == 1
        for token in TOKENS
    )
    question, contexts = RANKED[0]
    requests = [
        build_segment_request(PROMPT, question, Decoding(max_new_tokens=12), passage=passage)
        for passage in (None, contexts[1].passage, contexts[0].passage)
    ]
    reader.submit(requests)
    replies = dict(reader.collect(30.0))
    texts = [
        reply.text for request in requests if isinstance(reply := replies[request], Generation)
    ]
    assert texts[0] == "[Retrieval]"
    assert texts[1].startswith("[Relevant]")
    assert texts[1].endswith("[Fully supported][Utility:5]")
    assert texts[2] == "[Irrelevant]unknown[Utility:1]"
