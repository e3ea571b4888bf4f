"""Citations through the flows, on the small world: mixtures, a reader taught and rewarded, reports,
and RAGE's files.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Run, environment, overrides

from winnow.artifacts.tables import read_predictions
from winnow.formats.rage import read_maps
from winnow.testing import make_tiny_t5

SETTINGS = [
    "retriever=mixture_small", "prompt=rage_short", "strategy=cite_short", "k=3",
    "answerable.required=[train,dev,test]", "sweep.closed_book_filter=false",
    "decoding.max_new_tokens=6", "reader.tuned=true",
    "metric=[citation_f1,citation_f1_paper,citation_f1_strict,citation_precision,cited_irrelevant,cited_seemingly,uncited,words]",
    "breakdown=relevant_position",
]  # fmt: skip
SFT = ["training.mix.examples=6", "training.settings.precision=float32"]


def words(world: Path, *more: str) -> list[str]:
    """The settings of the small world, without those of another training."""
    kept = [word for word in overrides(world) if not word.startswith("training.")]
    return [*kept, *SETTINGS, *more]


@pytest.mark.slow
def test_readers_are_scored_taught_and_rewarded(run: Run, world: Path, tmp_path: Path) -> None:
    """From the corpus to the report, with the reader as it is, taught and rewarded; the second run
    does nothing.
    """
    for stage in ("corpus", "index", "questions", "retrieve"):
        run(stage, *words(world, "training=cite", *SFT), small=False)
    rewarded = [
        "training=cite_sft_rewarded", "training.start.mix.examples=6",
        "training.start.settings.precision=float32", "training.mix.examples=4",
        "training.settings.batch_questions=2", "training.settings.precision=float32",
        "method.lora_rank=2", "training.evaluation.limit=2", "training.start.evaluation.limit=2",
    ]  # fmt: skip
    trained = run("train_reader", *words(world, *rewarded), small=False).stdout
    assert len(re.findall(r"\bbase\b", trained)) == 2
    assert "prompts" in trained
    assert "finished already" in run("train_reader", *words(world, *rewarded), small=False).stdout
    weights = r"Weights of training=cite_sft_rewarded:\s+(\S+)"
    (found,) = re.findall(weights, trained)
    assert list((tmp_path / found).glob("*.safetensors"))
    grpo = run(
        "train_reader", *words(world, *rewarded, "method=grpo", "method.replies=2"), small=False
    ).stdout
    assert "finished already" in grpo
    assert "prompts" in grpo
    grid = "grid={strategy:[cite_short,cite_randomly],training:[none,cite]}"
    cells = [word for word in words(world, grid) if not word.startswith("strategy=")]
    run("train_reader", *words(world, "training=cite"), small=False)
    first = run("sweep", *cells, small=False).stdout
    assert "cite_randomly" in first
    assert "Every cell was finished already" in run("sweep", *cells, small=False).stdout
    run("report", *cells, small=False)
    report = (tmp_path / "reports/towns/report.md").read_text()
    for title in (
        "citation F1 (rage)",
        "citation F1 (paper)",
        "citation F1 (strict)",
        "cited irrelevant",
        "training=none",
        "of 3",
    ):
        assert title in report
    folders = [path.parent for path in (tmp_path / "data/predictions").rglob("predictions.parquet")]
    asked = [
        *(word for word in cells if not word.startswith("metric=")),
        "metric=[citation_f1,citation_support]",
    ]
    refused = run("report", *asked, small=False, check=False)
    assert "Choose estimator@nli=nli" in refused.stderr
    path = make_tiny_t5(
        tmp_path / "nli", ["premise: hypothesis: 1 0 the town has a mayor and a river"]
    )
    tiny = [
        "estimator@nli=nli_t5",
        f"nli.base={path}",
        "nli.engine.dtype=float32",
        "nli.engine.label_words=[the,town]",
    ]
    run("report", *asked, *tiny, small=False)
    assert "citation recall (ALCE)" in (tmp_path / "reports/towns/report.md").read_text()
    names = sorted(folder.name.partition("-")[0] for folder in folders)
    assert names == ["cite_randomly", "cite_short", "cite_short"]
    shown = {
        tuple(
            (p.question_id, p.passage_ids) for p in read_predictions(folder / "predictions.parquet")
        )
        for folder in folders
    }
    assert len(shown) == 1


@pytest.mark.slow
def test_maps_are_exported_and_read_back(run: Run, world: Path, tmp_path: Path) -> None:
    """The same documents of each kind, from RAGE's files in place of the encoder; another retriever
    has no maps.
    """
    for stage in ("corpus", "index", "questions", "retrieve"):
        run(stage, *words(world, "reader.tuned=false"), small=False)
    run("export_maps", *words(world, "reader.tuned=false", "export_maps.out=maps"), small=False)
    maps = read_maps(tmp_path / "maps")
    assert maps
    assert all(one.relevant and one.irrelevant and one.seemingly_relevant for one in maps.values())
    ours = ("corpus", "dataset", "+dataset", "retriever", "k=", "sweep.limit", "answerable")
    published = [word for word in words(world, "reader.tuned=false") if not word.startswith(ours)]
    published += [
        "corpus=rage",
        f"corpus.parser.path={tmp_path}/maps",
        "dataset=rage",
        "retriever=rage",
    ]
    published += ["k=7", "sweep.limit=4", "answerable.required=[]"]
    for stage in ("corpus", "index", "questions", "retrieve", "sweep"):
        run(stage, *published, small=False)
    (folder,) = [
        path.parent for path in (tmp_path / "data/predictions").rglob("predictions.parquet")
    ]
    for prediction in read_predictions(folder / "predictions.parquet"):
        one = maps[prediction.question_id]
        documents = {*one.relevant, *one.irrelevant, *one.seemingly_relevant}
        assert set(prediction.passage_ids) <= documents
        assert set(prediction.passage_ids) & set(one.relevant)
    refused = run(
        "export_maps",
        *words(world, "retriever=bm25", "reader.tuned=false"),
        small=False,
        check=False,
    )
    assert "Choose retriever=mixture" in refused.stderr


@pytest.mark.slow
def test_a_training_after_another_runs_on_two_processes(
    run: Run, world: Path, tmp_path: Path
) -> None:
    """Both processes begin it with the reader of the first one, which one of them evaluates."""
    for stage in ("corpus", "index", "questions", "retrieve"):
        run(stage, *words(world, "training=cite", *SFT), small=False)
    chained = words(
        world,
        "training=cite_sft_rewarded", "training.start.mix.examples=6",
        "training.start.settings.precision=float32", "training.mix.examples=4",
        "training.settings.batch_questions=2", "training.settings.accumulation=2",
        "training.settings.precision=float32",
        "method.lora_rank=2", "training.evaluation.limit=2", "training.start.evaluation.limit=2",
    )  # fmt: skip
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2"]
    done = subprocess.run(
        [*launch, "-m", "flows.train_reader", *chained],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(re.findall(r"\bbase\b", done.stdout)) == 2
