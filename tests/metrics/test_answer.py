"""Answer metrics against numbers worked out by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from winnow.errors import ConfigError, InputError
from winnow.metrics.answer import accuracy, exact_match, f1, has_exact_match
from winnow.text.normalization import normalize


def test_exact_match_takes_the_best_answer() -> None:
    """One equal answer is enough; a longer prediction is wrong."""
    assert exact_match("the Beatles", ["Queen", "Beatles"]) == 1.0
    assert exact_match("the Beatles of Liverpool", ["Beatles"]) == 0.0


def test_f1_by_hand() -> None:
    """'george orwell wrote' against 'george orwell': P = 2/3, R = 1, F1 = 0.8; the better answer
    counts.
    """
    assert f1("George Orwell wrote", ["George Orwell"]) == pytest.approx(0.8)
    assert f1("George Orwell wrote", ["nobody", "George Orwell"]) == pytest.approx(0.8)
    assert f1("one two three four", ["one two three five"]) == pytest.approx(6 / 8)
    assert f1("one one one", ["one one two"]) == pytest.approx(4 / 6)
    assert f1("", ["x"]) == 0.0


def test_flashrag_f1_is_zero_on_yes_against_no() -> None:
    """SQuAD gives partial credit to 'yes it is' against 'yes'? FlashRAG gives none where one side
    is exactly 'yes'.
    """
    assert f1("yes it is", ["yes"]) == pytest.approx(0.5)
    assert f1("yes it is", ["yes"], dialect="flashrag") == 0.0
    assert (
        f1("no", ["no way"], dialect="flashrag") == f1("no way", ["no"], dialect="flashrag") == 0.0
    )
    assert (
        f1("yes", ["yes"], dialect="flashrag") == f1("The Yes.", ["yes"], dialect="flashrag") == 1.0
    )


def test_empty_texts_follow_their_source() -> None:
    """The word "the" is empty after normalization: F1 0 against itself in SQuAD 1.1, FiD and
    FlashRAG, 1 in SQuAD 2.0.
    """
    for dialect in ("squad", "fid", "flashrag", "crag"):
        assert f1("the", ["The"], dialect=dialect) == 0.0
        assert f1("", ["x"], dialect=dialect) == 0.0
    assert f1("the", ["The"], dialect="squad_v2") == 1.0
    assert f1("", ["x", "the"], dialect="squad_v2") == 0.0
    assert exact_match("a", ["The", "b"]) == 1.0
    assert exact_match("a", ["The", "b"], dialect="squad_v2") == 0.0
    assert exact_match("a", ["The"], dialect="squad_v2") == 1.0


def test_combining_marks_belong_to_words_in_fid() -> None:
    """A decomposed "á" loses its letter as an article with Python's word boundaries, not with those
    of `regex`.
    """
    assert exact_match("a\u0301", ["\u0301"]) == 1.0
    assert exact_match("a\u0301", ["\u0301"], dialect="fid") == 0.0
    assert f1("a\u0301 b", ["b"]) == pytest.approx(2 / 3)
    assert f1("a\u0301 b", ["\u0301 b"], dialect="fid") == pytest.approx(0.5)
    assert f1("a\u0301 b", ["\u0301 b"], dialect="crag") == 1.0


def test_accuracy_is_containment() -> None:
    """'10' is in '2010' (FlashRAG's trap, kept); crag compares raw text with its case."""
    assert accuracy("in 2010", ["10"]) == 1.0
    assert accuracy("It is True", ["true"]) == 1.0
    assert accuracy("It is True", ["true"], dialect="crag") == 0.0
    assert accuracy("untrue", ["true"], dialect="crag") == 1.0


def test_bad_input_is_an_error_never_a_zero() -> None:
    """An empty answer list, a bare string and an unknown dialect are refused by name."""
    with pytest.raises(InputError, match="empty"):
        exact_match("x", [])
    with pytest.raises(InputError, match="Wrap it in a list"):
        f1("x", "abc")
    with pytest.raises(ConfigError, match="dialect"):
        f1("x", ["x"], dialect="nope")  # type: ignore[arg-type]


@settings(deadline=None)
@given(st.text(max_size=40), st.lists(st.text(max_size=40), min_size=1, max_size=4))
def test_em_implies_f1_and_accuracy(prediction: str, answers: list[str]) -> None:
    """An exact match holds the answer, and has F1 1 unless it is empty; every metric lies in [0,
    1].
    """
    values = (
        exact_match(prediction, answers),
        f1(prediction, answers),
        accuracy(prediction, answers),
    )
    assert all(0 <= value <= 1 for value in values)
    if values[0]:
        assert values[1:] == (float(bool(normalize(prediction))), 1.0)


def test_the_order_of_letters_and_tokens() -> None:
    """Words of the same letters are other words; the same words in another order are no exact
    match, but share all tokens.
    """
    assert f1("listen", ["silent"]) == 0.0
    assert f1("no on", ["on no"]) == 1.0
    assert exact_match("no on", ["on no"]) == 0.0
    assert f1("a b b c", ["b b d"]) == pytest.approx(2 * 2 / (3 + 3))


def test_any_of_several_predictions() -> None:
    """None of no predictions matches; each is compared by the rules of the dialect."""
    assert not has_exact_match([], ["Austen"])
    assert has_exact_match(["Emma", "the austen."], ["Jane Austen", "Austen"])
    assert not has_exact_match(["Emma", "Austens"], ["Austen"])
    assert has_exact_match(["by Austen"], ["Austen"], "crag")
    assert not has_exact_match(["by austen"], ["Austen"], "crag")
