"""RE-RAG through the flows: an estimator from a frozen reader, the proof on made facts, every
experiment, and their pages.
"""

import json
import re
from pathlib import Path

import pytest
from conftest import Run

from winnow.metrics.intervals import UNDEFINED

FROZEN = [
    "estimator=cross_encoder", "estimator.engine.dtype=float32",
    "estimator.engine.separate_layers=2", "joint.settings.precision=float32",
    "joint.settings.epochs=1", "joint.data.questions=4", "joint.data.contexts=3",
    "joint.data.dev_questions=2", "joint.data.dev_contexts=3", "score.splits=[dev,test]",
    "score.limit=6", "score.depth=20", "evaluate_estimator.k=2", "decoding.max_new_tokens=4",
    "reader@joint.teacher.reader=folder", "joint.teacher.reader.name=tiny",
    "joint.teacher.reader.engine.dtype=float32", "joint.teacher.decoding.max_new_tokens=4",
    "sweep.limit=4", "sweep.closed_book_filter=false",
]  # fmt: skip


@pytest.mark.slow
def test_an_estimator_from_a_frozen_reader_is_plugged_in_and_evaluated(
    prepared: Run, world: Path, tmp_path: Path
) -> None:
    """Train, score, weigh and rank by it with any reader, report."""
    frozen = [*FROZEN, f"joint.teacher.reader.base={world}/lm"]
    output = prepared("train_joint", *frozen).stdout
    assert "1 of 1" in output
    assert "Interval(" not in prepared("score", *frozen).stdout
    words = ["experiment=re_rag/table7", *frozen, "k=2", "score.limit=6"]
    prepared("sweep", *words)
    prepared("report", *words)
    page = (tmp_path / "reports/re_rag/table7/report.md").read_text()
    assert "## Beside the paper: RE-RAG, Table 7" in page
    assert "46.8" in page
    assert "ranked by=estimator cross_encoder" in page
    words = ["experiment=re_rag/estimator", *frozen, "k=2"]
    evaluation = prepared("evaluate_estimator", *words).stdout
    assert "top-1" in evaluation
    tables = json.loads((tmp_path / "reports/re_rag/estimator/tables.json").read_text())
    titles = [table["title"] for table in tables]
    assert [title.partition(" (")[0] for title in titles] == [
        "Top-k accuracy before and after reranking, there called recall@k",
        "Scored contexts",
        "Sets without an answer",
        "Abstaining on sets without an answer",
        "EM by the share of relevant contexts",
        "Calibration and ranking of the scores",
    ]
    assert ["RE-RAG base (paper, NQ)", UNDEFINED, "51.3", "33.9", "40.9"] in tables[2]["rows"]
    for name, column in (("table3", "question"), ("table4", "F1"), ("figure4", "EM")):
        assert (
            column
            in prepared("evaluate_estimator", f"experiment=re_rag/{name}", *frozen, "k=2").stdout
        )
        assert len(json.loads((tmp_path / f"reports/re_rag/{name}/tables.json").read_text())) == 1
    for name in ("table6", "figure2"):
        more = [*frozen, "grid.k=[1,2]"]
        prepared("sweep", f"experiment=re_rag/{name}", *more)
        prepared("report", f"experiment=re_rag/{name}", *more)
        assert (
            "## Beside the paper: RE-RAG"
            in (tmp_path / f"reports/re_rag/{name}/report.md").read_text()
        )
    for wrong, message in (
        ("score.splits=[test]", "Run `python -m flows.score` and this"),
        ("evaluate_estimator.dev=test", "is also the split on which thresholds are chosen"),
        ("evaluate_estimator.test=train", "or the estimator is trained (['train', 'dev'])"),
    ):
        failed = prepared("evaluate_estimator", *frozen, wrong, check=False)
        assert message in failed.stderr


@pytest.mark.slow
def test_the_proof_runs_from_nothing(run: Run, tmp_path: Path) -> None:
    """A smaller world through every stage: facts, retrieval as given, joint training, scores,
    marginalized answers.
    """
    words = [
        "experiment=re_rag/from_scratch", "facts.world.train=30", "facts.world.dev=4",
        "facts.world.test=6", "facts.clozes=64", "+facts.world.first_names=8",
        "+facts.world.last_names=8", "facts.world.values=4", "facts.world.contexts=4",
        "facts.size.d_model=32", "facts.size.d_ff=64", "facts.size.heads=2", "facts.size.layers=1",
        "joint.settings.epochs=1", "depth=4", "k=4", "joint.data.contexts=4",
    ]  # fmt: skip
    for stage in (
        "facts",
        "corpus",
        "index",
        "questions",
        "retrieve",
        "train_joint",
        "score",
        "sweep",
        "report",
    ):
        run(stage, *words, small=False)
    assert (
        "weighted by=estimator t5"
        in (tmp_path / "reports/re_rag/from_scratch/seed1/report.md").read_text()
    )
    again = run("train_joint", *words, small=False).stdout
    assert re.search(r"1 of 1", again)
    run("train_joint", *words, "joint=rag", small=False)
    same = [f"generator.{part}=${{joint.{part}}}" for part in ("settings", "data", "generator")]
    apart = run("sweep", *words, "joint@generator=rag", *same, "sweep.limit=3", small=False).stdout
    assert "Every cell was finished already" not in apart
    for joint, strategy in (("rag", "marginal"), ("fid", "fid")):
        more = [
            *words,
            f"joint={joint}",
            f"strategy={strategy}",
            f"reader={'fid' if joint == 'fid' else 'joint'}",
        ]
        run("train_joint", *more, small=False)
        run("sweep", *more, "grid=null", "sweep.limit=3", small=False)
