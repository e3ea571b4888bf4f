"""Rankings as stages read them back."""

from pathlib import Path

import pytest

from winnow import store
from winnow.errors import ArtifactError
from winnow.records import Hit, Passage, Question
from winnow.tables import Rankings, hit_rows, passage_rows, passages_of, question_rows, questions_of, retrieval_rows

PASSAGES = {n: Passage(n, f"T{n}", text) for n, text in {"1": "nothing", "2": "Jane Austen", "3": "gold"}.items()}
ASKED = Question("q1", "Who?", ("Jane Austen",), split="test")


def write(folder: Path, passages: list[Passage]) -> None:
    """A retrieval artifact of one question with two hits."""
    hits = hit_rows([ASKED], [[Hit("1", 2.0), Hit("2", 1.0)]])
    texts = {n: p.text for n, p in PASSAGES.items()}
    store.write(folder / "contexts.parquet", store.RETRIEVAL, retrieval_rows([ASKED], hits, texts))
    store.write(folder / "passages.parquet", store.CORPUS, passage_rows(passages))


def test_a_ranking_with_has_answer_and_gold(tmp_path: Path) -> None:
    """Rank 2 has the answer and so is the distant gold passage."""
    write(tmp_path, list(PASSAGES.values()))
    contexts = Rankings(tmp_path, [ASKED]).contexts(ASKED)
    assert [(c.rank, c.has_answer, c.is_gold) for c in contexts] == [(1, False, False), (2, True, True)]
    assert [p.passage_id for p in passages_of(tmp_path / "passages.parquet")] == ["1", "2", "3"]


def test_a_ranking_shorter_than_k_is_named(tmp_path: Path) -> None:
    """Some short rankings are counted; if all are, k is refused."""
    write(tmp_path, list(PASSAGES.values()))
    rankings = Rankings(tmp_path, [ASKED])
    assert rankings.shorter_than(2) == 0
    with pytest.raises(ArtifactError, match="k=3 is larger than what was retrieved for any question"):
        rankings.shorter_than(3)


def test_an_annotated_gold_that_was_not_retrieved_has_rank_0(tmp_path: Path) -> None:
    """It can be inserted, and never counts as retrieved."""
    write(tmp_path, list(PASSAGES.values()))
    asked = Question("q1", "Who?", ("Jane Austen",), gold_passage_ids=("3",))
    contexts = Rankings(tmp_path, [asked]).contexts(asked)
    assert [(c.passage.passage_id, c.rank, c.is_gold) for c in contexts][-1] == ("3", 0, True)


def test_an_annotated_gold_that_the_corpus_lacks_is_named(tmp_path: Path) -> None:
    """It could never be inserted; the condition would silently be another one."""
    write(tmp_path, list(PASSAGES.values()))
    with pytest.raises(ArtifactError, match="lacks the gold passage '77' of question 'q1'"):
        Rankings(tmp_path, [Question("q1", "Who?", ("a",), gold_passage_ids=("77",))])


def test_relevance_reranks(tmp_path: Path) -> None:
    """Higher log-odds come first, with new ranks; what was not scored stays behind; a question without any is named."""
    write(tmp_path, list(PASSAGES.values()))
    rows = [{"question_id": "q1", "passage_id": n, "log_odds": float(n), "p_true": 0.5} for n in ("1", "2")]
    store.write(tmp_path / "relevance.parquet", store.RELEVANCE, rows)
    contexts = Rankings(tmp_path, [ASKED], tmp_path / "relevance.parquet").contexts(ASKED)
    assert [(c.passage.passage_id, c.rank, c.log_odds) for c in contexts] == [("2", 1, 2.0), ("1", 2, 1.0)]
    store.write(tmp_path / "relevance.parquet", store.RELEVANCE, rows[1:])
    contexts = Rankings(tmp_path, [ASKED], tmp_path / "relevance.parquet").contexts(ASKED)
    assert [(c.passage.passage_id, c.log_odds) for c in contexts] == [("2", 2.0), ("1", None)]
    plain = Rankings(tmp_path, [ASKED], tmp_path / "relevance.parquet", rerank=False).contexts(ASKED)
    assert [(c.passage.passage_id, c.log_odds) for c in plain] == [("1", None), ("2", 2.0)]
    store.write(tmp_path / "relevance.parquet", store.RELEVANCE, [{**rows[0], "question_id": "q9"}])
    with pytest.raises(ArtifactError, match="holds no log-odds for question 'q1'"):
        Rankings(tmp_path, [ASKED], tmp_path / "relevance.parquet").contexts(ASKED)


def test_dangling_passages_and_missing_questions_are_named(tmp_path: Path) -> None:
    """Question, rank and passage; a question without contexts."""
    write(tmp_path, [PASSAGES["1"]])
    with pytest.raises(ArtifactError, match="question 'q1', rank 2: the passage '2'"):
        Rankings(tmp_path, [ASKED])
    write(tmp_path, list(PASSAGES.values()))
    with pytest.raises(ArtifactError, match="no context for question 'q9'"):
        Rankings(tmp_path, [ASKED]).contexts(Question("q9", "?", ("a",)))


def test_questions_by_split(tmp_path: Path) -> None:
    """Every field survives; an unknown split is named with those there are."""
    store.write(tmp_path / "q.parquet", store.QUESTIONS, question_rows([ASKED]))
    assert questions_of(tmp_path / "q.parquet", ["test"]) == [ASKED]
    with pytest.raises(ArtifactError, match=r"no split \['dev'\]; it has \['test'\]"):
        questions_of(tmp_path / "q.parquet", ["dev"])
