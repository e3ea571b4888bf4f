"""BEIR queries with relevance judgements."""

from pathlib import Path

import pytest

from winnow.datasets.beir import BeirQueries
from winnow.errors import InputError

SHARED = Path(__file__).parents[3] / "shared" / "data"


def test_judged_documents_are_gold(tmp_path: Path) -> None:
    """Score 0 is not relevant; queries without a relevant document are left out; the header is skipped."""
    (tmp_path / "q.jsonl").write_text('{"_id": "1", "text": "a"}\n{"_id": "2", "text": "b"}\n')
    (tmp_path / "r.tsv").write_text("query-id\tcorpus-id\tscore\n1\td1\t1\n1\td2\t2\n2\td3\t0\n")
    (row,) = BeirQueries(str(tmp_path / "q.jsonl"), str(tmp_path / "r.tsv"))
    assert (row.question_id, row.gold_passage_ids) == ("1", ("d1", "d2"))
    (tmp_path / "r.tsv").write_text("1 d1\n")
    with pytest.raises(InputError, match="query, document, score"):
        list(BeirQueries(str(tmp_path / "q.jsonl"), str(tmp_path / "r.tsv")))


def test_ids_are_compared_exactly(tmp_path: Path) -> None:
    """Tabs separate ids with spaces; a doubled line is one judgment, and two that differ are refused."""
    (tmp_path / "q.jsonl").write_text('{"_id": "my q", "text": "a"}\n{"_id": "my", "text": "b"}\n')
    (tmp_path / "r.tsv").write_text("my q\tNew York\t1\nmy q\tNew York\t2\nmy q\tYork\t0\n")
    (row,) = BeirQueries(str(tmp_path / "q.jsonl"), str(tmp_path / "r.tsv"))
    assert (row.question_id, row.gold_passage_ids) == ("my q", ("New York",))
    (tmp_path / "r.tsv").write_text("my q 0 d 1\n")
    with pytest.raises(InputError, match="query, document, score"):
        list(BeirQueries(str(tmp_path / "q.jsonl"), str(tmp_path / "r.tsv")))
    (tmp_path / "r.tsv").write_text("q\td\t1\nq\td\t0\n")
    with pytest.raises(InputError, match="line 2: expected one judgment of each document; 'd' is also judged otherwise"):
        list(BeirQueries(str(tmp_path / "q.jsonl"), str(tmp_path / "r.tsv")))


@pytest.mark.skipif(not SHARED.exists(), reason="real files lie in ../shared/data, which is not here")
def test_the_real_scifact() -> None:
    """All 300 test queries of SciFact are judged."""
    queries = list(BeirQueries(str(SHARED / "beir/scifact.queries.test.tsv"), str(SHARED / "beir/scifact.qrels.test.trec")))
    assert len(queries) == 300
    assert all(q.gold_passage_ids for q in queries)
