"""has_answer as DPR and FiD define it."""

import unicodedata

import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from winnow.text.containment import find_shortest_answer, has_answer, has_answers, replace_answers

_REFERENCE = regex.compile(
    r"([\p{L}\p{N}\p{M}]+)|([^\p{Z}\p{C}])",
    flags=regex.IGNORECASE + regex.UNICODE + regex.MULTILINE,
)


def slow_has_answer(text: str, answers: list[str]) -> bool:
    """The definition written out: NFD, tokens, lower case, contiguous match of token lists."""

    def tokens(value: str) -> list[str]:
        return [m.group().lower() for m in _REFERENCE.finditer(unicodedata.normalize("NFD", value))]

    words = tokens(text)
    for answer in answers:
        wanted = tokens(answer)
        if any(words[i : i + len(wanted)] == wanted for i in range(len(words) - len(wanted) + 1)):
            return True
    return False


def test_tokens_not_substrings() -> None:
    """'10' is not in '2010'; punctuation and articles count; accents match across compositions."""
    assert not has_answer("in 2010", ["10"])
    assert has_answer("The U.S.A. won", ["u.s.a."])
    assert not has_answer("The U.S.A. won", ["USA"])
    assert has_answer("Caf\u00e9 de Flore", ["Cafe\u0301"])
    assert not has_answer("Cafe de Flore", ["Caf\u00e9"])


def test_edges_of_the_definition() -> None:
    """An answer without tokens is always found; a missing text never holds one."""
    assert has_answer("anything", ["   "])
    assert has_answer("", ["  "])
    assert not has_answer(None, ["x"])
    assert has_answers([None, "x y"], ["x"]) == [False, True]
    assert has_answers(["paris x", "paris y", "comparison"], ["Paris"]) == [True, True, False]


@settings(deadline=None)
@given(st.text(max_size=60), st.lists(st.text(max_size=8), min_size=1, max_size=3))
def test_equals_the_definition(text: str, answers: list[str]) -> None:
    """The fast form gives what the definition gives, on any Unicode text."""
    expected = slow_has_answer(text, answers)
    assert has_answer(text, answers) == expected
    assert has_answers([text], answers) == [expected]


@settings(max_examples=500, deadline=None)
@given(
    st.text(
        alphabet="aAkK\u212a\u03a3\u03c3\u0130i\u0307\u2260=\u0338 -.1\u00e9\t\u00a0", max_size=30
    ),
    st.lists(
        st.text(alphabet="aAkK\u212a\u03c3\u0130i =-1\u00e9", min_size=1, max_size=5),
        min_size=1,
        max_size=3,
    ),
)
def test_characters_that_change_when_lowered_or_decomposed(text: str, answers: list[str]) -> None:
    """The Kelvin sign, sigma, the dotted capital I, marks after an answer: the short cuts agree
    with the definition.
    """
    assert has_answer(text, answers) == slow_has_answer(text, answers)


@settings(deadline=None)
@given(
    st.lists(st.none() | st.text(alphabet="aAbB -\x1f\n\u212a\u0301", max_size=12), max_size=6),
    st.lists(st.text(alphabet="ab A-\u212a\u0301", max_size=5), min_size=1, max_size=3),
)
def test_many_texts_are_searched_like_each_of_them(
    texts: list[str | None], answers: list[str]
) -> None:
    """Also texts that contain the separator, empty ones and missing ones."""
    expected = [text is not None and slow_has_answer(text, answers) for text in texts]
    assert has_answers(texts, answers) == expected


def test_the_shortest_answer_that_a_passage_states() -> None:
    """So that a target can be read off it; the first where none is stated word by word."""
    answers = ("The Beatles", "Beatles", "Fab Four")
    assert find_shortest_answer("The Beatles played", answers) == "Beatles"
    assert find_shortest_answer("nobody played", answers) == "The Beatles"


def test_a_search_in_all_texts_at_once_finds_what_a_search_in_each_finds() -> None:
    """Words across two texts, other characters with the same bits, signs that become letters, and
    invalid characters.
    """
    texts = [
        "in par",
        "is the",
        "",
        None,
        "PARIS",
        "par\x49s",
        "pari\x13s",
        "\x10 pa",
        "5 \u212aelvin",
        "\ud800 paris",
        "\u0130paris",
    ]
    assert has_answers(texts, ["Paris"]) == [
        text in ("PARIS", "par\x49s", "\ud800 paris") for text in texts
    ]
    assert [
        text for text, found in zip(texts, has_answers(texts, ["kelvin"]), strict=True) if found
    ] == ["5 \u212aelvin"]
    assert not any(has_answers(["\x10\x11", "@", "`"], ["01"]))
    assert has_answers(texts, ["the", "par"]) == [
        has_answer(text, ["the", "par"]) for text in texts
    ]


def test_answers_are_replaced_by_the_rules_by_which_they_are_found() -> None:
    """Words as a whole, in any case, with any space between them, however they are composed; the
    longest answer first.
    """
    assert replace_answers("In 2010, 10 of 10.", ["10"], "x") == "In 2010, x of x."
    assert (
        replace_answers("jane  austen and AUSTEN's Jane\nAusten", ["Austen", "Jane Austen"], "x")
        == "x and x's x"
    )
    assert replace_answers("The U.S.A. won; USA", ["u.s.a."], "x") == "The x won; USA"
    assert replace_answers("Cafe\u0301 au lait", ["Caf\u00e9"], "the") == "the au lait"
    assert replace_answers("a (b) c", ["(b)"], r"\\1") == r"a \\1 c"
    assert replace_answers("as it is", ["  ", "else"], "x") == "as it is"
    assert replace_answers("ab", ["a b"], "x") == "ab"
    assert replace_answers("U. S. A.", ["u.s.a."], "x") == "x"
    assert replace_answers("a-ba; va-b", ["a-b"], "x") == "a-ba; va-b"
    assert replace_answers("Caf\u00e9 tre\u0300s", ["Caf\u00e9"], "x") == "x tr\u00e8s"
    assert (
        replace_answers("Mary Shelley wrote", ["Mary Shelley", "Shelley"], "Percy Bysshe")
        == "Percy Bysshe wrote"
    )
    assert replace_answers("Cafe\u0301", ["  ", "y"], "x") == "Cafe\u0301"


_PARTS = st.lists(st.sampled_from(["a", "b", "A", "é", "e\u0301", " ", ".", "(", "1"]), max_size=12)


@settings(deadline=None)
@given(_PARTS, st.sampled_from(["a", "a b", "é", "a.", "1 é", "("]))
def test_a_text_whose_answers_were_replaced_contains_none(parts: list[str], answer: str) -> None:
    """And one without an answer is returned as it is."""
    text = "".join(parts)
    replaced = replace_answers(text, [answer], " zzz ")
    assert not has_answer(replaced, [answer])
    assert has_answer(text, [answer]) or replaced == text
