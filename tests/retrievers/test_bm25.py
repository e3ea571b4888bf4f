"""BM25."""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import bm25s
import numpy as np
import pytest
import Stemmer
from hypothesis import given, settings
from hypothesis import strategies as st

from winnow.errors import ConfigError
from winnow.records import Passage, Question
from winnow.retrievers import bm25 as bm25_module
from winnow.retrievers.bm25 import BM25, select_best
from winnow.testing import PASSAGES, make_question

QUESTIONS = [
    make_question("Which rivers flow in France?", question_id="1"),
    make_question("What barks?", question_id="2"),
]


def source() -> Iterator[Passage]:
    return iter(PASSAGES)


def test_bm25_stems_and_ranks(tmp_path: Path) -> None:
    """A stem finds its word ("rivers"); passages without a shared term are no hits."""
    BM25().build(source, tmp_path)
    hits = BM25().open(tmp_path).search(QUESTIONS, 100)
    assert hits[0][0].passage_id == "c"
    assert hits[1][0].passage_id == "d"
    assert [len(hits) for hits in hits] == [2, 1]
    assert BM25().open(tmp_path).search([make_question("xyzzy?")], 100) == [[]]
    scores = [hit.score for hit in hits[0]]
    assert scores == sorted(scores, reverse=True)
    assert len(BM25().open(tmp_path).search(QUESTIONS, 1)[0]) == 1
    with pytest.raises(ConfigError, match="0 <= b <= 1"):
        BM25(b=2)


def test_passages_of_equal_score_are_in_the_order_of_the_corpus(tmp_path: Path) -> None:
    """On every processor and with every package; the first of them are found if there is no room
    for all.
    """
    texts = [
        "a dog barks",
        "a cat",
        "a dog barks",
        "dogs bark at dogs",
        "a dog barks",
        "a dog barks",
        "a dog barks",
    ]
    passages = [Passage(str(number), "", text) for number, text in enumerate(texts)]
    BM25().build(lambda: iter(passages), tmp_path)
    searcher = BM25().open(tmp_path)
    for depth in (100, 4, 3):
        (hits,) = searcher.search([make_question("Which dog barks?")], depth)
        assert [hit.passage_id for hit in hits] == ["3", "0", "2", "4", "5", "6"][:depth]
    assert searcher.search([make_question("the"), make_question("")], 100) == [[], []]
    once, twice = searcher.search([make_question("dog"), make_question("dog dog")], 1)
    assert once[0].score is not None
    assert twice[0].score == pytest.approx(2 * once[0].score)


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.5, -1.0]), min_size=1, max_size=40),
    st.integers(1, 45),
)
def test_the_best_rows_are_those_of_a_stable_sort(scores: list[float], depth: int) -> None:
    """Without rows that have no positive score."""
    expected = [
        row for row in sorted(range(len(scores)), key=lambda row: -scores[row]) if scores[row] > 0
    ][:depth]
    assert select_best(np.array(scores, np.float32), depth).tolist() == expected


@pytest.mark.parametrize("block", [1, 3, 1000])
def test_blocks_make_the_index_of_all_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    """Whatever their size, a passage has the score that bm25s computes from all texts at once; an
    empty one has none.
    """
    monkeypatch.setattr(bm25_module, "_BLOCK", block)
    rng = random.Random(0)
    words = [
        "river",
        "rivers",
        "flows",
        "dog",
        "dogs",
        "bark",
        "Zürich",
        "the",
        "of",
        "town",
        "towns",
    ]
    passages = [
        Passage(
            f"p{n}",
            rng.choice(["", "River", "Dogs"]),
            " ".join(rng.choices(words, k=rng.randrange(12))),
        )
        for n in range(40)
    ]
    passages.append(Passage("empty", "", ""))
    BM25().build(lambda: iter(passages), tmp_path)
    questions = [
        make_question(text, question_id=text)
        for text in ("rivers of Zürich", "barking dogs", "towns", "the")
    ]
    found = BM25().open(tmp_path).search(questions, 50)
    stemmer = Stemmer.Stemmer("english")
    texts = [f"{passage.title} {passage.text}" for passage in passages]
    index = bm25s.BM25(k1=1.5, b=0.75)
    index.index(
        bm25s.tokenize(texts, stopwords="english", stemmer=stemmer, show_progress=False),
        show_progress=False,
    )
    for question, hits in zip(questions, found, strict=True):
        (terms,) = bm25s.tokenize(
            [question.text],
            stopwords="english",
            stemmer=stemmer,
            return_ids=False,
            show_progress=False,
        )
        expected = index.get_scores(terms) if terms else [0.0] * len(texts)
        assert {hit.passage_id: hit.score for hit in hits} == {
            passage.passage_id: pytest.approx(score, rel=1e-6)
            for passage, score in zip(passages, expected, strict=True)
            if score > 0
        }


def test_equal_corpora_have_equal_indexes(tmp_path: Path) -> None:
    """The order of the vocabulary does not depend on the hashes of strings, which differ between
    processes.
    """
    program = (
        "import sys; from pathlib import Path; from winnow.retrievers.bm25 import BM25; from "
        "winnow.testing import PASSAGES; BM25().build(lambda: iter(PASSAGES), Path(sys.argv[1]))"
    )
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / seed)], check=True, env=environment
        )
    files = sorted(file.name for file in (tmp_path / "1").iterdir())
    assert len(files) > 3
    for name in files:
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes(), name


def test_scripts_without_spaces_are_searched_by_characters(tmp_path: Path) -> None:
    """A word inside a sentence is found; words of other scripts stay words."""
    texts = [
        "東京は日本の首都です",
        "大阪には USJ があります",
        "富士山は高い",
    ]
    passages = [Passage(str(n), "", text) for n, text in enumerate(texts)]
    for query, best in (("首都", "0"), ("USJ", "1"), ("富士山", "2")):
        retriever = BM25(language="japanese")
        retriever.build(lambda: iter(passages), tmp_path / best)
        (hits,) = retriever.open(tmp_path / best).search([Question("q", query, ())], 3)
        assert hits[0].passage_id == best
    with pytest.raises(
        ConfigError, match="BM25 has no language 'klingon'; it has burmese, chinese"
    ):
        BM25(language="klingon")


def test_combining_marks_continue_a_word(tmp_path: Path) -> None:
    """Hindi's vowel signs are no ends of words, and a decomposed letter equals a composed one."""
    passages = [
        Passage("hindi", "", "\u0939\u093f\u0928\u094d\u0926\u0940 \u092d\u093e\u0937\u093e"),
        Passage("czech", "", "Dvor\u030ca\u0301k wrote an opera"),
        Passage("other", "", "nothing of either"),
    ]
    BM25().build(lambda: iter(passages), tmp_path)
    searcher = BM25().open(tmp_path)
    for query, passage_id in (("\u092d\u093e\u0937\u093e", "hindi"), ("Dvo\u0159\u00e1k", "czech")):
        (hits,) = searcher.search([make_question(query)], 10)
        assert [hit.passage_id for hit in hits] == [passage_id]


@pytest.mark.parametrize("language", ["english", "turkish"])
def test_a_ranking_does_not_depend_on_the_other_questions(language: str, tmp_path: Path) -> None:
    """The lower case of a dotted I has a mark, which the texts before it have not."""
    texts = ["\u0130stanbul city", "\u0939\u093f\u0928\u094d\u0926\u0940 word", "stanbul port"]
    passages = [Passage(str(n), "", text) for n, text in enumerate(texts)]
    BM25(language=language).build(lambda: iter(passages), tmp_path)
    searcher = BM25(language=language).open(tmp_path)
    own, other = make_question("\u0130stanbul"), make_question(texts[1])
    alone, beside = searcher.search([own], 3), searcher.search([own, other], 3)
    assert alone[0] == beside[0]
    assert alone[0][0].passage_id == "0"


def test_a_corpus_without_a_word_is_refused(tmp_path: Path) -> None:
    """By what is to be changed."""
    with pytest.raises(ConfigError, match="no word of the language 'english'"):
        BM25().build(lambda: iter([Passage("1", "", "! ?")]), tmp_path)


def test_a_mark_begins_no_word(tmp_path: Path) -> None:
    """Such as the selector after a heart, before the word."""
    passages = [Passage("a", "", "\u2764\ufe0flove and e\u0301te\u0301"), Passage("b", "", "hate")]
    BM25().build(lambda: iter(passages), tmp_path)
    ((hit,),) = BM25().open(tmp_path).search([make_question("love")], 10)
    assert hit.passage_id == "a"


def test_words_of_one_character_are_left_out(tmp_path: Path) -> None:
    """But not of the languages without spaces."""
    passages = [Passage("c", "", "vitamin c"), Passage("d", "", "vitamin d"), Passage("e", "", "x")]
    BM25().build(lambda: iter(passages), tmp_path)
    (hits,) = BM25().open(tmp_path).search([make_question("vitamin c")], 3)
    assert [hit.passage_id for hit in hits] == ["c", "d"]
    assert hits[0].score == hits[1].score
    assert BM25().open(tmp_path).search([make_question("c")], 3) == [[]]
