"""BEIR queries with relevance judgments."""

from pathlib import Path

import pytest

from winnow.datasets.beir import BeirQueries
from winnow.errors import InputError

SHARED = Path(__file__).parents[3] / "shared" / "data"


def test_judged_documents_are_gold(tmp_path: Path) -> None:
    """Score 0 is not relevant; queries without a relevant document are left out; the header is
    skipped.
    """
    (tmp_path / "q.jsonl").write_text('{"_id": "1", "text": "a"}\n{"_id": "2", "text": "b"}\n')
    (tmp_path / "r.tsv").write_text("query-id\tcorpus-id\tscore\n1\td1\t1\n1\td2\t2\n2\td3\t0\n")
    (row,) = BeirQueries(str(tmp_path / "q.jsonl"), str(tmp_path / "r.tsv"))
    assert (row.question_id, row.gold_passage_ids) == ("1", ("d1", "d2"))
    (tmp_path / "r.tsv").write_text("1 d1\n")
    with pytest.raises(InputError, match="query, document, score"):
        list(BeirQueries(str(tmp_path / "q.jsonl"), str(tmp_path / "r.tsv")))


def test_ids_are_compared_exactly(tmp_path: Path) -> None:
    """Tabs separate ids with spaces; a doubled line is one judgment, and two that differ are
    refused.
    """
    (tmp_path / "q.jsonl").write_text('{"_id": "my q", "text": "a"}\n{"_id": "my", "text": "b"}\n')
    (tmp_path / "r.tsv").write_text("my q\tNew York\t1\nmy q\tNew York\t2\nmy q\tYork\t0\n")
    (row,) = BeirQueries(str(tmp_path / "q.jsonl"), str(tmp_path / "r.tsv"))
    assert (row.question_id, row.gold_passage_ids) == ("my q", ("New York",))
    (tmp_path / "r.tsv").write_text("my q 0 d 1\n")
    with pytest.raises(InputError, match="query, document, score"):
        list(BeirQueries(str(tmp_path / "q.jsonl"), str(tmp_path / "r.tsv")))
    (tmp_path / "r.tsv").write_text("q\td\t1\nq\td\t0\n")
    with pytest.raises(
        InputError,
        match="line 2: expected one judgment of each document; 'd' is also judged otherwise",
    ):
        list(BeirQueries(str(tmp_path / "q.jsonl"), str(tmp_path / "r.tsv")))


@pytest.mark.skipif(
    not SHARED.exists(), reason="real files lie in ../shared/data, which is not here"
)
def test_the_real_scifact() -> None:
    """All 300 test queries of SciFact are judged."""
    queries = list(
        BeirQueries(
            str(SHARED / "beir/scifact.queries.test.tsv"),
            str(SHARED / "beir/scifact.qrels.test.trec"),
        )
    )
    assert len(queries) == 300
    assert all(q.gold_passage_ids for q in queries)


def test_quoted_and_padded_ids(tmp_path: Path) -> None:
    """As spreadsheets write them; comments are skipped, and 1.0 is a judgment."""
    (tmp_path / "q.jsonl").write_text('{"_id": 1, "text": "a"}\n{"_id": " two ", "text": "b"}\n')
    (tmp_path / "r.tsv").write_text(
        '# judged in May\nquery-id\tcorpus-id\tscore\n"1"\t"d, 1"\t1.0\ntwo \t '
        "d2\t1\ntwo\td3\t0.0\n"
    )
    rows = list(BeirQueries(str(tmp_path / "q.jsonl"), str(tmp_path / "r.tsv")))
    assert [(row.question_id, row.gold_passage_ids) for row in rows] == [
        ("1", ("d, 1",)),
        ("two", ("d2",)),
    ]
    (tmp_path / "q.jsonl").write_text('{"_id": "#1", "text": "a"}\n')
    (tmp_path / "r.tsv").write_text("#1\td1\t1\n")
    (row,) = BeirQueries(str(tmp_path / "q.jsonl"), str(tmp_path / "r.tsv"))
    assert row.question_id == "#1", "an id may begin like a comment"


def test_judged_queries_that_the_file_lacks_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Some are left out with a count; a file without any judged query is refused."""
    (tmp_path / "q.jsonl").write_text('{"_id": "1", "text": "a"}\n')
    (tmp_path / "r.tsv").write_text("1\td1\t1\nq2\td1\t1\nq3\td1\t1\nq4\td1\t0\n")
    assert len(list(BeirQueries(str(tmp_path / "q.jsonl"), str(tmp_path / "r.tsv")))) == 1
    assert "lacks 2 of the 3 queries" in caplog.text
    assert "'q2'" in caplog.text
    (tmp_path / "r.tsv").write_text("q2\td1\t1\n")
    with pytest.raises(InputError, match="lacks 1 of the 1 queries"):
        list(BeirQueries(str(tmp_path / "q.jsonl"), str(tmp_path / "r.tsv")))
    (tmp_path / "r.tsv").write_text("q2\t\t1\n")
    with pytest.raises(InputError, match="query, document, score"):
        list(BeirQueries(str(tmp_path / "q.jsonl"), str(tmp_path / "r.tsv")))
