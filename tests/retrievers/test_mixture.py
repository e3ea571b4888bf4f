"""Mixtures of relevant, irrelevant and seemingly relevant documents: what they hold, and that all
readers see the same.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from winnow.errors import ConfigError, InputError
from winnow.formats.rage import RelevanceMap, write_rage_files
from winnow.records import Hit, Passage, Question
from winnow.retrievers.bm25 import BM25
from winnow.retrievers.mixture import Mixture, NeighborMaps, PublishedMaps
from winnow.text.containment import has_answer

TOWNS = [Passage(f"t{n}", "", f"The town number {n} lies on a river.") for n in range(8)]
HOLDERS = [
    Passage(f"h{n}", "", f"The town of Emma lies on a river, says book {n}.") for n in range(3)
]
OTHERS = [Passage(f"o{n}", "", f"Stones {n} are grey.") for n in range(30)] + [
    Passage("o30", "", "Emma collects stones.")
]
CORPUS = {passage.passage_id: passage for passage in [*TOWNS, *HOLDERS, *OTHERS]}
QUESTION = Question("q1", "Which town lies on a river?", ("Emma",))
ANNOTATED = Question("q2", "Which town lies on a river?", ("Emma",), ("t1", "o3"))


def search(
    mixture: Mixture, folder: Path, *questions: Question, depth: int = 100
) -> list[list[Hit]]:
    if not (folder / "index").exists():
        mixture.build(lambda: iter(CORPUS.values()), folder / "index")
    return mixture.open(folder / "index").search(questions, depth)


def kinds(question: Question, hits: list[Hit]) -> dict[str, list[str]]:
    """The documents by kind, as metrics tell them: by relevance, then by whether they
    have a score.
    """
    found: dict[str, list[str]] = {"relevant": [], "irrelevant": [], "seemingly": []}
    for hit in hits:
        gold = question.gold_passage_ids
        relevant = (
            hit.passage_id in gold
            if gold
            else has_answer(CORPUS[hit.passage_id].text, question.answers)
        )
        found[
            "relevant" if relevant else "irrelevant" if hit.score is None else "seemingly"
        ].append(hit.passage_id)
    return found


def test_distant_labels(tmp_path: Path) -> None:
    """Passages with the answer are relevant, and no other one has it, not even a random one far
    from the question.
    """
    maps = NeighborMaps(BM25(), neighbors=4, irrelevant=20)
    (hits,) = search(
        Mixture(maps, relevant=2, irrelevant=20, seemingly_relevant=4), tmp_path, QUESTION
    )
    found = kinds(QUESTION, hits)
    assert len(found["relevant"]) == 2
    assert all(name.startswith("h") for name in found["relevant"])
    assert len(found["seemingly"]) == 4
    assert all(name.startswith("t") for name in found["seemingly"])
    assert len(found["irrelevant"]) == 20
    assert len({hit.passage_id for hit in hits}) == 26
    assert [name[0] for name in found["relevant"]] != [hit.passage_id[0] for hit in hits][
        :2
    ] or hits[0].score is None


def test_annotated_passages(tmp_path: Path) -> None:
    """Annotated passages alone are relevant, found or not; another one with an answer may seem so,
    unless excluded.
    """
    maps = NeighborMaps(BM25(), neighbors=10, irrelevant=5)
    (hits,) = search(
        Mixture(maps, relevant=3, irrelevant=3, seemingly_relevant=10), tmp_path, ANNOTATED
    )
    found = kinds(ANNOTATED, hits)
    assert sorted(found["relevant"]) == ["o3", "t1"]
    assert {"h0", "h1", "h2"} <= set(found["seemingly"])
    strict = replace(maps, exclude_answers="all")
    (hits,) = search(
        Mixture(strict, relevant=3, irrelevant=5, seemingly_relevant=7), tmp_path, ANNOTATED
    )
    assert not any(has_answer(CORPUS[hit.passage_id].text, ("Emma",)) for hit in hits)


def test_the_mixture_depends_on_seed_and_question_only(tmp_path: Path) -> None:
    """Equal whether questions are searched alone or together; another seed gives another order;
    fewer relevant are drawn.
    """
    maps = NeighborMaps(BM25(), neighbors=6, irrelevant=10)
    mixture = Mixture(maps, relevant=1, irrelevant=3, seemingly_relevant=3)
    together = search(mixture, tmp_path, QUESTION, ANNOTATED)
    assert together == [
        *search(mixture, tmp_path, QUESTION),
        *search(mixture, tmp_path, ANNOTATED),
    ]
    assert search(replace(mixture, seed=14), tmp_path, QUESTION) != together[:1]
    assert [len(hits) for hits in together] == [7, 7]
    orders = {
        tuple(hit.passage_id[0] for hit in search(replace(mixture, seed=n), tmp_path, QUESTION)[0])
        for n in range(8)
    }
    assert len(orders) > 4


def test_a_question_without_relevant_passages_keeps_the_others(tmp_path: Path) -> None:
    """Its recall is undefined, and metrics leave it out."""
    maps = NeighborMaps(BM25(), neighbors=4, irrelevant=4)
    nowhere = replace(QUESTION, answers=("Nowhere",))
    (hits,) = search(
        Mixture(maps, relevant=2, irrelevant=1, seemingly_relevant=1), tmp_path, nowhere
    )
    assert {name: len(found) for name, found in kinds(nowhere, hits).items()} == {
        "relevant": 0,
        "irrelevant": 1,
        "seemingly": 1,
    }


def test_too_few_documents_and_settings_that_cut(tmp_path: Path) -> None:
    """A mixture has what its maps have; a depth below the mixture and counts that make no sense are
    refused.
    """
    maps = NeighborMaps(BM25(), neighbors=4, irrelevant=4)
    (hits,) = search(Mixture(maps, seemingly_relevant=5, irrelevant=7), tmp_path, QUESTION)
    found = kinds(QUESTION, hits)
    assert {name: len(ids) for name, ids in found.items()} == {
        "relevant": 3,
        "irrelevant": 4,
        "seemingly": 4,
    }
    with pytest.raises(ConfigError, match="depth=5 would cut mixtures of up to 9"):
        search(Mixture(maps), tmp_path, QUESTION, depth=5)
    with pytest.raises(ConfigError, match="must not be all 0"):
        Mixture(maps, 0, 0, 0)
    with pytest.raises(ConfigError, match="depth must be above"):
        NeighborMaps(BM25(), neighbors=10, depth=10)
    with pytest.raises(ConfigError, match="exclude_answers"):
        NeighborMaps(BM25(), exclude_answers="some")  # type: ignore[arg-type]


def test_published_maps(tmp_path: Path) -> None:
    """RAGE's files: kinds are told apart by score as for built maps; a question that they lack is
    named.
    """
    maps = {"q2": RelevanceMap(("t1", "o3"), ("o1", "o2", "t1"), ("t2", "t3", "h1"))}
    write_rage_files(tmp_path, [ANNOTATED], iter(CORPUS.values()), maps)
    mixture = Mixture(PublishedMaps(str(tmp_path)), relevant=3, irrelevant=2, seemingly_relevant=3)
    (hits,) = search(mixture, tmp_path, ANNOTATED)
    found = kinds(ANNOTATED, hits)
    assert {name: sorted(ids) for name, ids in found.items()} == {
        "relevant": ["o3", "t1"],
        "irrelevant": ["o1", "o2"],
        "seemingly": ["h1", "t2", "t3"],
    }
    with pytest.raises(InputError, match="no document for question 'q1'"):
        search(mixture, tmp_path, QUESTION)


def test_a_large_corpus_is_not_read_for_a_draw(tmp_path: Path) -> None:
    """Irrelevant passages come from the whole corpus, evenly."""

    def passages() -> Iterator[Passage]:
        yield from (Passage(f"x{n}", "", f"word{n % 50} river") for n in range(25_000))

    mixture = Mixture(
        NeighborMaps(BM25(), neighbors=1, irrelevant=10),
        relevant=0,
        irrelevant=10,
        seemingly_relevant=0,
    )
    mixture.build(passages, tmp_path)
    questions = [Question(f"q{n}", "river", ("none",)) for n in range(30)]
    numbers = [
        int(hit.passage_id[1:])
        for hits in mixture.open(tmp_path).search(questions, 100)
        for hit in hits
    ]
    assert len(numbers) == 300
    assert 10_000 < sum(numbers) / len(numbers) < 15_000
