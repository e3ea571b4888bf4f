"""The cross-encoder: its two heads, and layers that read question and passage apart."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertTokenizer, RobertaTokenizer

from winnow.errors import ConfigError, ModelError
from winnow.estimators.cross_encoder import CrossEncoder, _read_middle
from winnow.modeling.pair_inputs import PairTemplate
from winnow.records import Passage
from winnow.testing import make_tiny_encoder

TEXTS = ["who wrote emma Emma. Jane Austen wrote Emma", "the sea is blue and wide"] * 20
PAIRS = [
    ("who wrote emma", Passage("a", "Emma", "Jane Austen wrote Emma.")),
    (
        "who wrote emma",
        Passage("b", "The sea", "The sea is blue, and wide, and deep, and cold in winter."),
    ),
    (
        "what is blue",
        Passage("b", "The sea", "The sea is blue, and wide, and deep, and cold in winter."),
    ),
]


def test_a_hub_reranker_keeps_its_one_logit(tmp_path: Path) -> None:
    """A folder with a classifier of one class: the logit is the log-odds."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    base = make_tiny_encoder(tmp_path / "bert", TEXTS)
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(base, num_labels=1)
    model.save_pretrained(tmp_path / "reranker")
    AutoTokenizer.from_pretrained(base).save_pretrained(tmp_path / "reranker")
    estimator = CrossEncoder(str(tmp_path / "reranker"), dtype="float32")
    rows = [estimator.tokens.encode(*PAIRS[0])]
    starts = torch.arange(len(rows[0])) >= estimator.tokens.get_second_start(*PAIRS[0])
    expected = (
        model.eval()(torch.tensor(rows), token_type_ids=starts.long()[None]).logits[0, 0].item()
    )
    assert estimator.score(PAIRS[:1])[0] == pytest.approx(expected, abs=1e-4)
    last_layer = estimator.lm.model.base_model.encoder.layer[-1]  # type: ignore[union-attr, index]
    assert last_layer(torch.zeros(2, 7, 32)).shape == (
        2,
        1,
        32,
    ), "it computes the first token alone"


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_with_all_layers_apart_each_text_is_read_alone(attention: str, tmp_path: Path) -> None:
    """The cosine of two texts encoded one by one, as a sentence encoder's; with a layer fewer the
    two see each other.

    Scoring runs the one attention, training on a CPU the other; weights are large, so that a mask
    that masks nothing shows.
    """
    base = str(make_tiny_encoder(tmp_path / "bert", TEXTS))
    estimator = CrossEncoder(base, dtype="float32", head="pooled")
    estimator.lm.model.set_attn_implementation(attention)
    with torch.no_grad():
        for weight in estimator.lm.model.encoder.parameters():  # type: ignore[union-attr]
            weight.mul_(8)
    estimator.separate_layers = len(estimator.lm.model.encoder.layer)  # type: ignore[union-attr,arg-type]
    expected = []
    for question, passage in PAIRS:
        ids = estimator.tokens.encode(question, passage)
        start = estimator.tokens.get_second_start(question, passage) - 1
        rows = [
            torch.tensor([part], device=estimator.lm.device) for part in (ids[:start], ids[start:])
        ]
        parts = [estimator.lm.model(row).last_hidden_state.mean(dim=1) for row in rows]
        assert ids[0] == ids[start]
        expected.append(20 * torch.cosine_similarity(*parts).item())
    assert np.allclose(estimator.score(PAIRS), expected, atol=1e-3)
    estimator.separate_layers -= 1
    assert not np.allclose(estimator.score(PAIRS), expected, atol=1e-3)


def test_separators_are_those_of_the_model() -> None:
    """RoBERTa has two between question and passage, BERT one."""
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "a", "b"]
    vocabulary = {name: number for number, name in enumerate(names)}
    assert _read_middle(RobertaTokenizer(vocab=vocabulary, merges=[]), 2) == [2, 2]
    names = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", "a", "b"]
    vocabulary = {name: number for number, name in enumerate(names)}
    assert _read_middle(BertTokenizer(vocab=vocabulary), 2) == [2]


def test_settings_are_checked(tmp_path: Path) -> None:
    """Heads, a first token that would not see the passage, and more layers apart than there are."""
    with pytest.raises(
        ModelError, match=r"separate_layers=3 needs a BERT model with .* with 2 layers"
    ):
        CrossEncoder(
            str(make_tiny_encoder(tmp_path / "bert", TEXTS)), head="pooled", separate_layers=3
        ).score(PAIRS)
    with pytest.raises(ConfigError, match="head must be classes or pooled; received 'x'"):
        CrossEncoder("x", head="x")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="must be 0 with head=classes; received 2"):
        CrossEncoder("x", separate_layers=2)


def make_classifier(folder: Path, **config: object) -> str:
    """A tiny encoder with a random classifier."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    base = make_tiny_encoder(folder / "bert", TEXTS)
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(base, **config)
    model.save_pretrained(folder / "classifier")
    AutoTokenizer.from_pretrained(base).save_pretrained(folder / "classifier")
    return str(folder / "classifier")


def test_entailment_reads_the_premise_first(tmp_path: Path) -> None:
    """The log-odds of one class of three; the premise is the first segment, and is cut where the
    pair is too long.
    """
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    names = {0: "contradiction", 1: "Entailment", 2: "neutral"}
    path = make_classifier(
        tmp_path,
        num_labels=3,
        id2label=names,
        label2id={name: index for index, name in names.items()},
    )
    template = PairTemplate("{question}", "{text}", passage_first=True)
    estimator = CrossEncoder(
        path, template, dtype="float32", max_length=12, relevant_class="entailment"
    )
    model = AutoModelForSequenceClassification.from_pretrained(path).eval()
    tokenizer = AutoTokenizer.from_pretrained(path)  # type: ignore[no-untyped-call]
    start, end = tokenizer.bos_token_id, tokenizer.eos_token_id
    expected = []
    for hypothesis, passage in PAIRS:  # the second premise is cut
        second = [*tokenizer.encode(hypothesis, add_special_tokens=False), end]
        premise = tokenizer.encode(passage.text, add_special_tokens=False)[: 10 - len(second)]
        first = [start, *premise, end]
        types = torch.tensor([[0] * len(first) + [1] * len(second)])
        probability = (
            model(torch.tensor([first + second]), token_type_ids=types).logits[0].softmax(-1)[1]
        )
        expected.append(torch.logit(probability).item())
    assert np.allclose(estimator.score(PAIRS), expected, atol=1e-4)
    assert estimator.truncated == 2


def test_a_class_that_the_model_lacks(tmp_path: Path) -> None:
    """Of three classes none is meant without a name, and a pooled head has no classes."""
    path = make_classifier(tmp_path, num_labels=3)
    for name in ("", "entailment"):
        with pytest.raises(
            ModelError,
            match=f"label_0, label_1, label_2, and estimator.engine.relevant_class={name!r} must",
        ):
            CrossEncoder(path, dtype="float32", relevant_class=name).score(PAIRS)
    with pytest.raises(ConfigError, match=r"need head=classes; received 'x' and False"):
        CrossEncoder(path, head="pooled", relevant_class="x")


def test_a_suffix_is_refused() -> None:
    """It would have no effect."""
    with pytest.raises(ConfigError, match="suffix=' relevant:' has no effect"):
        CrossEncoder("somewhere", template=PairTemplate("{question}", "{text}", " relevant:"))
