"""Find the questions that the reader answers without any passage, so that sweeps can leave them
out.

python -m flows.closed_book
python -m flows.closed_book reader=smollm2 closed_book.limit=null
python -m flows.closed_book reader=openai reader.base=gpt-4o-mini dry_run=true
# One reader's answers filter the questions of all sweeps
python -m flows.closed_book reader@closed_book.reader=openai
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from typing import Any

from flows.project.artifacts import Artifact, Project
from flows.project.cells import list_trainings_of, resolve_closed_book_artifact
from flows.project.checks import FILTER, check_ahead, check_answers
from flows.project.elsewhere import print_equivalent
from flows.project.engines import resolve_closed_book_spec
from flows.project.models import get_closed_book_reader
from flows.project.runs import build_dry_run_rows, collect_results
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.registry import Stage
from flows.stages.shard_calls import list_ledgers_to_merge, run_question_shard, use_finished_shards
from flows.stages.tracking import track
from flows.tools.summary import Summary
from winnow.artifacts import contracts, parquet
from winnow.artifacts.steps import write_models
from winnow.driver.jobs import Job
from winnow.metrics.answer import exact_match, f1
from winnow.records import Answer, Question, Role
from winnow.strategies.closed_book import ClosedBook
from winnow.sweeps.shards import Shard


def closed_book(jobs: Sequence[Settings]) -> Summary:
    """Ask the reader of each job, and count the questions that are kept."""
    projects = list(map(Project, jobs))
    use_finished_shards(jobs[0], "closed_book", list(map(resolve_closed_book_artifact, projects)))
    rows, folders = [], []
    for project in projects:
        artifact = resolve_closed_book_artifact(project)
        if not artifact.is_finished:
            check_ahead([project.settings])
            print_equivalent(artifact)
            _write_answers(project, artifact)
        is_kept = parquet.read(artifact.folder / "closed_book.parquet", contracts.CLOSED_BOOK)[
            "kept"
        ].to_pylist()
        counts = {
            "questions": len(is_kept),
            "answered": len(is_kept) - sum(is_kept),
            "kept": sum(is_kept),
        }
        rows.append({"closed book": artifact.folder, **counts})
        folders.append(artifact.folder)
    return Summary("Closed-book filter", rows, artifacts=folders)


def _run_shard(jobs: Sequence[Settings], shard: Shard) -> Summary:
    return run_question_shard(
        jobs, shard, "closed_book", resolve_closed_book_artifact, _read_questions, _ask
    )


def _write_answers(project: Project, artifact: Artifact) -> None:
    """Ask the reader every question without passages, and write its answers."""
    questions = _read_questions(project)
    models: Counter[tuple[Role, str]] = Counter()
    answers = _ask(project, questions, models)
    write_models(artifact.folder, models)
    rows = [build_closed_book_row(question, answers[n]) for n, question in enumerate(questions)]
    reader = get_closed_book_reader(project.settings).name
    with track(
        project, "closed_book", artifact, {"k": 0, "strategy": "closed_book", "reader": reader}
    ) as run:
        run.log_metrics(
            {
                "em": sum(row["em"] for row in rows) / len(rows),
                "kept": sum(row["kept"] for row in rows),
            }
        )
    artifact.finish(
        parquet.write(artifact.folder / "closed_book.parquet", contracts.CLOSED_BOOK, rows)
    )


def _ask(
    project: Project,
    questions: Sequence[Question],
    models: Counter[tuple[Role, str]] | None = None,
) -> dict[Hashable, str]:
    """Return the closed-book answer to each question by index, and count the replies per model."""
    specs = [resolve_closed_book_spec(project)]
    label = "asking without passages"
    results = collect_results(
        project.settings,
        specs,
        _build_jobs(project, questions),
        len(questions),
        label,
        models,
    )
    return {index: answer.text for index, answer in results.items()}


def build_closed_book_row(question: Question, answer: str) -> dict[str, Any]:
    """Build the row of a question; it is kept for sweeps if the answer is not an exact match."""
    em = exact_match(answer, question.answers)
    scores = {"em": em, "f1": f1(answer, question.answers)}
    return {"question_id": question.question_id, "answer": answer, **scores, "kept": em == 0.0}


def _read_questions(project: Project) -> Sequence[Question]:
    own = project.settings.closed_book
    questions = project.read_questions([own.split], own.limit)
    check_answers(
        [question.answers for question in questions], project.settings.dataset.name, FILTER
    )
    return questions


def _build_jobs(project: Project, questions: Sequence[Question]) -> Iterator[Job[Answer]]:
    strategy = ClosedBook(
        project.settings.prompt.build(), project.settings.closed_book.decoding.build()
    )
    return (Job(n, strategy.plan(question, ())) for n, question in enumerate(questions))


def _dry_run(jobs: Sequence[Settings]) -> Summary:
    """Estimate the calls of every reader; a row leaves out calls that an earlier one counted."""
    projects = list(map(Project, jobs))
    ledgers = list_ledgers_to_merge(jobs[0], list(map(resolve_closed_book_artifact, projects)))
    rows: list[dict[str, Any]] = []
    counted_keys: set[bytes] = set()
    for project in projects:
        build = partial(_build_jobs, project, _read_questions(project))
        specs = [resolve_closed_book_spec(project)]
        rows += build_dry_run_rows(project.settings, specs, build, counted_keys, ledgers)
    return Summary("Dry run: no call was made", rows)


STAGE = Stage(
    closed_book,
    version=5,
    resolve=lambda project: [resolve_closed_book_artifact(project)],
    reads=("questions", "train_reader", "train_joint"),
    needs=lambda settings: [
        "questions",
        *list_trainings_of([get_closed_book_reader(settings)], settings),
    ],
    settings=("closed_book",),
    run_shard=_run_shard,
    shards="calls",
    dry_run=_dry_run,
    seeds="each",
)
main = make_main(STAGE)
if __name__ == "__main__":
    main()
