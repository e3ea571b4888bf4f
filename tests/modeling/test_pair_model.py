"""How each kind of model writes a question and a passage as tokens."""

from pathlib import Path

import pytest
from tokenizers.processors import TemplateProcessing

from winnow.errors import ConfigError
from winnow.estimators.causal import CausalEstimator
from winnow.modeling.pair_inputs import PairTemplate
from winnow.modeling.pair_model import build_causal_tokenizer, build_seq2seq_tokenizer
from winnow.records import Passage
from winnow.testing import make_tiny_causal_lm, make_tiny_t5
from winnow.training.generators import Seq2SeqGenerator

TEXTS = ["question: who wrote emma title: Emma context: Jane Austen wrote Emma relevant:"] * 4
PASSAGE = Passage("a", "Emma", "Jane Austen wrote Emma")


def test_a_t5_reads_the_pair_and_the_end(tmp_path: Path) -> None:
    """The tokens of FiD's form, question and passage tokenized apart, the space between them with
    the latter, then the end token; loaded once, on first use.
    """
    model = Seq2SeqGenerator(str(make_tiny_t5(tmp_path / "t5", TEXTS)), max_answer=8)
    assert model.truncated == 0
    tokenizer = model.lm.tokenizer
    row = build_seq2seq_tokenizer(model).encode("who wrote emma", PASSAGE)
    parts = ["question: who wrote emma", " title: Emma context: Jane Austen wrote Emma"]
    question_ids, passage_ids = tokenizer(parts, add_special_tokens=False)["input_ids"]
    assert row == [*question_ids, *passage_ids, tokenizer.eos_token_id]
    ended = Seq2SeqGenerator(model.path, PairTemplate(suffix=" relevant:"), max_answer=8)
    suffix_ids = tokenizer(" relevant:", add_special_tokens=False)["input_ids"]
    row = build_seq2seq_tokenizer(ended).encode("who wrote emma", PASSAGE)
    assert row == [*question_ids, *passage_ids, *suffix_ids, tokenizer.eos_token_id]
    assert model.lm is model.lm
    assert model.tokens is model.tokens


@pytest.mark.parametrize("starts", [True, False])
def test_a_pair_has_the_tokens_of_the_joined_text(starts: bool, tmp_path: Path) -> None:
    """As the reader asks with: with a start token if the tokenizer adds one (BART), and the end."""
    folder = make_tiny_t5(tmp_path / "t5", TEXTS)
    model = Seq2SeqGenerator(str(folder), max_answer=8)
    tokenizer = model.lm.tokenizer
    special = [(name, int(tokenizer.convert_tokens_to_ids(name))) for name in ("<start>", "<end>")]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<start> $A <end>" if starts else "$A <end>", special_tokens=special
    )
    text = "question: who wrote emma title: Emma context: Jane Austen wrote Emma"
    row = build_seq2seq_tokenizer(model).encode("who wrote emma", PASSAGE)
    assert row == tokenizer(text)["input_ids"]
    assert (row[0] == special[0][1]) is starts


def test_a_decoder_reads_the_forms_suffix_last(tmp_path: Path) -> None:
    """The passage gives way to the suffix where both do not fit; what was cut is counted."""
    form = PairTemplate(suffix=" relevant:")
    model = CausalEstimator(
        str(make_tiny_causal_lm(tmp_path / "lm", TEXTS)), template=form, max_length=14
    )
    tokenizer = model.lm.tokenizer
    texts = [
        "question: who wrote emma",
        " title: Emma context: Jane Austen wrote Emma",
        " relevant:",
    ]
    question_ids, passage_ids, end = tokenizer(texts, add_special_tokens=False)["input_ids"]
    room = 14 - 1 - len(question_ids) - len(end)
    assert 0 < room < len(passage_ids)
    assert build_causal_tokenizer(model).encode("who wrote emma", PASSAGE) == [
        tokenizer.bos_token_id,
        *question_ids,
        *passage_ids[:room],
        *end,
    ]
    assert model.truncated == 0
    model.tokens.encode("who wrote emma", PASSAGE)
    assert model.truncated == 1


def test_a_window_without_room_for_a_passage_is_refused(tmp_path: Path) -> None:
    """Naming the window and the question."""
    model = Seq2SeqGenerator(str(make_tiny_t5(tmp_path / "t5", TEXTS)), max_length=4, max_answer=8)
    with pytest.raises(
        ConfigError,
        match="max_length=4 leaves no token for a passage beside the question 'who wrote emma'",
    ):
        model.tokens.encode("who wrote emma", PASSAGE)
