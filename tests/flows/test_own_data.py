"""Questions of one's own, with gold passages, metadata and splits."""

import json
from pathlib import Path

from conftest import Run, overrides

import winnow
from winnow.artifacts.tables import read_predictions


def test_annotated_gold_passages_are_placed(world: Path, tmp_path: Path, run: Run) -> None:
    """The passage that a row names stands first, though another holds the answer too; results are
    grouped by a column.
    """
    rows = [json.loads(line) for line in (world / "corpus.jsonl").read_text().splitlines()]
    mayors = [row for row in rows if "mayor" in row["text"]]
    lines = [
        {
            "q": f"Who is the mayor of {row['title']}?",
            "a": row["title"],
            "docs": [row["_id"]],
            "kind": number % 2,
            "part": part,
        }
        for number, row in enumerate(mayors)
        for part in ["dev" if number < 4 else "test"]
    ]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, lines)))
    kept = [word for word in overrides(world) if not word.startswith(("dataset", "+dataset"))]
    words = [
        *kept, "dataset=jsonl", "dataset.name=mine", f"dataset.parser.path={tmp_path}/q.jsonl",
        "dataset.parser.question=q", "dataset.parser.answers=a", "dataset.parser.gold=docs",
        "dataset.parser.meta=[kind]", "dataset.parser.split=part", "dataset.split.all=''",
        "+dataset.split.given=true", "sweep.closed_book_filter=false", "placement=gold_first",
        "k=2", "strategy=concatenation", "breakdown=meta", "breakdown.field=kind", "grid=null",
    ]  # fmt: skip
    run("pipeline", *words, small=False)
    (file,) = (tmp_path / "data" / "predictions").glob("*/predictions.parquet")
    predictions = read_predictions(file)
    assert len(predictions) == 8
    gold = {str(number): row["_id"] for number, row in enumerate(mayors, start=1)}
    assert {row.provenance for row in predictions} == {"annotated"}
    assert all(
        row.passage_ids[0] == gold[row.question_id] and row.gold_position == 1
        for row in predictions
    )
    assert "EM by question type" in next((tmp_path / "reports").rglob("report.md")).read_text()
    cells, questions = winnow.load_report(next((tmp_path / "reports").rglob("report.md")).parent)
    assert len(cells) == 1
    assert len(questions) == 8
    assert cells["cell"][0] == questions["cell"][0]
    assert cells["em"][0] == questions["em"].mean()
    assert cells["em_low"][0] <= cells["em"][0] <= cells["em_high"][0]
    assert set(questions["group"]) == {"0", "1"}


def test_answers_of_another_system_are_compared(prepared: Run, tmp_path: Path) -> None:
    """Those of a cell that went out and came back have the same values; a system that is right is
    above it.
    """
    words = ["sweep.closed_book_filter=false", "k=2"]
    prepared("sweep", *words, "strategy=concatenation")
    frame = winnow.load(next((tmp_path / "data/predictions").glob("concatenation-*")))
    frame[["question_id", "answer", "reply"]].to_json(
        tmp_path / "same.jsonl", orient="records", lines=True
    )
    frame["answer"] = [answers[0] for answers in frame["answers"]]
    frame[["question_id", "answer"]].to_json(tmp_path / "right.jsonl", orient="records", lines=True)
    for name in ("same", "right"):
        mine = [
            "strategy=stored",
            f"strategy.name={name}",
            f"strategy.plan.path={tmp_path}/{name}.jsonl",
        ]
        prepared("sweep", *words, *mine)
        prepared("report", *words, *mine, f"report.out=reports/{name}")
    prepared("report", *words, "strategy=concatenation", "report.out=reports/first")
    first, same, right = (
        winnow.load_report(tmp_path / "reports" / name).cells for name in ("first", "same", "right")
    )
    assert [same[name][0] for name in ("em", "unk", "f1")] == [
        first[name][0] for name in ("em", "unk", "f1")
    ]
    assert right["em"][0] == 1.0


def test_questions_that_bring_their_passages(world: Path, tmp_path: Path, run: Run) -> None:
    """HotpotQA's form: all gold passages stand last, and the file is corpus, questions and ranking
    alike.
    """
    texts = [
        (row["title"], row["text"])
        for line in (world / "corpus.jsonl").read_text().splitlines()
        for row in [json.loads(line)]
    ]
    rows: list[dict[str, object]] = []
    for number, (title, text) in enumerate(texts[:6]):
        others = [[other, [body]] for other, body in texts[number + 1 :: 7][:4]]
        rows.append(
            {
                "_id": f"h{number}",
                "question": f"Who is the mayor of {title}?",
                "answer": title,
                "type": "bridge",
            }
        )
        rows[-1] |= {
            "supporting_facts": [[title, 0]],
            "context": [[title, [text]], *others, [title, [text]]],
        }
    (tmp_path / "hotpot.json").write_text(json.dumps(rows))
    kept = [
        word for word in overrides(world) if not word.startswith(("dataset", "+dataset", "corpus"))
    ]
    words = [
        *kept, "dataset=hotpotqa", f"dataset.parser.path={tmp_path}/hotpot.json", "corpus=fid_json",
        "corpus.parser.path=${dataset.parser.path}", "retriever=provided",
        "placement=gold_all_last", "k=4", "grid=null", "sweep.closed_book_filter=false",
        "strategy=concatenation",
    ]  # fmt: skip
    run("pipeline", *words, small=False)
    (file,) = (tmp_path / "data" / "predictions").glob("*/predictions.parquet")
    predictions = read_predictions(file)
    assert len(predictions) == 6
    for row in predictions:
        title = texts[int(row.question_id[1:])][0]
        assert row.provenance == "annotated"
        assert row.passage_ids[-1].startswith(f"{title}#")
