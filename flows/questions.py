"""Convert questions from a public format into the questions artifact, assign splits, and label
answerable questions.

A question is answerable if one of BM25's top 20 passages contains an answer of at least 3
characters, as in DPR's filter. The training split keeps only answerable questions, or all with
answerable=none. Dev and test keep all questions. Where no split of the questions is filtered,
nothing is searched and there are no labels.

    python -m flows.questions
    python -m flows.questions dataset=nq_open dataset.parser.path=/data/NQ-open.dev.jsonl
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from flows.project.artifacts import Project
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.registry import Stage
from flows.tools.summary import Summary, progress
from winnow.artifacts import contracts, parquet
from winnow.artifacts.tables import build_question_rows, read_passages
from winnow.errors import InputError
from winnow.metrics.intervals import UNDEFINED
from winnow.records import Question
from winnow.reports.reported import load_reported_question_counts
from winnow.text.containment import has_answers


def questions(jobs: Sequence[Settings]) -> Summary:
    """Write the questions of each job."""
    rows, projects = [], [Project(settings) for settings in jobs]
    for project in projects:
        if not project.questions.is_finished:
            _write_questions(project)
        rows += _build_rows(
            project.questions.folder / "questions.parquet", _read_reported_counts(project.settings)
        )
    return Summary("Questions", rows, artifacts=[project.questions.folder for project in projects])


def _write_questions(project: Project) -> None:
    """Parse, split and label the questions, and write those that are kept."""
    settings, artifact = project.settings.dataset, project.questions
    parsed_questions = list(settings.parser.build())
    if not parsed_questions:
        raise InputError(
            f"dataset={settings.name}: {settings.parser.get('path')} contains no question. Correct "
            "dataset.parser.path."
        )
    selection: Iterable[Question] = (
        replace(question, answerable=None)
        for question in settings.split.build().assign(parsed_questions)
    )
    if project.needs_labels:
        required = project.settings.answerable.required
        labeled_questions = _label_answerable(project, list(selection))
        selection = (
            question
            for question in labeled_questions
            if question.answerable or question.split not in required
        )
    artifact.finish(
        parquet.write(
            artifact.folder / "questions.parquet",
            contracts.QUESTIONS,
            build_question_rows(selection),
        )
    )


def _label_answerable(project: Project, parsed: Sequence[Question]) -> Iterator[Question]:
    """Yield each question with `answerable` set: whether the labeling retriever finds an answer."""
    settings = project.settings.answerable
    searcher = settings.retriever.build().open(project.resolve_index(settings.retriever).require())
    rankings = searcher.search(parsed, settings.depth)
    ids = {hit.passage_id for hits in rankings for hit in hits}
    corpus = project.corpus.require() / "passages.parquet"
    texts = {
        passage.passage_id: passage.text
        for passage in read_passages(corpus)
        if passage.passage_id in ids
    }
    with progress("labeling questions", len(parsed)) as advance:
        for question, hits in zip(parsed, rankings, strict=True):
            advance()
            answers = [
                answer for answer in question.answers if len(answer) >= settings.min_answer_chars
            ]
            contains_answer = (
                has_answers([texts[hit.passage_id] for hit in hits], answers) if answers else []
            )
            yield replace(question, answerable=any(contains_answer))


def _read_reported_counts(settings: Settings) -> Mapping[str, int]:
    """Return the number of questions per split that the paper reports, or {} without a paper."""
    paper = settings.report.paper
    return load_reported_question_counts(paper.name, paper.dataset) if paper else {}


def _build_rows(path: Path, reported: Mapping[str, int]) -> list[dict[str, object]]:
    """Return a row per split with the numbers of all, answerable and reported questions."""
    table = parquet.read(path, contracts.QUESTIONS, columns=["split", "answerable"]).to_pylist()
    total = Counter(row["split"] for row in table)
    answerable = Counter(row["split"] for row in table if row["answerable"])
    unlabeled = {row["split"] for row in table if row["answerable"] is None}
    rows: list[dict[str, object]] = [
        {
            "questions": path.parent,
            "split": split,
            "number": total[split],
            "answerable": UNDEFINED if split in unlabeled else answerable[split],
        }
        for split in total
    ]
    if not reported:
        return rows
    return [
        row | {"paper (not verified here)": reported.get(str(row["split"]), UNDEFINED)}
        for row in rows
    ]


STAGE = Stage(
    questions,
    version=2,
    resolve=lambda project: [project.questions],
    reads=("acquire", "index"),
    needs=lambda settings: ["acquire", *(["index"] if Project(settings).needs_labels else [])],
    settings=("dataset", "answerable"),
)
main = make_main(STAGE)
if __name__ == "__main__":
    main()
