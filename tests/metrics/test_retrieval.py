"""Quality of rankings against numbers worked out by hand."""

import gzip
import json
import math
from pathlib import Path

import pytest

from winnow.errors import InputError
from winnow.metrics.retrieval import compute_ranking_measures, top_k_accuracy

SHARED = Path(__file__).parents[3] / "shared" / "data" / "beir"


def test_top_k_accuracy_is_the_share_with_one_hit() -> None:
    """Answers at ranks 2, none and 1: top-1 is 1/3, top-2 is 2/3."""
    flags = [[False, True], [False, False], [True, True]]
    assert top_k_accuracy(flags, 1).tolist() == [0.0, 0.0, 1.0]
    assert top_k_accuracy(flags, 2).mean() == 2 / 3


def test_judged_measures_by_hand() -> None:
    """Two relevant passages at ranks 1 and 3; one of two at rank 2; none found.

    Recall is the share of the relevant ones, not whether one was found: 1/2 at 1 and 1 at 3 for the
    first question.
    """
    relevant = {"a": ("x", "y"), "b": ("x", "z"), "c": ("w",)}
    ranked = {"a": ["x", "u", "y"], "b": ["u", "x", "y"], "c": ["x", "y"]}
    values = {
        name: vector.tolist()
        for name, vector in compute_ranking_measures(relevant, ranked, (1, 3)).items()
    }
    ideal = 1 + 1 / math.log2(3)
    assert values["recall@1"] == [0.5, 0.0, 0.0]
    assert values["recall@3"] == [1.0, 0.5, 0.0]
    assert values["MRR"] == [1.0, 0.5, 0.0]
    assert values["MAP"] == pytest.approx([(1 + 2 / 3) / 2, 0.25, 0.0])
    assert values["nDCG@10"] == pytest.approx([(1 + 0.5) / ideal, (1 / math.log2(3)) / ideal, 0.0])


def test_the_order_of_the_ranking_counts_not_the_ids() -> None:
    """Many passages whose ids sort the other way."""
    ranked = [f"p{n:03d}" for n in range(120, 0, -1)]
    values = compute_ranking_measures({"q": (ranked[99],)}, {"q": ranked}, (99, 100))
    assert (values["recall@99"][0], values["recall@100"][0], values["MRR"][0]) == (
        0.0,
        1.0,
        pytest.approx(0.01),
    )


def test_a_question_without_hits_counts_as_0() -> None:
    """Its relevant passage was not found, which is no missing value."""
    values = compute_ranking_measures({"a": ("x",), "b": ("y",)}, {"a": ["x"]}, (1,))
    assert {name: vector.tolist() for name, vector in values.items()} == {
        name: [1.0, 0.0] for name in values
    }


def test_a_question_without_judged_passages_is_refused() -> None:
    """Its recall is undefined, not 0."""
    with pytest.raises(InputError, match="'b' has no relevant passage"):
        compute_ranking_measures({"a": ("x",), "b": ()}, {}, (1,))


@pytest.mark.slow
@pytest.mark.skipif(
    not SHARED.is_dir(), reason="real files lie in ../shared/data, which is not here"
)
def test_scifact_has_its_published_values(tmp_path: Path) -> None:
    """BM25 on SciFact's real files: nDCG@10 between 0.67 and 0.69, as published; recall@10 is not
    the share with one hit.
    """
    from winnow.records import Passage, Question
    from winnow.retrievers.bm25 import BM25

    with gzip.open(SHARED / "scifact.corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    passages = [Passage(row["_id"], row["title"], row["text"]) for row in rows]
    queries = dict(
        line.split("\t", 1)
        for line in (SHARED / "scifact.queries.test.tsv").read_text().splitlines()
    )
    relevant: dict[str, list[str]] = {}
    for line in (SHARED / "scifact.qrels.test.trec").read_text().splitlines():
        query_id, _, passage_id, grade = line.split()
        if int(grade):
            relevant.setdefault(query_id, []).append(passage_id)
    retriever = BM25()
    retriever.build(lambda: iter(passages), tmp_path / "index")
    questions = [Question(query_id, queries[query_id], ("",)) for query_id in relevant]
    hits = retriever.open(tmp_path / "index").search(questions, 100)
    ranked = {
        q.question_id: [hit.passage_id for hit in found]
        for q, found in zip(questions, hits, strict=True)
    }
    values = compute_ranking_measures(relevant, ranked, (10,))
    print({name: round(float(vector.mean()), 4) for name, vector in values.items()})
    assert 0.67 <= values["nDCG@10"].mean() <= 0.69
    one_hit = [
        [passage_id in relevant[query_id] for passage_id in ids] for query_id, ids in ranked.items()
    ]
    assert values["recall@10"].mean() < top_k_accuracy(one_hit, 10).mean()
