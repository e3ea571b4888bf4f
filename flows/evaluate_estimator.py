"""Evaluate an estimator: recall, scored contexts, sets without an answer, abstention, calibration.

Its scores of dev and test must exist (`python -m flows.score 'score.splits=[dev,test]'`). Where the cell of the same settings
is finished (rank_by=estimator, k of evaluate_estimator.k), its answers are in the abstention table and the curves.

    python -m flows.evaluate_estimator estimator=cross_encoder 'score.splits=[dev,test]'
    python -m flows.evaluate_estimator experiment=re_rag/estimator sweep.limit=150   # all of it
    python -m flows.evaluate_estimator experiment=re_rag/table4 sweep.limit=150      # one table
"""

import json
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from flows import _models
from flows._artifacts import Project
from flows._cells import cell_artifact, resolve_cell
from flows._engines import estimator_identity
from flows._entry import entry
from flows._summary import Summary
from winnow.artifacts.files import atomic_write
from winnow.artifacts.provenance import git_revision, read_manifest
from winnow.artifacts.rankings import read_rankings
from winnow.artifacts.tables import read_questions
from winnow.contexts.build import ranked_contexts
from winnow.errors import ConfigError
from winnow.metrics.answer import exact_match
from winnow.reports.estimator.evaluation import Evaluation
from winnow.reports.estimator.parts import choose_parts
from winnow.reports.estimator.scores import ScoredQuestion
from winnow.reports.page import Report
from winnow.sweeps.samples import read_samples

_UNSWEPT = (
    "no cell of these settings is finished: tables and curves of answers are left out. Run `python -m flows.sweep` with the "
    "same settings (rank_by=estimator, k=evaluate_estimator.k)"
)


def evaluate_estimator(configs: Sequence[DictConfig]) -> Summary:
    """Write the page of each job's estimator."""
    tables, notes = [], []
    for cfg in configs:
        report = _build(Project(cfg))
        out = Path(cfg.evaluate_estimator.out)
        body = [{"title": t.title, "columns": list(t.columns), "rows": [list(r) for r in t.rows]} for t in report.tables]
        texts = {"report.html": report.html(), "report.md": report.markdown(), "tables.json": json.dumps(body, indent=1)}
        for name, text in texts.items():
            with atomic_write(out / name, required_bytes=2**24) as partial:
                partial.write_text(text, encoding="utf-8")
        tables.append(report.tables[0])
        notes.append(f"Report: {out / 'report.html'}; answers: {report.provenance['Answers']}.")
    same = [table for table in tables if table.title == tables[0].title]
    rows = [dict(zip(table.columns, row, strict=True)) for table in same for row in table.rows]
    return Summary(f"{tables[0].title}: {tables[0].caption}", rows, "\n".join(notes))


def _build(project: Project) -> Report:
    cfg, settings = project.cfg, project.cfg.evaluate_estimator
    _validate(cfg)
    dev, test = (_scored_questions(project, split) for split in (settings.dev, settings.test))
    evaluation = Evaluation(dev, test, int(settings.k), str(settings.paper), int(settings.sample), cfg.report.seed)
    show = [settings.show] if isinstance(settings.show, str) else settings.show
    parts = choose_parts(show, evaluation)
    answered, relevance = len(evaluation.answered), _models.relevance(project).folder
    provenance = {
        "Data": f"corpus {cfg.corpus.name}, questions {cfg.dataset.name}: {len(dev)} of {settings.dev}, "
        f"{len(test)} of {settings.test}",
        "Rankings": f"{cfg.retriever.name}; {cfg.estimator.name} ({estimator_identity(project)})",
        "Answers": f"{cell_artifact(project).folder.name}, {answered} questions" if answered else _UNSWEPT,
        "Code": f"scores by revision {read_manifest(relevance)['git']}, page by {git_revision()}",
    }
    plots = [plot for part in parts for draw in part.plots if (plot := draw(evaluation))]
    tables = [part.table(evaluation) for part in parts]
    return Report(f"Winnow: the estimator {cfg.estimator.name}", (), tables, plots, provenance)


def _validate(cfg: DictConfig) -> None:
    settings = cfg.evaluate_estimator
    if {settings.dev, settings.test} - set(cfg.score.splits):
        raise ConfigError(
            f"score.splits={list(cfg.score.splits)} lacks {settings.dev!r} or {settings.test!r}: thresholds are chosen on the "
            "one and tried on the other. Run `python -m flows.score` and this with "
            f"'score.splits=[{settings.dev},{settings.test}]'."
        )
    if cfg.score.depth is not None and cfg.score.depth < settings.k:
        raise ConfigError(
            f"evaluate_estimator.k={settings.k} is larger than what the estimator scores (score.depth={cfg.score.depth}). "
            "Lower it, or set score.depth=null here and for `python -m flows.score`."
        )


def _scored_questions(project: Project, split: str) -> list[ScoredQuestion]:
    """Return the scored questions of a split, with the EM of those that the cell of these settings answered."""
    cfg = project.cfg
    questions = read_questions(project.questions_file, [split])[: cfg.score.limit]
    relevance = _models.relevance(project).require() / "relevance.parquet"
    rankings = read_rankings(project.rankings.require(), questions, relevance)
    ems = _exact_matches(project) if split == cfg.sweep.split else {}
    contexts = {
        q.question_id: [c for c in ranked_contexts(rankings, q) if c.rank and c.log_odds is not None] for q in questions
    }
    return [ScoredQuestion(q, contexts[q.question_id], ems.get(q.question_id)) for q in questions]


def _exact_matches(project: Project) -> dict[str, float]:
    cfg = project.cfg
    if (cfg.rank_by, cfg.k) != ("estimator", cfg.evaluate_estimator.k) or not cell_artifact(project).done:
        return {}
    samples = read_samples(resolve_cell(cfg))
    return {s.question.question_id: exact_match(s.prediction.answer, s.question.answers) for s in samples}


main = entry(evaluate_estimator, seeds="one")
if __name__ == "__main__":
    main()
