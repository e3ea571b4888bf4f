"""Damage of a corpus that is searched: removed and poisoned passages."""

import pytest

from winnow.errors import ConfigError
from winnow.records import Hit, Passage, Question
from winnow.requests import Search
from winnow.searchers.damage import SearchDamage
from winnow.searchers.local import LocalSearch
from winnow.testing import make_question

QUESTIONS = [
    make_question("Who wrote Emma?", ["Jane Austen", "Austen"], "q1"),
    make_question("Capital?", ["Paris"], "q2"),
    make_question("Who wrote it?", ["Mary Shelley"], "q3"),
]  # fmt: skip
PASSAGES = {
    "a": Passage("a", "Jane Austen", "Emma is by Jane Austen. AUSTEN lived in Bath."),
    "b": Passage("b", "Emma", "A novel of 1815."),
    "c": Passage("c", "France", "Paris is its capital; Jane Austen never saw Paris."),
}
RELEVANT = {"a": QUESTIONS[:1], "b": QUESTIONS[:1], "c": QUESTIONS[:2]}


def test_poisoned_passages_have_the_answer_of_another_question() -> None:
    """In text and title, under an id of their own; a passage without the answer stays.

    An answer that is right for another question of the same passage is not taken, or it would be
    there again.
    """
    changed = SearchDamage("poisoned", share=1.0).change(RELEVANT, PASSAGES, QUESTIONS)
    assert changed == {
        "a": Passage(
            "a#poisoned", "Mary Shelley", "Emma is by Mary Shelley. Mary Shelley lived in Bath."
        ),
        "c": Passage(
            "c#poisoned",
            "France",
            "Mary Shelley is its capital; Mary Shelley never saw Mary Shelley.",
        ),
    }


def test_a_smaller_share_is_part_of_a_larger_one() -> None:
    """And a share of relevant passages is damaged, on average; the seed chooses which."""
    relevant = {f"p{n}": QUESTIONS[:1] for n in range(2000)}
    drawn = [
        set(SearchDamage("removed", share).change(relevant, {}, QUESTIONS))
        for share in (0.0, 0.2, 0.5, 1.0)
    ]
    assert [round(len(one) / 2000, 1) for one in drawn] == [0.0, 0.2, 0.5, 1.0]
    assert drawn[0] < drawn[1] < drawn[2] < drawn[3]
    assert set(SearchDamage("removed", 0.5, seed=1).change(relevant, {}, QUESTIONS)) != drawn[2]


def test_no_wrong_answer_is_one_that_is_right() -> None:
    """A part of a right answer, or one that contains it, is not taken; without another one, nothing
    is poisoned.
    """
    others = [
        QUESTIONS[0],
        *(make_question("Who?", [answer], answer) for answer in ("Jane", "Miss Jane Austen", " ")),
    ]
    with pytest.raises(ConfigError, match="no other question has an answer that is wrong"):
        SearchDamage("poisoned", 0.0).change({"a": others[:1]}, PASSAGES, others)
    others.append(make_question("Who?", ["Mary Shelley"], "x"))
    changed = SearchDamage("poisoned", 1.0).change({"a": others[:1]}, PASSAGES, others)
    assert changed["a"] == Passage(
        "a#poisoned", "Mary Shelley", "Emma is by Mary Shelley. Mary Shelley lived in Bath."
    )


@pytest.mark.parametrize(("how", "share"), [("hidden", 0.5), ("removed", 1.5), ("removed", -0.1)])
def test_other_kinds_and_shares_are_refused(how: str, share: float) -> None:
    """With what was received."""
    with pytest.raises(ConfigError, match="received"):
        SearchDamage(how, share)  # type: ignore[arg-type]


class Alphabetical:
    """An index that finds passages in the order of the alphabet, and says how deep it looked."""

    def __init__(self) -> None:
        self.depths: list[int] = []

    def search(self, questions: list[Question], depth: int) -> list[list[Hit]]:
        """Return the first letters."""
        self.depths.append(depth)
        return [
            [Hit(name, float(-n)) for n, name in enumerate("abcdef")][:depth] for _ in questions
        ]


def test_the_next_passage_takes_the_place_of_a_removed_one() -> None:
    """The index is asked again, deeper, until there are enough passages or no further one; a
    poisoned one keeps its rank.
    """
    passages = {name: Passage(name, "", name) for name in "abcdef"}
    changed = {"a": None, "b": Passage("b#poisoned", "", "x"), "c": None, "d": None}
    index = Alphabetical()
    engine = LocalSearch(lambda: index, lambda: passages, "x", changed=lambda: changed)  # type: ignore[arg-type, return-value]
    engine.submit([Search("q", 1), Search("q", 2), Search("q", 4)])
    found = {request.n: result for request, result in engine.collect(0.0)}  # type: ignore[union-attr]
    ids = {n: [passage.passage_id for passage in pages.passages] for n, pages in found.items()}  # type: ignore[union-attr]
    assert ids == {1: ["b#poisoned"], 2: ["b#poisoned", "e"], 4: ["b#poisoned", "e", "f"]}
    assert found[2].scores == (-1.0, -4.0)  # type: ignore[union-attr]
    assert index.depths == [1, 2, 2, 4, 8, 4, 8]


def test_a_question_has_one_wrong_answer_whatever_the_share_and_whoever_shares_the_answer() -> None:
    """Also where two questions with the same answer have passages in common, so that no passage
    contradicts another one.
    """
    asked = [
        make_question("A?", ["Paris"], "a"), make_question("B?", ["paris", "City of Paris"], "b"),
        make_question("C?", ["The City of Paris"], "c"),
        *(make_question(f"{n}?", [f"Town {n}"], f"x{n}") for n in range(30)),
    ]  # fmt: skip
    passages = {f"p{n}": Passage(f"p{n}", "", f"It is Paris, says {n}.") for n in range(20)}
    relevant = {
        f"p{n}": [asked[n % 2], asked[2]] if n % 3 else asked[n % 2 : n % 2 + 1] for n in range(20)
    }
    texts: set[str] = set()
    for share in (0.2, 0.5, 1.0):
        changed = SearchDamage("poisoned", share).change(relevant, passages, asked)
        texts |= {one.text.partition(",")[0] for one in changed.values() if one}
    assert len(texts) == 1
    assert texts != {"It is Paris"}


def test_an_answer_in_the_title_is_poisoned_too() -> None:
    """A prompt shows it; a title in which it cannot be replaced leaves the passage as it is."""
    passage = Passage("a", "Jane Austen", "She wrote it.")
    changed = SearchDamage("poisoned", 1.0).change({"a": QUESTIONS[:1]}, {"a": passage}, QUESTIONS)
    assert changed["a"] is not None
    assert changed["a"].title in ("Paris", "Mary Shelley")


class PerQuery:
    """An index in which the letters of a query are what it finds."""

    def search(self, questions: list[Question], depth: int) -> list[list[Hit]]:
        """Return the letters, without scores."""
        return [[Hit(letter, None) for letter in question.text][:depth] for question in questions]

    def search_averages(
        self, texts: list[tuple[str, tuple[str, ...]]], depth: int
    ) -> list[list[Hit]]:
        """Return the letters of the texts."""
        return [[Hit(letter, 0.5) for letter in "".join(averaged)][:depth] for _, averaged in texts]


def test_each_search_is_repeated_deeper_for_itself() -> None:
    """Also one with averaged texts; a score that is not known stays so."""
    passages = {letter: Passage(letter, "", letter) for letter in "abcdef"}
    engine = LocalSearch(PerQuery, lambda: passages, "x", changed=lambda: {"a": None})  # type: ignore[arg-type]
    texts = ("abd",)
    engine.submit(
        [*(Search(query, 2) for query in ("bcd", "abc", "fed", "afe")), Search("q", 2, texts)]
    )
    found = {
        request.query: ("".join(passage.passage_id for passage in pages.passages), pages.scores)  # type: ignore[union-attr]
        for request, pages in engine.collect(0.0)
    }
    none = (None, None)
    expected = {
        "bcd": ("bc", none),
        "abc": ("bc", none),
        "fed": ("fe", none),
        "afe": ("fe", none),
        "q": ("bd", (0.5, 0.5)),
    }
    assert found == expected


def test_each_question_draws_its_wrong_answer_by_the_seed() -> None:
    """Not all the same, and others for another seed."""
    questions = [make_question(f"Who {n}?", [f"name{n}"], f"q{n:02}") for n in range(40)]
    passages = {f"p{n:02}": Passage(f"p{n:02}", "", f"It was name{n}.") for n in range(40)}
    relevant = {f"p{n:02}": [questions[n]] for n in range(40)}
    drawn = []
    for seed in (13, 14):
        changed = SearchDamage("poisoned", 1.0, seed).change(relevant, passages, questions)
        drawn.append([one.text for one in changed.values() if one])
    assert len(set(drawn[0])) > 20
    assert sum(a != b for a, b in zip(*drawn, strict=True)) > 30


def test_a_passage_from_which_the_answer_cannot_be_taken_stays() -> None:
    """Because the wrong answer would form the right one again."""
    asked = [
        make_question("Who wrote Emma?", ["Jane Austen"], "q1"),
        make_question("Who?", ["Mary Jane"], "q2"),
    ]
    passage = Passage("a", "", "Jane Austen Austen Austen")
    assert SearchDamage("poisoned", 1.0).change({"a": asked[:1]}, {"a": passage}, asked) == {}


def test_answers_without_a_word_group_no_questions() -> None:
    """Such as "The The" and "A", which have nothing in common."""
    asked = [make_question("Band?", ["The The"], "a"), make_question("Letter?", ["A"], "b")]
    others = [make_question(f"{n}?", [f"Town {n}"], f"x{n}") for n in range(50)]
    passages = {"p": Passage("p", "", "By The The."), "q": Passage("q", "", "It is A.")}
    changed = SearchDamage("poisoned", 1.0).change(
        {"p": asked[:1], "q": asked[1:]}, passages, [*asked, *others]
    )
    texts = [one.text.removeprefix("By ").removeprefix("It is ") for one in changed.values() if one]
    assert len(set(texts)) == len(texts) == 2
