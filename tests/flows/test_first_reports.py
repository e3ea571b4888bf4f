"""Reports of the small world: what they read, and that no model is loaded."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from conftest import Run
from mlflow import MlflowClient
from report_data import read_report_data

import winnow
from winnow.artifacts.tables import read_predictions


def test_a_metric_needs_no_new_prediction(prepared: Run, tmp_path: Path) -> None:
    """Another list of metrics, a breakdown and a judged metric: tables, metrics.json and the same
    MLflow run have them.
    """
    prepared("sweep", "k=2")
    before = {
        p: p.stat().st_mtime_ns for p in (tmp_path / "data/predictions").rglob("*") if p.is_file()
    }
    words = ["k=2", "metric=[em,f1,tokens,judged]", "breakdown=gold_rank"]
    planned = prepared("sweep", *words, "dry_run=true", COLUMNS="300").stdout
    (row,) = (line for line in planned.splitlines() if " judge " in line)
    number = int(row.split("│")[7])
    assert number > 0
    other = prepared("sweep", "-m", "k=2,3", *words[1:], "dry_run=true").stdout
    assert "The calls of judged about the answers of 1 unfinished cells are not counted" in other
    output = prepared("sweep", *words).stdout
    assert "no call was made" not in output
    assert re.search(rf"Metrics by a model: \d+ calls requested: {number} made", output)
    assert "no call was made" in prepared("sweep", *words).stdout
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
    (file,) = (tmp_path / "data/predictions").glob("*/predictions.parquet")
    table = pq.read_table(file)
    answers = pa.array(["another"] * len(table), table.schema.field("answer").type)
    index = table.schema.get_field_index("answer")
    pq.write_table(table.set_column(index, table.schema.field("answer"), answers), file)
    words = (f"question={one.question_id}", "strategy=post_fusion", "k=2")
    changed = prepared("show", *words).stdout
    assert f"now answers {one.answer!r}, and 'another' is stored" in changed
    assert changed.rstrip().splitlines()[-2].count("another") == 1, "the table has the stored one"


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


def test_show_counts_the_replies_of_the_replay(prepared: Run, tmp_path: Path) -> None:
    """The tiny model ends no reply, so that all are cut, as in the report."""
    prepared("sweep", "strategy=post_fusion", "k=2")
    (file,) = (tmp_path / "data/predictions").glob("*/predictions.parquet")
    one = read_predictions(file)[0]
    assert [(usage.replies, usage.cut) for usage in one.usage] == [(2, 2)]
    words = (f"question={one.question_id}", "strategy=post_fusion", "k=2", "metric=[cut]")
    assert "\u2502 1.00 \u2502" in prepared("show", *words).stdout
