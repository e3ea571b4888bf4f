"""The passages of a FiD file."""

import json
from pathlib import Path

from winnow.corpora.fid_json import FidCorpus


def test_fid_corpus_has_each_passage_once(tmp_path: Path) -> None:
    """Two questions share a passage."""
    ctxs = [{"id": "1", "title": "t", "text": "x"}, {"id": "2", "title": "u", "text": "y"}]
    path = tmp_path / "f.jsonl"
    path.write_text("\n".join(json.dumps({"question": q, "answers": ["a"], "ctxs": ctxs}) for q in "ab"))
    assert [p.passage_id for p in FidCorpus(str(path))] == ["1", "2"]
