"""Questions for which the retriever finds nothing."""

import json
import re
from pathlib import Path

from conftest import Run

from winnow.artifacts import contracts, parquet

STRATEGIES = [
    "concatenation",
    "post_fusion",
    "concat_pf",
    "pf_concat",
    "cite_short",
    "marginal_generated",
    "summary",
    "pruning",
]


def test_one_question_without_a_hit_ends_nothing(world: Path, run: Run, tmp_path: Path) -> None:
    """It has an empty ranking, which is said, and every strategy answers it with what there is."""
    rows = [json.loads(line) for line in (world / "questions.jsonl").read_text().splitlines()[:4]]
    rows[1:1] = [
        {"question": f"Zyzzyva {word}?", "answer": ["xylem"]} for word in ("qwertz", "asdfgh")
    ]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = [
        f"dataset.parser.path={tmp_path}/q.jsonl", "++dataset.split.test=5",
        "++dataset.split.dev=0", "sweep.split=test", "score.splits=[test]",
        "sweep.closed_book_filter=false", "rank_by=estimator", "k=2",
    ]  # fmt: skip
    for stage in ("corpus", "index", "questions"):
        run(stage, *words)
    text = run("retrieve", *words).stdout
    found = re.search(
        r"no passage was found for (\d) of \d questions, such as '[^']+' \('Zyzzyva", text
    )
    assert found, text
    run("score", *words)
    grid = f"grid={{strategy:[{','.join(STRATEGIES)}],placement:[retrieved,gold_first]}}"
    run("sweep", *words, grid)
    assert (
        "Page: r/index.html"
        in run("report", *words, grid, "breakdown=sufficiency", "report.out=r").stdout
    )
    run("export", *words, "export.split=test", "export.format=fid", "export.out=fid")
    assert [] in [
        entry["ctxs"] for entry in json.loads((tmp_path / "fid" / "test.json").read_text())
    ]
    cells = list(tmp_path.glob("data/predictions/*/predictions.parquet"))
    assert len(cells) == 2 * len(STRATEGIES)
    for cell in cells:
        rows = parquet.read(cell, contracts.PREDICTIONS).to_pylist()
        assert len(rows) == 5
        assert sum(row["passage_ids"] == [] for row in rows) == int(found[1])
