"""Every flow runs as a command, knows when it is done, and tells what it did."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from conftest import Run, environment, overrides
from mlflow import MlflowClient
from report_data import read_report_data

STAGES = [
    "acquire",
    "corpus",
    "index",
    "questions",
    "retrieve",
    "score",
    "train_reader",
    "closed_book",
    "sweep",
    "calls",
    "report",
]


@pytest.mark.slow
def test_the_road_from_text_to_report(run: Run, tmp_path: Path) -> None:
    """All stages in order, with a trained tiny reader and a grid."""
    grid = ["experiment=quick_start", "reader.tuned=true"]
    outputs = {stage: run(stage, *grid).stdout for stage in STAGES[1:]}
    for stage in ("sweep", "report"):
        table = [line for line in outputs[stage].splitlines() if line[:1] in "┏┃┡│└"]
        assert len(table) == 25 + 4, "a row fits on one line"
        assert max(map(len, table)) <= 100
        assert sum(" * " in line for line in table) == 1, "the best setting without gold labels"
    page = read_report_data(tmp_path / "reports/quick_start")
    assert len(page["tables"]) == 8
    for stage in ("sweep", "report"):
        assert page["story"]["headline"]["text"] in " ".join(outputs[stage].split())
    assert len(json.loads((tmp_path / "reports/quick_start/metrics.json").read_text())) == 25
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    runs = client.search_runs(
        [client.get_experiment_by_name("quick_start").experiment_id], max_results=100
    )  # type: ignore[union-attr]
    swept = [r for r in runs if r.data.tags["stage"] == "sweep"]
    assert len(swept) == 25
    assert {"strategy", "k", "gold"} <= swept[0].data.params.keys()
    fused = next(r for r in swept if r.data.params["strategy"] == "post_fusion")
    assert {"em", "em_low", "em_high", "unk", "nm", "tokens_in"} <= fused.data.metrics.keys()
    trained = next(r for r in runs if r.data.tags["stage"] == "train_reader")
    assert {"loss", "tokens_per_second", "memory_gb"} <= trained.data.metrics.keys()


def test_a_multirun_shares_one_driver(prepared: Run, tmp_path: Path) -> None:
    """Six jobs, one driver: Post-Fusion's passage calls are made once for all k, and six runs can
    be compared.
    """
    words = ["-m", "strategy=concatenation,post_fusion", "k=1,2,3"]
    plan = prepared("sweep", *words, "dry_run=true").stdout
    assert "no call was made" in plan
    assert not list((tmp_path / "data/predictions").glob("*"))
    output = prepared("sweep", *words).stdout
    # Of n questions: concatenation at k = 1, 2, 3 and Post-Fusion on 3 passages, the first of which
    # equals k = 1.
    calls, requests = 10 * (3 + 3 - 1), 10 * (3 + 1 + 2 + 3)
    assert f"{requests} calls requested: {calls} made" in output
    assert str(calls) in plan
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    runs = client.search_runs(
        [client.get_experiment_by_name("towns").experiment_id], "tags.stage = 'sweep'"
    )  # type: ignore[union-attr]
    assert sorted(
        (r.data.params["strategy"], r.data.params["k"], r.data.params["gold"]) for r in runs
    ) == [(s, k, "retrieved") for s in ("concatenation", "post_fusion") for k in ("1", "2", "3")]


def test_a_changed_placement_leaves_what_lies_before_alone(prepared: Run, tmp_path: Path) -> None:
    """Index, retrieval and the other cells keep their files; a new cell stands beside them."""
    prepared("sweep", "k=2")
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "data").rglob("*.parquet")}
    prepared("sweep", "k=2", "placement=gold_first")
    after = {p: p.stat().st_mtime_ns for p in (tmp_path / "data").rglob("*.parquet")}
    assert before.items() <= after.items()
    assert len({path.parent for path in after.keys() - before.keys()}) == 1
    prepared("retrieve", "placement=gold_last")
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "data").rglob("*.parquet")} == after


def test_cells_with_other_questions_keep_their_own(prepared: Run, tmp_path: Path) -> None:
    """Two splits in one sweep: each cell has its own rows, scored against its own answers; labels
    tell them apart.
    """
    words = [
        "-m",
        "sweep.split=dev,test",
        "sweep.closed_book_filter=false",
        "sweep.limit=null",
        "k=1",
        "strategy=concatenation",
    ]
    prepared("sweep", *words)
    rows = {len(predictions): predictions for predictions in _predictions(tmp_path).values()}
    assert sorted(rows) == [10, 14]
    assert not {row["question_id"] for row in rows[10]} & {row["question_id"] for row in rows[14]}
    prepared("report", *words)
    assert "split=dev" in (tmp_path / "reports/towns/report.md").read_text()


@pytest.mark.slow
def test_dense_and_hybrid_and_reranking(prepared: Run, tmp_path: Path) -> None:
    """The other retrievers stand beside BM25; the estimator's ranking can be swept."""
    for retriever in ("dense", "hybrid"):
        prepared("index", f"retriever={retriever}")
        printed = prepared("retrieve", f"retriever={retriever}").stdout
        assert "@5" in printed
        assert "@100" not in printed, "deeper than the rankings"
    prepared("score")
    prepared("sweep", "k=2", "rank_by=estimator")
    assert len(list((tmp_path / "data/retrieval").iterdir())) == 3


@pytest.mark.slow
def test_processes_share_finished_calls(prepared: Run) -> None:
    """With joblib each job is a process; the calls that two jobs need are made by one of them."""
    output = prepared(
        "sweep", "-m", "strategy=concatenation,post_fusion", "k=1", "runner=joblib"
    ).stdout
    calls = [
        int(line.split(" made")[0].rsplit(" ", 1)[1])
        for line in output.splitlines()
        if "calls requested" in line
    ]
    assert len(calls) == 2
    assert sum(calls) == 10


@pytest.mark.slow
def test_training_on_two_processes(prepared: Run, world: Path, tmp_path: Path) -> None:
    """`torchrun` on the CPU: one model, one MLflow run, no process fails."""
    words = ["reader.tuned=true", "training.settings.device=cpu"]
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc_per_node=2",
        "-m",
        "flows.train_reader",
    ]
    done = subprocess.run(
        [*command, *overrides(world), *words],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "tuned" in done.stdout
    assert len(list((tmp_path / "models/reader").glob("*/model.safetensors"))) == 1
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    runs = client.search_runs(
        [client.get_experiment_by_name("towns").experiment_id], "tags.stage = 'train_reader'"
    )  # type: ignore[union-attr]
    assert [run.info.status for run in runs] == ["FINISHED"]


@pytest.mark.slow
def test_a_killed_sweep_goes_on_and_ends_alike(prepared: Run, world: Path, tmp_path: Path) -> None:
    """SIGKILL at three moments, then the same command: predictions equal those of an undisturbed
    run, but for the time.

    Cells that were finished before a kill are kept; the others are not there by halves.
    """
    grid = ["grid.strategy=[concatenation,post_fusion,concat_pf]", "grid.placement=[retrieved]"]
    words = ["experiment=quick_start", "reader.engine.batch_size=1", *grid]
    prepared("sweep", *words, "paths.ledger=data/undisturbed.sqlite")
    whole = _predictions(tmp_path)
    for cell in (tmp_path / "data/predictions").iterdir():
        (cell / "predictions.parquet").unlink()
        (cell / "manifest.json").unlink()
    command = [sys.executable, "-m", "flows.sweep", *overrides(world), *words]
    kills = 0
    for wanted in (5, 20, 40):
        with subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            while process.poll() is None and _calls(tmp_path) < wanted:
                pass
            if process.poll() is None:
                process.kill()
                kills += 1
    assert kills == 3
    assert len(_predictions(tmp_path)) < len(whole)
    output = prepared("sweep", *words).stdout
    assert _predictions(tmp_path) == whole
    assert " 0 from the ledger" not in output


def _calls(folder: Path) -> int:
    import sqlite3

    path = folder / "data/ledger.sqlite"
    if not path.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5) as db:
            return int(db.execute("SELECT COUNT(*) FROM calls").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def _timeless(row: dict[str, Any]) -> dict[str, object]:
    return {**row, "usage": [{**part, "seconds": 0.0} for part in row["usage"]]}


def _predictions(folder: Path) -> dict[str, list[dict[str, object]]]:
    """Every cell's rows, without the reader's time, which no two runs share."""
    paths = (folder / "data/predictions").glob("*/predictions.parquet")
    return {p.parent.name: [_timeless(row) for row in pq.read_table(p).to_pylist()] for p in paths}


@pytest.mark.parametrize(
    ("stage", "words", "message"),
    [
        ("sweep", ["k=50"], "k=50 is larger than the stored rankings"),
        ("sweep", ["k=0"], "shows passages. Set k to 1 or more, or take strategy=closed_book"),
        ("sweep", ["kk=5"], "Did you mean 'k'"),
        ("sweep", ["k=15"], "larger than what was retrieved for any question"),
        ("sweep", ["closed_book.limit=5"], "Run `python -m flows.closed_book`"),
        ("sweep", ["retriever=dense"], "Run `python -m flows.retrieve`"),
        ("closed_book", ["reader.tuned=true"], "Run `python -m flows.train_reader`"),
        ("index", ["corpus.name=other"], "Run `python -m flows.corpus`"),
        (
            "train_joint",
            ["estimator=cross_encoder", "dry_run=true"],
            "flows.train_joint has no dry run",
        ),
    ],
)
def test_what_cannot_work_is_refused_at_once(
    prepared: Run, stage: str, words: list[str], message: str
) -> None:
    """One line by name, no traceback."""
    done = prepared(stage, *words, check=False)
    assert done.returncode != 0
    assert message in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_fid_files_without_scores_are_used_and_what_needs_scores_is_refused(
    run: Run, world: Path, tmp_path: Path
) -> None:
    """Rankings whose contexts have no score, as in FiD's released files, run through a sweep;
    weighting by scores does not.
    """
    contexts = [
        {"id": str(n), "title": "Emma", "text": f"Emma was written by {name}."}
        for n, name in enumerate("AB")
    ]
    (tmp_path / "test.json").write_text(
        json.dumps([{"question": "Who wrote Emma?", "answers": ["B"], "ctxs": contexts}])
    )
    words = [
        "corpus=fid_json", "corpus.parser.path=test.json", "dataset=fid_json",
        "dataset.parser.path=test.json", "retriever=provided",
        "answerable.retriever=${retriever.engine}", "depth=2", "k=2",
        "sweep.closed_book_filter=false", "strategy=post_fusion",
    ]  # fmt: skip
    words += [
        "reader=folder",
        "reader.name=tiny",
        f"reader.base={world}/lm",
        "reader.engine.dtype=float32",
    ]
    words += ["encoder=folder", f"encoder.model.path={world}/encoder"]
    for stage in ("corpus", "index", "questions"):
        run(stage, *words, small=False)
    assert "2 of 2 contexts" in run("retrieve", *words, small=False).stdout
    assert "post_fusion" in run("sweep", *words, small=False).stdout
    refused = run("sweep", *words, "weighting.by=retriever", small=False, check=False).stderr
    assert "Passage '0' (rank 1) has no retriever score." in refused
    refused = run("sweep", *words, "strategy=iter_retgen", small=False, check=False).stderr
    assert "retriever=provided finds rankings by questions" in refused


def test_bad_input_files_are_named(run: Run, world: Path, tmp_path: Path) -> None:
    """A malformed line and a duplicate id, with file and line or row; nothing is left behind."""
    broken = tmp_path / "broken.jsonl"
    broken.write_text((world / "corpus.jsonl").read_text() + "\n{oops\n")
    done = run("corpus", f"corpus.parser.path={broken}", check=False, small=False)
    assert done.returncode
    done = run("corpus", "corpus=beir", f"corpus.parser.path={broken}", check=False, small=False)
    assert "broken.jsonl, line 37" in done.stderr
    line = json.dumps({"_id": "1", "title": "t", "text": "x"})
    broken.write_text(f"{line}\n{line}\n")
    done = run("corpus", "corpus=beir", f"corpus.parser.path={broken}", check=False, small=False)
    assert "passage_id='1' is a duplicate" in done.stderr
    broken.write_text("\n")
    done = run("corpus", "corpus=beir", f"corpus.parser.path={broken}", check=False, small=False)
    assert "broken.jsonl contains no passage. Correct corpus.parser.path." in done.stderr
    assert not list((tmp_path / "data").rglob("manifest.json"))


@pytest.mark.parametrize("stage", [*STAGES, "compose", "demo", "replay"])
def test_help_is_useful(run: Run, stage: str) -> None:
    """What it does, and how it is called."""
    text = run(stage, "--help", small=False).stdout
    assert f"python -m flows.{stage}" in text
    assert stage in ("compose", "demo", "replay") or "post_fusion" in text


def test_importing_a_flow_is_cheap() -> None:
    """No flow module pulls in torch, transformers, MLflow or Prefect before it works."""
    heavy = "{'torch', 'transformers', 'mlflow', 'prefect', 'faiss', 'bm25s'}"
    code = (
        f"import sys, {', '.join(f'flows.{s}' for s in STAGES)}; print(sorted({heavy} & "
        "sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
