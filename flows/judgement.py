"""Report what the estimator is worth: recall, judged contexts, sets without an answer, refusals, calibration.

Its scores of dev and test must be there (`python -m flows.score 'score.splits=[dev,test]'`). Where the cell of the same
settings has been swept (rank_by=estimator, k of judgement.k), its answers are in the refusal table and the curves.

    python -m flows.judgement estimator=cross_encoder 'score.splits=[dev,test]'
    python -m flows.judgement experiment=re_rag/judgement sweep.limit=150    # all of it
    python -m flows.judgement experiment=re_rag/table4 sweep.limit=150       # one table
"""

import json
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from flows import _artifacts
from flows._cells import predictions
from flows._entry import entry
from flows._summary import Summary
from winnow import store
from winnow.errors import ConfigError
from winnow.reports.judgement import OF_ANSWERS, PARTS, Judged, answered, plots, tables
from winnow.reports.page import Report
from winnow.tables import Rankings, questions_of

_UNSWEPT = (
    f"no cell of these settings is swept: {', '.join(OF_ANSWERS)} and risk-coverage are left out. Run `python -m flows.sweep` "
    "with the same words (rank_by=estimator, k=judgement.k)"
)


def judgement(configs: Sequence[DictConfig]) -> Summary:
    """Write the page of each job's estimator."""
    firsts, pages = [], []
    for cfg in configs:
        report = _draw_up(cfg)
        out = Path(cfg.judgement.out)
        body = [{"title": t.title, "columns": list(t.columns), "rows": [list(r) for r in t.rows]} for t in report.tables]
        texts = {"report.html": report.html(), "report.md": report.markdown(), "tables.json": json.dumps(body, indent=1)}
        for name, text in texts.items():
            with store.writing(out / name, needed=2**24) as partial:
                partial.write_text(text, encoding="utf-8")
        firsts.append(report.tables[0])
        pages.append(f"Report: {out / 'report.html'}; answers: {report.made_by['Answers']}.")
    alike = [table for table in firsts if table.title == firsts[0].title]
    rows = [dict(zip(table.columns, row, strict=True)) for table in alike for row in table.rows]
    return Summary(f"{firsts[0].title}: {firsts[0].over}", rows, "\n".join(pages))


def _draw_up(cfg: DictConfig) -> Report:
    at = cfg.judgement
    if {at.dev, at.test} - set(cfg.score.splits):
        raise ConfigError(
            f"score.splits={list(cfg.score.splits)} lacks {at.dev!r} or {at.test!r}: thresholds are chosen on the one and "
            f"judged on the other. Run `python -m flows.score` and this with 'score.splits=[{at.dev},{at.test}]'."
        )
    if cfg.score.depth is not None and cfg.score.depth < at.k:
        raise ConfigError(
            f"judgement.k={at.k} is larger than what the estimator scores (score.depth={cfg.score.depth}). Lower it, or set "
            "score.depth=null here and for `python -m flows.score`."
        )
    dev, test = _judged(cfg, at.dev), _judged(cfg, at.test)
    seed, k, paper = cfg.report.seed, int(at.k), str(at.paper)
    show = PARTS if at.show is None else [at.show] if isinstance(at.show, str) else list(at.show)
    shown = tables(dev, test, k, paper, int(at.sample), seed, show)
    made_by = {
        "Data": f"corpus {cfg.corpus.name}, questions {cfg.dataset.name}: {len(dev)} of {at.dev}, {len(test)} of {at.test}",
        "Rankings": f"{cfg.retriever.name}; {cfg.estimator.name} ({_artifacts.estimator_identity(cfg)})",
        "Answers": f"{_artifacts.cell(cfg).folder.name}, {len(answered(test))} questions" if answered(test) else _UNSWEPT,
        "Code": f"revision {store.git_revision()}",
    }
    return Report(f"Winnow: the estimator {cfg.estimator.name}", shown, plots(dev, test, k, seed, show), made_by)


def _judged(cfg: DictConfig, split: str) -> list[Judged]:
    """Return the scored questions of a split, with the EM of those that the cell of these settings answered."""
    relevance = _artifacts.relevance(cfg).need().folder / "relevance.parquet"
    asked = questions_of(_artifacts.questions(cfg).need().folder / "questions.parquet", [split])[: cfg.score.limit]
    cell, same = _artifacts.cell(cfg), (cfg.rank_by, cfg.k) == ("estimator", cfg.judgement.k)
    swept = split == cfg.sweep.split and same and cell.done
    ems = {row["question_id"]: float(row["em"]) for row in predictions(cfg)} if swept else {}
    rankings = Rankings(_artifacts.retrieval(cfg).need().folder, asked, relevance, rerank=False)
    return [
        Judged(q, [c for c in rankings.contexts(q) if c.rank and c.log_odds is not None], ems.get(q.question_id))
        for q in asked
    ]


main = entry(judgement)
if __name__ == "__main__":
    main()
