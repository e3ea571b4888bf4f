"""Rankings as stages read them back."""

from dataclasses import asdict
from pathlib import Path

import pytest

from winnow.artifacts import contracts, parquet
from winnow.artifacts.rankings import read_rankings, write_usage
from winnow.artifacts.tables import (
    build_hit_rows,
    build_passage_rows,
    build_question_rows,
    build_retrieval_rows,
    read_passages,
    read_questions,
)
from winnow.contexts.build import build_ranked_contexts
from winnow.errors import ArtifactError
from winnow.predictions import RoleUsage
from winnow.records import Hit, Passage, Question

PASSAGES = {
    n: Passage(n, f"T{n}", text)
    for n, text in {"1": "nothing", "2": "Jane Austen", "3": "gold"}.items()
}
QUESTION = Question("q1", "Who?", ("Jane Austen",), split="test")


def write(folder: Path, passages: list[Passage]) -> None:
    """A retrieval artifact of one question with two hits."""
    hits = build_hit_rows([QUESTION], [[Hit("1", 2.0), Hit("2", 1.0)]])
    texts = {n: p.text for n, p in PASSAGES.items()}
    parquet.write(
        folder / "contexts.parquet",
        contracts.RETRIEVAL,
        build_retrieval_rows([QUESTION], hits, texts),
    )
    parquet.write(folder / "passages.parquet", contracts.CORPUS, build_passage_rows(passages))


def test_a_ranking_with_has_answer_and_gold(tmp_path: Path) -> None:
    """Rank 2 has the answer and so is the distant gold passage."""
    write(tmp_path, list(PASSAGES.values()))
    contexts = build_ranked_contexts(read_rankings(tmp_path, [QUESTION]), QUESTION)
    assert [(c.rank, c.has_answer, c.is_gold) for c in contexts] == [
        (1, False, False),
        (2, True, True),
    ]
    assert [p.passage_id for p in read_passages(tmp_path / "passages.parquet")] == ["1", "2", "3"]


def test_a_ranking_shorter_than_k_is_named(tmp_path: Path) -> None:
    """Some short rankings are counted; if all are, k is refused."""
    write(tmp_path, list(PASSAGES.values()))
    rankings = read_rankings(tmp_path, [QUESTION])
    assert rankings.count_short_rankings(2) == 0
    with pytest.raises(
        ArtifactError, match="k=3 is larger than what was retrieved for any question"
    ):
        rankings.count_short_rankings(3)


def test_an_annotated_gold_that_was_not_retrieved_has_rank_0(tmp_path: Path) -> None:
    """It can be inserted, and never counts as retrieved."""
    write(tmp_path, list(PASSAGES.values()))
    annotated = Question("q1", "Who?", ("Jane Austen",), gold_passage_ids=("3",))
    contexts = build_ranked_contexts(read_rankings(tmp_path, [annotated]), annotated)
    assert [(c.passage.passage_id, c.rank, c.is_gold) for c in contexts][-1] == ("3", 0, True)


def test_an_annotated_gold_that_the_corpus_lacks_is_named(tmp_path: Path) -> None:
    """It could never be inserted; the condition would silently be another one."""
    write(tmp_path, list(PASSAGES.values()))
    with pytest.raises(ArtifactError, match="lacks the gold passage '77' of question 'q1'"):
        read_rankings(tmp_path, [Question("q1", "Who?", ("a",), gold_passage_ids=("77",))])


def test_relevance_reranks(tmp_path: Path) -> None:
    """Higher log-odds come first, with new ranks; what was not scored stays behind; a question
    without any is named.
    """
    write(tmp_path, list(PASSAGES.values()))
    rows = [
        {"question_id": "q1", "passage_id": n, "log_odds": float(n), "p_true": 0.5}
        for n in ("1", "2")
    ]
    parquet.write(tmp_path / "relevance.parquet", contracts.RELEVANCE, rows)
    contexts = build_ranked_contexts(
        read_rankings(tmp_path, [QUESTION], tmp_path / "relevance.parquet"), QUESTION, "estimator"
    )
    assert [(c.passage.passage_id, c.rank, c.log_odds) for c in contexts] == [
        ("2", 1, 2.0),
        ("1", 2, 1.0),
    ]
    parquet.write(tmp_path / "relevance.parquet", contracts.RELEVANCE, rows[1:])
    contexts = build_ranked_contexts(
        read_rankings(tmp_path, [QUESTION], tmp_path / "relevance.parquet"), QUESTION, "estimator"
    )
    assert [(c.passage.passage_id, c.log_odds) for c in contexts] == [("2", 2.0), ("1", None)]
    plain = build_ranked_contexts(
        read_rankings(tmp_path, [QUESTION], tmp_path / "relevance.parquet"), QUESTION
    )
    assert [(c.passage.passage_id, c.log_odds) for c in plain] == [("1", None), ("2", 2.0)]
    parquet.write(
        tmp_path / "relevance.parquet", contracts.RELEVANCE, [{**rows[0], "question_id": "q9"}]
    )
    with pytest.raises(ArtifactError, match="contains no log-odds for question 'q1'"):
        build_ranked_contexts(
            read_rankings(tmp_path, [QUESTION], tmp_path / "relevance.parquet"),
            QUESTION,
            "estimator",
        )


def test_dangling_passages_and_missing_questions_are_named(tmp_path: Path) -> None:
    """Question, rank and passage; a question without contexts."""
    write(tmp_path, [PASSAGES["1"]])
    with pytest.raises(ArtifactError, match="question 'q1', rank 2: the passage '2'"):
        read_rankings(tmp_path, [QUESTION])
    write(tmp_path, list(PASSAGES.values()))
    with pytest.raises(ArtifactError, match="no context for question 'q9'"):
        read_rankings(tmp_path, [Question("q9", "?", ("a",))])


def test_questions_by_split(tmp_path: Path) -> None:
    """Every field survives; an unknown split is named with those there are."""
    parquet.write(tmp_path / "q.parquet", contracts.QUESTIONS, build_question_rows([QUESTION]))
    assert read_questions(tmp_path / "q.parquet", ["test"]) == [QUESTION]
    with pytest.raises(ArtifactError, match=r"no split \['dev'\]; it has \['test'\]"):
        read_questions(tmp_path / "q.parquet", ["dev"])


def test_the_pool_has_all_passages_of_the_artifact(tmp_path: Path) -> None:
    """In the order of their ids, whichever questions are read."""
    write(tmp_path, [PASSAGES["3"], PASSAGES["1"], PASSAGES["2"]])
    pool = read_rankings(tmp_path, [QUESTION]).pool
    assert len(pool) == 3
    assert list(pool) == [PASSAGES["1"], PASSAGES["2"], PASSAGES["3"]]
    assert pool[-1] == PASSAGES["3"]
    assert pool[1:] == [PASSAGES["2"], PASSAGES["3"]]
    with pytest.raises(IndexError):
        pool[3]


def test_what_models_used_for_a_ranking_comes_back(tmp_path: Path) -> None:
    """Every field of every role, of the questions that are read; rankings without a model have
    none.
    """
    write(tmp_path, list(PASSAGES.values()))
    assert read_rankings(tmp_path, [QUESTION]).usage == {}
    used = (RoleUsage("rewriter", 1, 10, 2, 0.5, 1, 4), RoleUsage("corpus", 3, 0, 0, 0.25))
    write_usage(tmp_path, {"q1": used, "q2": ()})
    read = read_rankings(tmp_path, [QUESTION]).usage
    assert {id_: [asdict(one) for one in of] for id_, of in read.items()} == {
        "q1": [asdict(one) for one in used]
    }


def test_others_are_drawn_from_the_passages_of_another_artifact(tmp_path: Path) -> None:
    """So that a plan's cells have the random distractors of those without one."""
    for name, ids in (("own", "123"), ("pool", "12")):
        (tmp_path / name).mkdir()
        write(tmp_path / name, [PASSAGES[id_] for id_ in ids])
    drawn = [
        read_rankings(tmp_path / "own", [QUESTION], None, pool).pool
        for pool in (None, tmp_path / "pool")
    ]
    assert [[passage.passage_id for passage in pool] for pool in drawn] == [
        ["1", "2", "3"],
        ["1", "2"],
    ]
