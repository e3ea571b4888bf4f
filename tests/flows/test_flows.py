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

import winnow
from winnow.artifacts.tables import read_predictions

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


def test_a_metric_needs_no_new_prediction(prepared: Run, tmp_path: Path) -> None:
    """Another list of metrics, a breakdown and a judged metric: tables, metrics.json and the same
    MLflow run have them.
    """
    prepared("sweep", "k=2")
    before = {
        p: p.stat().st_mtime_ns for p in (tmp_path / "data/predictions").rglob("*") if p.is_file()
    }
    words = ["k=2", "metric=[em,f1,tokens,judged]", "breakdown=gold_rank"]
    output = prepared("sweep", *words).stdout
    assert "no call was made" in output
    prepared("report", *words)
    assert {
        p: p.stat().st_mtime_ns for p in (tmp_path / "data/predictions").rglob("*") if p.is_file()
    } == before
    page = (tmp_path / "reports/towns/report.md").read_text()
    assert "| EM | F1 | tokens | judged |" in page
    assert "EM by rank of the gold passage" in page
    (cell,) = json.loads((tmp_path / "reports/towns/metrics.json").read_text())
    assert "tokens" in cell
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    runs = client.search_runs(
        [client.get_experiment_by_name("towns").experiment_id], "tags.stage = 'sweep'"
    )  # type: ignore[union-attr]
    (run,) = runs
    assert {"em", "unk", "tokens"} <= run.data.metrics.keys()


def test_show_replays_a_question_without_a_model(
    prepared: Run, world: Path, tmp_path: Path
) -> None:
    """Contexts, each prompt and reply, votes and answer come from the ledger, though the weights
    are gone.
    """
    prepared("sweep", "strategy=post_fusion", "k=2")
    predictions = read_predictions(
        next((tmp_path / "data/predictions").glob("*/predictions.parquet"))
    )
    one = predictions[0]
    text = prepared("show", f"question={one.question_id}", "strategy=post_fusion", "k=2").stdout
    assert text.count("Round 1, request") == 2
    assert text.count("<reply>") == 2
    assert f"Answer      {one.answer}" in text
    assert one.trace[0] in text
    failed = prepared("show", "question=nobody", "strategy=post_fusion", "k=2", check=False).stderr
    assert "question='nobody' is not among the 10 questions" in failed
    missing = prepared(
        "show", f"question={one.question_id}", "strategy=post_fusion", "k=3", check=False
    ).stderr
    assert "The ledger lacks a call of round 1" in missing


def test_a_report_replays_all_cells_without_a_model(
    prepared: Run, world: Path, tmp_path: Path
) -> None:
    """One page with every answer, and prompts of as many questions as asked for; what is missing is
    named.
    """
    words = ("grid={strategy:[concatenation,post_fusion],k:[1,2]}",)
    prepared("sweep", *words)
    folder = tmp_path / "reports/towns"
    assert "Page: reports/towns/index.html" in prepared("report", *words).stdout
    page = read_report_data(folder)
    assert [cell["name"] for cell in page["cells"]] == [
        f"{strategy} k={k} retrieved"
        for strategy in ("concatenation", "post_fusion")
        for k in (1, 2)
    ]
    assert all(len(cell["questions"]) == 10 for cell in page["cells"])
    assert all(len(page["cases"][str(index)]) == 10 for index in range(4))
    assert not any(case["note"] for cases in page["cases"].values() for case in cases.values())
    case = page["cases"]["3"]["0"]
    assert len(case["contexts"]) == len(case["rounds"][0]) == 2
    assert case["tally"]["rule"] == "votes"
    assert "power.html" in prepared("power", *words, "power.sizes=[50,100]").stdout
    assert "there is nothing to show" in (tmp_path / "reports/towns/power.md").read_text(), (
        "this reader answers all alike"
    )
    frame = winnow.load(next((tmp_path / "data/predictions").glob("post_fusion-*")))
    assert [page["questions"][index][1] for index in page["cells"][3]["questions"]] == list(
        frame["question"]
    )
    prepared("report", *words, "report.questions=3")
    few = read_report_data(folder)
    assert [len(cases) for cases in few["cases"].values()] == [3] * 4
    assert any("contexts and prompts of only 3 of 10 questions" in note for note in few["notes"])
    prepared("report", *words, "report.questions=0")
    assert read_report_data(folder)["cases"] == {}
    (tmp_path / "data/ledger.sqlite").unlink()
    prepared("report", *words)
    without = read_report_data(folder)
    assert "The calls of 40 of 40 answers cannot be shown; each says why." in without["notes"]
    missing = prepared("report", "strategy=post_fusion", "k=3", check=False).stderr
    assert "python -m flows.sweep" in missing


def test_dprs_filter_is_a_setting_and_counts_stand_beside_the_papers(
    run: Run, world: Path, tmp_path: Path
) -> None:
    """Files of FiD's form, one per split: by default unanswerable training questions are left out,
    with [] none is.
    """
    lines = [json.loads(line) for line in (world / "questions.jsonl").read_text().splitlines()]
    (tmp_path / "nq").mkdir()
    for split, part in (("train", lines[:30]), ("dev", lines[30:33]), ("test", lines[33:])):
        rows = [
            {
                "id": f"{split}-{n}",
                "question": row["question"],
                "answers": row["answer"],
                "ctxs": [{"id": "0", "text": "t"}],
            }
            for n, row in enumerate(part)
        ]
        (tmp_path / "nq" / f"{split}.json").write_text(json.dumps(rows))
    words = [
        "dataset=fid_json", "dataset.name=nq", f"dataset.parser.path={tmp_path}/nq",
        "dataset.split.all=''", "dataset.split.given=true", "report.paper={name:re_rag,dataset:NQ}",
    ]  # fmt: skip
    small = ["corpus=beir", "corpus.name=towns", f"corpus.parser.path={world}/corpus.jsonl"]
    for stage in ("corpus", "index"):
        run(stage, *small, "encoder=folder", f"encoder.model.path={world}/encoder", small=False)
    filtered = run("questions", *small, *words, small=False).stdout
    kept = run("questions", *small, *words, "answerable.required=[]", small=False).stdout
    assert "paper (not verified here)" in filtered
    counts = [
        {
            cells[1]: (cells[2], cells[4])
            for line in text.splitlines()
            if len(cells := [c.strip() for c in line.split("│")[1:-1]]) == 5
        }
        for text in (filtered, kept)
    ]
    assert counts[0] == {"train": ("24", "79168"), "dev": ("3", "8757"), "test": ("3", "3610")}
    assert counts[1] == {"train": ("30", "79168"), "dev": ("3", "8757"), "test": ("3", "3610")}
