"""Evaluate an estimator: recall, scored contexts, sets without an answer, abstention, calibration.

The scores of dev and test must exist (`python -m flows.score 'score.splits=[dev,test]'`). If the
sweep with the same settings is finished (rank_by=estimator and k=evaluate_estimator.k), its answers
are used in the abstention table and the curves.

    python -m flows.evaluate_estimator estimator=cross_encoder 'score.splits=[dev,test]'
    python -m flows.evaluate_estimator experiment=re_rag/estimator sweep.limit=150   # all parts
    python -m flows.evaluate_estimator experiment=re_rag/table4 sweep.limit=150      # one table
"""

import json
from collections.abc import Sequence
from pathlib import Path

from flows.project.artifacts import Project
from flows.project.cells import check_log_odds, resolve_cell, resolve_cell_artifact
from flows.project.checks import check_answers, check_evaluated_split
from flows.project.engines import compute_estimator_identity
from flows.project.rankings import resolve_rankings, resolve_relevance
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.outputs import check_outputs
from flows.stages.registry import Stage
from flows.tools.summary import Summary
from winnow.artifacts.files import write_texts
from winnow.artifacts.provenance import get_git_revision, read_manifest
from winnow.artifacts.rankings import read_rankings
from winnow.artifacts.tables import read_questions
from winnow.contexts.build import build_ranked_contexts
from winnow.errors import ConfigError
from winnow.metrics.answer import exact_match
from winnow.reports.estimator.evaluation import Evaluation
from winnow.reports.estimator.parts import choose_parts
from winnow.reports.estimator.scores import ScoredQuestion
from winnow.reports.report import Report
from winnow.sweeps.samples import SampleReader

_UNSWEPT = (
    "no sweep with these settings is finished, so tables and curves of answers are missing. Run "
    "`python -m flows.sweep` with the same settings (rank_by=estimator, k=evaluate_estimator.k)"
)


def evaluate_estimator(jobs: Sequence[Settings]) -> Summary:
    """Write a report on the estimator of each job."""
    check_outputs("evaluate_estimator.out", [(one.evaluate_estimator.out,) for one in jobs])
    tables, notes = [], []
    for settings in jobs:
        report = _build_report(Project(settings))
        out = Path(settings.evaluate_estimator.out)
        body = [
            {
                "title": table.title,
                "columns": list(table.columns),
                "rows": [list(row) for row in table.rows],
            }
            for table in report.tables
        ]
        texts = {
            "report.html": report.render_html(),
            "report.md": report.render_markdown(),
            "tables.json": json.dumps(body, indent=1),
        }
        write_texts(out, texts)
        tables.append(report.tables[0])
        notes.append(f"Report: {out / 'report.html'}; answers: {report.provenance['Answers']}.")
    same_title = [table for table in tables if table.title == tables[0].title]
    rows = [
        dict(zip(table.columns, row, strict=True)) for table in same_title for row in table.rows
    ]
    return Summary(f"{tables[0].title}: {tables[0].caption}", rows, "\n".join(notes))


def _build_report(project: Project) -> Report:
    settings, own = project.settings, project.settings.evaluate_estimator
    _validate(settings)
    dev, test = (_read_scored_questions(project, split) for split in (own.dev, own.test))
    evaluation = Evaluation(
        dev, test, int(own.k), str(own.paper), int(own.sample), settings.report.seed
    )
    show = [own.show] if isinstance(own.show, str) else own.show
    parts = choose_parts(show, evaluation)
    num_answered, relevance = len(evaluation.answered_questions), resolve_relevance(project).folder
    provenance = {
        "Data": (
            f"corpus {settings.corpus.name}, questions {settings.dataset.name}: {len(dev)} of "
            f"{own.dev}, {len(test)} of {own.test}"
        ),
        "Rankings": (
            f"{settings.retriever.name}; {settings.estimator.name} "
            f"({compute_estimator_identity(project)})"
        ),
        "Answers": (
            f"{resolve_cell_artifact(project).folder.name}, {num_answered} questions"
            if num_answered
            else _UNSWEPT
        ),
        "Code": (
            f"scores by revision {read_manifest(relevance)['git']}, page by {get_git_revision()}"
        ),
    }
    plots = [plot for part in parts for draw in part.plots if (plot := draw(evaluation))]
    tables = [part.table(evaluation) for part in parts]
    return Report(f"Winnow: the estimator {settings.estimator.name}", (), tables, plots, provenance)


def _validate(settings: Settings) -> None:
    own = settings.evaluate_estimator
    check_evaluated_split(settings, "evaluate_estimator", own.dev, own.test)
    if {own.dev, own.test} - set(settings.score.splits):
        raise ConfigError(
            f"score.splits={list(settings.score.splits)} lacks {own.dev!r} or {own.test!r}. Run "
            f"`python -m flows.score` and this command with 'score.splits=[{own.dev},{own.test}]'."
        )
    if own.show != ["table2"]:  # which alone is not of probabilities
        check_log_odds(settings, "evaluate_estimator.show=[table2]")
    if settings.score.depth is not None and settings.score.depth < own.k:
        raise ConfigError(
            f"evaluate_estimator.k={own.k} is more than the contexts that the estimator scores "
            f"(score.depth={settings.score.depth}). Lower it, or set score.depth=null in both."
        )


def _read_scored_questions(project: Project, split: str) -> list[ScoredQuestion]:
    """Read the scored questions of a split, with the exact match where the sweep answered them."""
    settings = project.settings
    questions = read_questions(project.questions_file, [split])[: settings.score.limit]
    accepted_answers = [question.answers for question in questions]
    check_answers(accepted_answers, settings.dataset.name, "the evaluation of estimators")
    relevance = resolve_relevance(project).require() / "relevance.parquet"
    rankings = read_rankings(resolve_rankings(project).require(), questions, relevance)
    exact_matches = _compute_exact_matches(project) if split == settings.sweep.split else {}
    scored_questions = []
    for question in questions:
        contexts = [
            c
            for c in build_ranked_contexts(rankings, question)
            if c.rank and c.log_odds is not None
        ]
        scored_questions.append(
            ScoredQuestion(question, contexts, exact_matches.get(question.question_id))
        )
    return scored_questions


def _compute_exact_matches(project: Project) -> dict[str, float]:
    """Return the exact match of each question in the sweep with these settings, or nothing if it is
    not finished, or does not show the estimator's own first contexts.
    """
    settings = project.settings
    if (settings.rank_by, settings.k) != (
        "estimator",
        settings.evaluate_estimator.k,
    ) or not resolve_cell_artifact(project).is_finished:
        return {}
    spec = resolve_cell(settings)
    if spec.labels.uses_gold:
        return {}
    samples = SampleReader().read(spec)
    return {
        sample.question.question_id: exact_match(sample.prediction.answer, sample.question.answers)
        for sample in samples
    }


STAGE = Stage(evaluate_estimator, seeds="one")
main = make_main(STAGE)
if __name__ == "__main__":
    main()
