"""Pairs as text and tokens: by hand with a tokenizer of whole words."""

import pytest

from winnow.errors import ConfigError
from winnow.modeling.pair_inputs import PairTemplate, PairTokenizer, group_by_token_budget, pad_rows
from winnow.records import Passage
from winnow.synthetic.scratch_t5 import build_word_tokenizer

WORDS = build_word_tokenizer(["question: title: context: who wrote emma jane austen a b c d e f"])
PASSAGE = Passage("p", "emma", "jane austen wrote emma")


def words(ids: list[int]) -> str:
    return " ".join(WORDS.convert_ids_to_tokens(ids))


def test_a_pair_is_question_and_passage_in_fids_form() -> None:
    """The same tokens as the joined text has."""
    tokens = PairTokenizer(WORDS, PairTemplate(), 64, head=[1], middle=[2], tail=[1])
    ids = tokens.encode("who wrote emma", PASSAGE)
    assert (
        words(ids)
        == "</s> question: who wrote emma <unk> title: emma context: jane austen wrote emma </s>"
    )
    assert tokens.get_second_start("who wrote emma", PASSAGE) == 6
    plain = PairTokenizer(WORDS, PairTemplate(), 64).encode("who wrote emma", PASSAGE)
    text = "question: who wrote emma title: emma context: jane austen wrote emma"
    assert plain == WORDS(text, add_special_tokens=False)["input_ids"]


def test_a_long_passage_is_cut_and_counted_and_a_long_question_refused() -> None:
    """The tail stays; two pairs of three are cut."""
    tokens = PairTokenizer(WORDS, PairTemplate("{question}", "{text}"), 5, tail=[1])
    assert words(tokens.encode("a b", PASSAGE)) == "a b jane austen </s>"
    tokens.encode("a", Passage("s", "", "b"))
    tokens.encode("a", PASSAGE)
    assert tokens.truncated == 2
    with pytest.raises(
        ConfigError, match="leaves no token for a passage beside the question 'a b c d e'"
    ):
        tokens.encode("a b c d e", PASSAGE)


def test_tokens_of_old_texts_are_forgotten() -> None:
    """Beyond the number to keep, those that were not used for the longest time; those of the
    current pairs always stay.
    """
    tokens = PairTokenizer(WORDS, PairTemplate("{question}", "{text}"), 64, max_texts=2)
    texts = [Passage(letter, "", letter) for letter in "abcdef"]
    for passage in (texts[0], texts[1], texts[0], texts[2]):  # b is the oldest when c comes
        tokens.prepare([("who", passage)])
    assert list(tokens._passages) == [texts[0], texts[2]]
    pairs = [("who", passage) for passage in [texts[0], *texts[3:]]]
    tokens.prepare(pairs)
    assert [words(tokens.encode(*pair)) for pair in pairs] == ["who a", "who d", "who e", "who f"]
    assert [tokens.get_second_start(*pair) for pair in pairs] == [1] * 4
    assert len(tokens._passages) == 4
    assert words(tokens.encode("wrote", texts[1])) == "wrote b"
    assert list(tokens._passages) == [texts[5], texts[1]]
    assert list(tokens._questions) == ["who", "wrote"]


def test_templates_are_checked() -> None:
    """A template without its field is named."""
    with pytest.raises(ConfigError, match=r"template\.passage must have"):
        PairTemplate(passage="{title}")
    with pytest.raises(ConfigError, match=r"template\.question must have"):
        PairTemplate(question="{text}")


def test_padding_on_either_side() -> None:
    """Rows of 1 and 3 tokens."""
    ids, mask = pad_rows([[7], [4, 5, 6]], 0)
    assert ids.tolist() == [[7, 0, 0], [4, 5, 6]]
    assert mask.tolist() == [[1, 0, 0], [1, 1, 1]]
    ids, mask = pad_rows([[7], [4, 5, 6]], 0, left=True)
    assert ids.tolist() == [[0, 0, 7], [4, 5, 6]]
    assert mask.tolist() == [[0, 0, 1], [1, 1, 1]]


def test_budget_batches_by_hand() -> None:
    """Longest first, each batch padded to at most 8 tokens."""
    assert group_by_token_budget([5, 1, 4, 2], 8) == [[0], [2, 3], [1]]
    assert group_by_token_budget([100], 8) == [[0]]
    assert group_by_token_budget([], 8) == []


def test_rows_of_one_length_stay_among_themselves() -> None:
    """Three of the same length fill more than half of 20 tokens; the two behind them are mixed."""
    assert group_by_token_budget([5, 4, 5, 5, 3], 20) == [[0, 2, 3], [1, 4]]


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{title}. {text}", "the dog"),
        (" {title} // {text}", " the dog"),
        ("title: {title} context: {text}", "title:  context: the dog"),
    ],
)
def test_a_passage_without_a_title_has_no_joiner(template: str, text: str) -> None:
    """As encoders of passages have it; FiD's template names its fields."""
    pair = PairTemplate(passage=template)
    assert pair.format_passage(Passage("1", "", "the dog")) == text
    assert pair.format_passage(Passage("1", "T", "the dog")) == template.format(
        title="T", text="the dog"
    )
