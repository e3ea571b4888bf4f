"""BM25 by Tantivy."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal
from unicodedata import normalize

import pytest

from winnow.artifacts.provenance import read_content_digest, write_manifest
from winnow.errors import ConfigError
from winnow.records import Passage
from winnow.retrievers.bm25 import BM25
from winnow.retrievers.tantivy import Tantivy
from winnow.testing import PASSAGES, make_question

QUESTIONS = [
    make_question("Which rivers flow in France?", question_id="1"),
    make_question("What barks?", question_id="2"),
]


def source() -> Iterator[Passage]:
    return iter(PASSAGES)


def test_stems_and_ranks(tmp_path: Path) -> None:
    """A stem finds its word ("rivers"); passages without a shared term are no hits, nor are
    questions of stop words.
    """
    Tantivy().build(source, tmp_path)
    searcher = Tantivy().open(tmp_path)
    hits = searcher.search(QUESTIONS, 100)
    assert hits[0][0].passage_id == "c"
    assert hits[1][0].passage_id == "d"
    assert [len(hits) for hits in hits] == [2, 1]
    assert searcher.search(
        [make_question("xyzzy?"), make_question("to be or not"), make_question("?!")], 100
    ) == [[], [], []]
    scores = [hit.score for hit in hits[0]]
    assert scores == sorted(scores, reverse=True)
    assert len(searcher.search(QUESTIONS, 1)[0]) == 1


def test_scores_are_those_of_the_formula(tmp_path: Path) -> None:
    """One term in passages of equal length: idf times tf (k1 + 1) / (tf + k1), with k1 = 1.2."""
    corpus = [
        Passage("once", "", "wren oak elm"),
        Passage("twice", "", "wren wren elm"),
        Passage("never", "", "oak elm ash"),
    ]
    Tantivy().build(lambda: iter(corpus), tmp_path)
    (hits,) = Tantivy().open(tmp_path).search([make_question("wren")], 5)
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    assert [hit.passage_id for hit in hits] == ["twice", "once"]
    assert [hit.score for hit in hits] == pytest.approx(
        [idf * 2 * 2.2 / 3.2, idf * 2.2 / 2.2], rel=1e-5
    )


def test_syntax_in_questions_is_text(tmp_path: Path) -> None:
    """Operators and fields of Tantivy's query language have no meaning in a question."""
    Tantivy().build(source, tmp_path)
    searcher = Tantivy().open(tmp_path)
    plain, marked = searcher.search(
        [make_question("rivers France"), make_question('-rivers AND row:0 "France" OR (')], 100
    )
    assert {hit.passage_id for hit in plain} <= {hit.passage_id for hit in marked}


def test_many_parts_and_ties(tmp_path: Path) -> None:
    """Ties are in the order of the corpus, and a second build gives the same hits."""
    corpus = [
        Passage(f"p{n}", "", f"wren {'oak ' * (n % 3)}" + "filler " * 30) for n in range(3000)
    ]
    rankings = []
    for name in ("first", "second"):
        Tantivy(writer_megabytes=15).build(lambda: iter(corpus), tmp_path / name)
        rankings.append(
            Tantivy().open(tmp_path / name).search([make_question("oak wren")], 3000)[0]
        )
    assert rankings[0] == rankings[1]
    assert len({hit.passage_id for hit in rankings[0]}) == 3000
    order = [(-hit.score, int(hit.passage_id[1:])) for hit in rankings[0]]
    assert order == sorted(order)


def test_ties_at_the_cut_do_not_depend_on_the_parts(tmp_path: Path) -> None:
    """The first of the corpus are hits, however the index was written."""
    corpus = [Passage(f"p{n}", "", "wren " + f"word{n} " * 50) for n in range(40_000)]
    for megabytes in (15, 128):
        folder = tmp_path / str(megabytes)
        Tantivy(writer_megabytes=megabytes).build(lambda: iter(corpus), folder)
        (hits,) = Tantivy().open(folder).search([make_question("wren")], 10)
        assert [hit.passage_id for hit in hits] == [f"p{n}" for n in range(10)]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("retriever", [Tantivy(), BM25()])
def test_unicode_forms_are_equal(
    form: Literal["NFC", "NFD"], retriever: Tantivy | BM25, tmp_path: Path
) -> None:
    """Of passages and of questions."""
    texts = ["Z\u00fcrich hosts a caf\u00e9", "the urich rich zu"]
    passages = [Passage(str(n), "", normalize(form, text)) for n, text in enumerate(texts)]
    retriever.build(lambda: iter(passages), tmp_path)
    for own in ("NFC", "NFD"):
        question = make_question(normalize(own, "Z\u00fcrich"))
        (hits,) = retriever.open(tmp_path).search([question], 5)
        assert [hit.passage_id for hit in hits] == ["0"]


def test_the_content_is_that_of_the_texts(tmp_path: Path) -> None:
    """Two builds of a corpus have equal digests although Tantivy's files have other names; another
    text has another.
    """

    def digest(name: str, corpus: list[Passage]) -> str:
        Tantivy().build(lambda: iter(corpus), tmp_path / name)
        write_manifest(tmp_path / name, key="k", settings={}, rows=0)
        return read_content_digest(tmp_path / name)

    changed = [*PASSAGES[:-1], replace(PASSAGES[-1], text="other words")]
    assert digest("a", PASSAGES) == digest("b", PASSAGES) != digest("c", changed)


def test_bad_input(tmp_path: Path) -> None:
    """An empty corpus and an unknown language leave no index behind; a broken build
    begins again.
    """
    with pytest.raises(ConfigError, match="corpus is empty"):
        Tantivy().build(lambda: iter(()), tmp_path)
    with pytest.raises(ConfigError, match="language='klingon' is not supported by Tantivy"):
        Tantivy(language="klingon").build(source, tmp_path)

    def breaks_off() -> Iterator[Passage]:
        yield PASSAGES[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Tantivy().build(breaks_off, tmp_path)
    assert list(tmp_path.iterdir()) == []
    Tantivy().build(source, tmp_path)
    assert Tantivy().open(tmp_path).search(QUESTIONS, 5)[0]


def test_close_to_bm25s(tmp_path: Path) -> None:
    """With the same constants, both rank the sample alike."""
    Tantivy().build(source, tmp_path / "tantivy")
    BM25(k1=1.2, b=0.75).build(source, tmp_path / "bm25s")
    ours, others = (
        retriever.open(tmp_path / name).search(QUESTIONS, 10)
        for name, retriever in (("tantivy", Tantivy()), ("bm25s", BM25(k1=1.2, b=0.75)))
    )
    assert [[hit.passage_id for hit in hits] for hits in ours] == [
        [hit.passage_id for hit in hits] for hits in others
    ]
