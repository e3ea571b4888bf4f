r"""Evaluate the retrieval evaluators of CRAG on held-out pairs, and search for the thresholds of
its actions on dev.

A pair is a question with a passage of its first k. A question adds one passage with an answer and
one without, if it has both. Every estimate and verdict is a request in the ledger: a second run, or
one with another alpha, loads no model.

    python -m flows.evaluate_evaluator estimator=cross_encoder joint=crag_evaluator
    python -m flows.evaluate_evaluator reader@judge=openai \
        'evaluator=[estimator,judge,judge_cot,judge_few_shot]'
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.project.artifacts import Project
from flows.project.checks import check_evaluated_split
from flows.project.engines import compute_estimator_identity, resolve_engine_spec
from flows.project.rankings import resolve_rankings
from flows.project.runs import collect_results
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.outputs import check_outputs
from flows.stages.registry import Stage
from flows.tools.summary import Summary
from winnow.artifacts.files import write_texts
from winnow.artifacts.provenance import get_git_revision
from winnow.artifacts.rankings import read_rankings
from winnow.artifacts.tables import read_questions
from winnow.contexts.build import build_ranked_contexts
from winnow.driver.jobs import Job
from winnow.errors import ConfigError
from winnow.reports.evaluator import EvaluatedContexts, build_evaluator_report, find_thresholds
from winnow.strategies.corrective.evaluators import EstimatedRelevance, Evaluation
from winnow.training.groups import Group
from winnow.training.pair_selection import PairSelection

_PAIRS = PairSelection(positives=1, hard_negatives=1, random_negatives=0)
"""One relevant and one irrelevant passage per question, so always answering "yes" scores 50 %."""


def evaluate_evaluator(jobs: Sequence[Settings]) -> Summary:
    """Write a report on the evaluators of each job."""
    check_outputs("evaluate_evaluator.out", [(one.evaluate_evaluator.out,) for one in jobs])
    rows: list[dict[str, Any]] = []
    notes = []
    for settings in jobs:
        _validate(settings)
        project, own = Project(settings), settings.evaluate_evaluator
        dev, test = (_evaluate_contexts(project, split) for split in (own.dev, own.test))
        dev_pairs, test_pairs = (
            _PAIRS.select([Group(item.question, item.contexts) for item in part])
            for part in (dev, test)
        )
        if not (dev_pairs and test_pairs):
            raise ConfigError(
                f"There are no pairs, because no question of {own.dev} or {own.test} has contexts "
                f"with and without an answer among its first {settings.k}. Raise k or "
                "evaluate_evaluator.limit."
            )
        thresholds = find_thresholds(dev, own.alpha)
        verdicts = _judge_pairs(project, test_pairs)
        provenance = {
            "Data": (
                f"corpus {settings.corpus.name}, questions {settings.dataset.name}: {len(dev)} of "
                f"{own.dev}, {len(test)} of {own.test}; the first {settings.k} of "
                f"{settings.retriever.name}"
            ),
            "Evaluator": f"{settings.estimator.name} ({compute_estimator_identity(project)})",
            "Code": f"revision {get_git_revision()}",
        }
        report = build_evaluator_report(
            dev,
            test,
            dev_pairs,
            test_pairs,
            verdicts,
            thresholds,
            settings.report.seed,
            own.alpha,
            provenance,
        )
        out = Path(own.out)
        values = {"upper": thresholds.upper, "lower": thresholds.lower}
        texts = {
            "report.html": report.render_html(),
            "report.md": report.render_markdown(),
            "thresholds.json": json.dumps(values) + "\n",
        }
        write_texts(out, texts)
        table = report.tables[0]
        rows += [dict(zip(table.columns, row, strict=True)) for row in table.rows]
        words = " ".join(f"thresholds.{name}={value!r}" for name, value in values.items())
        notes.append(
            f"Thresholds for k={settings.k}, from {len(dev)} questions: {words}\nReport: "
            f"{out / 'report.html'}"
        )
    return Summary(f"{table.title}, {table.caption}", rows, "\n".join(notes))


def _validate(settings: Settings) -> None:
    """Check that thresholds are not chosen on test questions, and that contexts are a sweep's."""
    own = settings.evaluate_evaluator
    check_evaluated_split(settings, "evaluate_evaluator", own.dev, own.test)
    if settings.rank_by != "retriever" or settings.k < 1:
        raise ConfigError(
            "Evaluators are evaluated on the first k passages of the retriever; received "
            f"rank_by={settings.rank_by} and k={settings.k}. Set rank_by=retriever and k of at "
            "least 1."
        )


def _evaluate_contexts(project: Project, split: str) -> list[EvaluatedContexts]:
    """Evaluate the first k contexts of each question of a split by the estimator."""
    own = project.settings.evaluate_evaluator
    questions = read_questions(project.questions_file, [split])[: own.limit]
    rankings = read_rankings(resolve_rankings(project).require(), questions)
    ranked_questions = [
        (q, [c for c in build_ranked_contexts(rankings, q)[: project.settings.k] if c.rank])
        for q in questions
    ]
    evaluator = _build_evaluator(project.settings)

    def iter_jobs() -> Iterator[Job[Evaluation]]:
        return (
            Job(q.question_id, evaluator.evaluate(q, [c.passage for c in contexts]))
            for q, contexts in ranked_questions
        )

    specs = [resolve_engine_spec(project, "estimator")]
    evaluations = collect_results(
        project.settings,
        specs,
        iter_jobs(),
        len(ranked_questions),
        f"evaluating contexts of {split}",
    )
    return [
        EvaluatedContexts(
            q,
            tuple(contexts),
            evaluations[q.question_id].scores,
            evaluations[q.question_id].failed,
        )
        for q, contexts in ranked_questions
        if contexts
    ]


def _build_evaluator(settings: Settings) -> EstimatedRelevance:
    """Build the evaluator that uses the estimator's scores, or the default one if there is none."""
    evaluators = [node.build() for node in settings.evaluator.values()]
    default = EstimatedRelevance(scale=settings.estimator.relevance_scale)
    return next(
        (evaluator for evaluator in evaluators if isinstance(evaluator, EstimatedRelevance)),
        default,
    )


def _judge_pairs(project: Project, pairs: Sequence[Group]) -> Mapping[str, Sequence[Evaluation]]:
    """Evaluate the pairs of each question by every judge, and return the results by judge name."""
    judges = {name: node.build() for name, node in project.settings.evaluator.items()}
    judges = {
        name: judge for name, judge in judges.items() if not isinstance(judge, EstimatedRelevance)
    }
    if not judges:
        return {}

    def iter_jobs() -> Iterator[Job[Evaluation]]:
        for name, judge in judges.items():
            for index, group in enumerate(pairs):
                passages = [context.passage for context in group.contexts]
                yield Job((name, index), judge.evaluate(group.question, passages))

    specs = [resolve_engine_spec(project, "judge")]
    results = collect_results(
        project.settings, specs, iter_jobs(), len(judges) * len(pairs), "judging pairs"
    )
    return {name: [results[name, index] for index in range(len(pairs))] for name in judges}


STAGE = Stage(evaluate_evaluator, seeds="one")
main = make_main(STAGE)
if __name__ == "__main__":
    main()
