"""Find out which questions the reader answers without any passage; sweeps continue with the others.

python -m flows.closed_book
python -m flows.closed_book reader=smollm2 closed_book.limit=null
python -m flows.closed_book reader=openai reader.base=gpt-4o-mini dry_run=true
"""

from collections.abc import Iterator, Sequence
from typing import Any

from omegaconf import DictConfig

from flows._artifacts import Artifact, Project
from flows._build import build
from flows._cells import closed_book_artifact
from flows._elsewhere import announce
from flows._engines import drive, dry_run_rows, engine_spec, open_engines, open_ledger
from flows._entry import entry
from flows._summary import Summary
from flows._track import track
from winnow.artifacts import contracts, parquet
from winnow.artifacts.tables import read_questions
from winnow.driver import Job
from winnow.metrics.answer import exact_match, f1_score
from winnow.records import Answer, Question
from winnow.strategies.closed_book import ClosedBook


def closed_book(configs: Sequence[DictConfig]) -> Summary:
    """Ask the reader of each job, and count which questions are kept."""
    if configs[0].dry_run:
        rows = [row for cfg in configs for row in _dry_run(Project(cfg))]
        return Summary("Dry run: no call was made", rows)
    rows = []
    for project in map(Project, configs):
        artifact = closed_book_artifact(project)
        if not artifact.done:
            announce(artifact)
            _write(project, artifact)
        kept = parquet.read(artifact.folder / "closed_book.parquet", contracts.CLOSED_BOOK)["kept"].to_pylist()
        counts = {"questions": len(kept), "answered": len(kept) - sum(kept), "kept": sum(kept)}
        rows.append({"closed book": artifact.folder, **counts})
    return Summary("Closed-book filter", rows)


def _write(project: Project, artifact: Artifact) -> None:
    questions = _questions(project)
    engines = open_engines([engine_spec(project, "reader")])
    with open_ledger(project.cfg) as ledger:
        outcomes = drive(engines, ledger, _jobs(project, questions), len(questions), "asking without passages")
        answers = {outcome.tag: outcome.result.text for outcome in outcomes}
    rows = [closed_book_row(question, answers[n]) for n, question in enumerate(questions)]
    with track(project, "closed_book", artifact, {"k": 0, "strategy": "closed_book"}) as run:
        run.metrics({"em": sum(row["em"] for row in rows) / len(rows), "kept": sum(row["kept"] for row in rows)})
    artifact.finish(parquet.write(artifact.folder / "closed_book.parquet", contracts.CLOSED_BOOK, rows))


def closed_book_row(question: Question, answer: str) -> dict[str, Any]:
    """Return the row of a question; `kept` are those without an exact match, with which studies continue."""
    em = exact_match(answer, question.answers)
    score = f1_score(answer, question.answers)
    return {"question_id": question.question_id, "answer": answer, "em": em, "f1": score, "kept": em == 0.0}


def _questions(project: Project) -> Sequence[Question]:
    settings = project.cfg.closed_book
    return read_questions(project.questions_file, [settings.split])[: settings.limit]


def _jobs(project: Project, questions: Sequence[Question]) -> Iterator[Job[Answer]]:
    strategy = ClosedBook(build(project.cfg.prompt), build(project.cfg.closed_book.decoding))
    return (Job(n, strategy.plan(question, ())) for n, question in enumerate(questions))


def _dry_run(project: Project) -> list[dict[str, Any]]:
    questions = _questions(project)
    return dry_run_rows(project.cfg, [engine_spec(project, "reader")], lambda: _jobs(project, questions))


main = entry(closed_book, dry_run=True, seeds="each")
if __name__ == "__main__":
    main()
