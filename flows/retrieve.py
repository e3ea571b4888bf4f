"""Retrieve the top passages of every question, and record which of them contain an answer.

Rankings are retrieved once at `depth`, by default 100, and serve every smaller k.

python -m flows.retrieve
python -m flows.retrieve retriever=dense
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from flows.project.artifacts import Artifact, Project
from flows.project.searched import list_retrievers
from flows.project.shards import hold
from flows.settings.components import Component
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.hits import (
    hold_parts,
    list_parts,
    read_found_questions,
    read_unranked_questions,
    write_parts,
    write_rankings,
)
from flows.stages.registry import Stage
from flows.stages.tracking import track
from flows.tools.summary import Summary, format_intervals, progress
from winnow import protocols
from winnow.artifacts.rankings import Rankings, read_rankings, read_unranked
from winnow.artifacts.tables import read_questions
from winnow.formats.scripts import count_unspaced
from winnow.metrics.intervals import Interval, build_undefined_interval, compute_mean_interval
from winnow.metrics.retrieval import RANK_MEASURES, compute_ranking_measures, top_k_accuracy
from winnow.records import Question
from winnow.sweeps.shards import Shard

_MIN_COMPARED, _COMPARED_DEPTH = 20, 20
"""Number of questions, and of passages of each, from which two measures are compared."""
_CONTRADICTION_HIGH, _CONTRADICTION_LOW = 0.5, 0.05
"""Shares of questions of which one measure must be above and the other below to contradict."""
DEPTHS = (1, 5, 10, 20, 50, 100)
"""Numbers of passages at which the summary shows top-k accuracy and recall."""


def retrieve(jobs: Sequence[Settings]) -> Summary:
    """Retrieve for each job with its retriever and those of labels and trainings, and evaluate the
    rankings.
    """
    rows, notes, folders = [], [], []
    for settings in jobs:
        project = Project(settings)
        questions = read_questions(project.questions_file)
        for retriever in list_retrievers(project):
            artifact = project.resolve_retrieval(retriever)
            if artifact.folder in folders:
                continue
            is_new = _write_missing(project, retriever, artifact, questions)
            rankings = read_rankings(artifact.folder, questions)
            quality = [
                {"retrieval": artifact.folder.name, **row}
                for row in compute_quality_rows(rankings, questions, settings.depth)
            ]
            if is_new:
                with track(project, "retrieve", artifact, {"k": settings.depth}) as run:
                    run.log_metrics(select_logged_values(quality))
            folders.append(artifact.folder)
            rows += [format_intervals(row) for row in quality]
            notes += _note_missing_scores(rankings, artifact.folder.name)
            notes += _note_unranked(artifact.folder, questions)
            notes += note_contradictions(rankings, questions)
            notes += note_unspaced_answers(questions)
            if settings.depth < DEPTHS[-1]:
                notes.append(
                    f"Rankings have at most depth={settings.depth} passages, to which nDCG@10, MRR "
                    "and MAP refer."
                )
    return Summary("Retrieval, % [95 % interval]", rows, "\n".join(dict.fromkeys(notes)), folders)


def _write_missing(
    project: Project,
    retriever: Component[protocols.Retriever],
    artifact: Artifact,
    questions: Sequence[Question],
) -> bool:
    """Write the rankings unless they are finished, and return whether this process wrote them.

    Another process that writes them is waited for.
    """
    if artifact.is_finished:
        return False
    with hold_parts(artifact.folder / "shards"):
        is_missing = not artifact.is_finished
        if is_missing:
            parts = _retrieve(project, retriever, artifact, questions, "rest")
            write_rankings(project, artifact, parts, questions)
    return is_missing


def _run_shard(jobs: Sequence[Settings], shard: Shard) -> Summary:
    """Retrieve for the shard's questions, and write their hits next to the other shards' hits."""
    rows: dict[Path, dict[str, Any]] = {}
    with hold(jobs[0], shard, "retrieve"):
        for project in map(Project, jobs):
            questions = [
                q for q in read_questions(project.questions_file) if shard.contains(q.question_id)
            ]
            for retriever in list_retrievers(project):
                artifact = project.resolve_retrieval(retriever)
                if artifact.folder not in rows:
                    if not artifact.is_finished:
                        _retrieve(project, retriever, artifact, questions, shard.name)
                    rows[artifact.folder] = {
                        "retrieval": artifact.folder,
                        "questions": len(questions),
                    }
    return Summary(f"Shard {shard.number} of {shard.count} of retrieve", list(rows.values()))


def _retrieve(
    project: Project,
    retriever: Component[protocols.Retriever],
    artifact: Artifact,
    questions: Sequence[Question],
    name: str,
) -> list[Path]:
    """Retrieve for the questions that are in no part yet, and return all parts."""
    folder = artifact.folder / "shards"
    parts = list_parts(folder)
    finished_ids = read_found_questions(parts) | read_unranked_questions(parts)
    missing_questions = [
        question for question in questions if question.question_id not in finished_ids
    ]
    if missing_questions:
        searcher = retriever.build().open(project.resolve_index(retriever).require())
        with progress("retrieving", len(questions)) as advance:
            advance(len(questions) - len(missing_questions))
            for count in write_parts(
                folder, name, searcher, missing_questions, project.settings.depth
            ):
                advance(count)
    return list_parts(folder)


def note_unspaced_answers(questions: Sequence[Question]) -> list[str]:
    """Return a note if answers are in scripts without word spaces, which a word search misses."""
    answers = [answer for question in questions for answer in question.answers]
    unspaced = count_unspaced(answers)
    if not unspaced or unspaced * 20 < len(answers):
        return []
    return [
        f"{unspaced} of {len(answers)} accepted answers are in scripts without spaces between "
        "words (Chinese, Thai). Whether a passage contains an answer is decided by words, as in "
        "DPR, which does not find one inside a sentence: top-k accuracy, has_answer and what "
        "rests on it mean little. docs/rules.md says what holds for which language."
    ]


def note_contradictions(rankings: Rankings, questions: Sequence[Question]) -> list[str]:
    """Return a note where two measures differ so much that ids or answers are probably misread.

    Annotated gold passages and accepted answers say the same: where most questions have an answer
    in their best passages and hardly one has a gold passage there, or the reverse, the ids or the
    answers of the files do not belong together.
    """
    both = [question for question in questions if question.gold_passage_ids and question.answers]
    if len(both) < _MIN_COMPARED:
        return []
    tops = [rankings.hits[question.question_id][:_COMPARED_DEPTH] for question in both]
    with_answer = sum(any(hit.has_answer for hit in top) for top in tops)
    pairs = zip(both, tops, strict=True)
    with_gold = sum(
        not {hit.passage_id for hit in top}.isdisjoint(question.gold_passage_ids)
        for question, top in pairs
    )
    low, high = sorted([with_answer / len(both), with_gold / len(both)])
    if high < _CONTRADICTION_HIGH or low > _CONTRADICTION_LOW:
        return []
    return [
        f"Of {len(both)} questions with annotated gold passages, {with_answer} have an answer "
        f"among their first {_COMPARED_DEPTH} passages and {with_gold} a gold passage. Two "
        "measures of one thing should not differ so: check that the ids of dataset.parser.gold "
        "are those of the corpus (corpus.parser.id), and that answers are read as meant."
    ]


def _note_unranked(folder: Path, questions: Sequence[Question]) -> list[str]:
    """Return a note if the retriever found no passage for some questions."""
    unranked = read_unranked(folder)
    if not unranked:
        return []
    first = next(question for question in questions if question.question_id in unranked)
    return [
        f"{folder.name}: no passage was found for {len(unranked)} of {len(questions)} questions, "
        f"such as {first.question_id!r} ({first.text[:80]!r}), which count as not found and are "
        "answered without passages."
    ]


def _note_missing_scores(rankings: Rankings, name: str) -> list[str]:
    """Return a note if some scores are missing, as can happen for rankings read from a file."""
    scores = [hit.score for hits in rankings.hits.values() for hit in hits]
    num_missing = scores.count(None)
    if not num_missing:
        return []
    return [
        f"{num_missing} of {len(scores)} contexts of {name} have no retriever score, so "
        "weighting.by=retriever and strategies that need scores will reject them."
    ]


def compute_quality_rows(
    rankings: Rankings, questions: Sequence[Question], depth: int
) -> list[dict[str, Any]]:
    """Compute each split's retrieval metrics, with confidence intervals, at depths up to `depth`.

    Each split has a row with top-k accuracy by answer strings. If gold passages are annotated, it
    has a second row with recall@k, nDCG@10, MRR and MAP. Questions without an accepted answer, as
    in BEIR, count in the second alone; as in BEIR's evaluation, a passage with the id of such a
    question is the question itself (ArguAna, Quora), and is left out.
    """
    hits, rows, depths = rankings.hits, [], [k for k in DEPTHS if k <= depth]
    for split in dict.fromkeys(question.split for question in questions):
        split_questions = [question for question in questions if question.split == split]
        undefined = dict.fromkeys(RANK_MEASURES, build_undefined_interval())
        answered_questions = [question for question in split_questions if question.answers]
        if answered_questions:
            contains_answer = [
                [hit.has_answer for hit in hits[question.question_id]]
                for question in answered_questions
            ]
            accuracies = {
                f"@{k}": compute_mean_interval(top_k_accuracy(contains_answer, k)) for k in depths
            }
            rows.append(
                {
                    "split": split,
                    "measure": "top-k accuracy",
                    "questions": len(answered_questions),
                    **accuracies,
                    **undefined,
                }
            )
        gold_ids = {
            question.question_id: question.gold_passage_ids
            for question in split_questions
            if question.gold_passage_ids
        }
        if gold_ids:
            itself = {q.question_id for q in split_questions if not q.answers}
            ranked_ids = {
                question_id: [
                    hit.passage_id
                    for hit in hits[question_id]
                    if hit.passage_id != question_id or question_id not in itself
                ]
                for question_id in gold_ids
            }
            measures = {
                name: compute_mean_interval(values)
                for name, values in compute_ranking_measures(gold_ids, ranked_ids, depths).items()
            }
            columns = {name.removeprefix("recall"): interval for name, interval in measures.items()}
            rows.append(
                {"split": split, "measure": "recall", "questions": len(gold_ids), **columns}
            )
    return rows


def select_logged_values(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the defined values by MLflow name, such as "test_nDCG_at_10"."""
    values = {}
    for row in rows:
        for name, value in row.items():
            if isinstance(value, Interval) and value.n:
                heading = f"{row['measure']}{name}" if name.startswith("@") else name
                values[f"{row['split']}_{heading}".replace(" ", "_").replace("@", "_at_")] = (
                    value.mean
                )
    return values


def _resolve(project: Project) -> Iterator[Artifact]:
    """Yield the rankings of the configured retriever, and those of labels and trainings."""
    yield project.rankings
    yield from map(project.resolve_retrieval, list_retrievers(project))


STAGE = Stage(
    retrieve,
    version=2,
    resolve=_resolve,
    reads=("index", "questions"),
    settings=("depth",),
    run_shard=_run_shard,
    shards="parts",
)
main = make_main(STAGE)
if __name__ == "__main__":
    main()
