"""Score the top 100 with the relevance estimator: log-odds, cached, and recall@k before and after reranking.

python -m flows.score
python -m flows.score retriever=dense
python -m flows.train_joint estimator=cross_encoder && python -m flows.score estimator=cross_encoder
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from flows import _artifacts
from flows._drive import drive, open_estimator, open_ledger
from flows._entry import entry
from flows._summary import Summary
from flows._track import track
from winnow import store
from winnow.driver import Job
from winnow.estimators.engine import EstimatorEngine
from winnow.metrics.intervals import compare, mean_interval
from winnow.metrics.ranking import recall_at
from winnow.records import Context, Question
from winnow.relevance import judge, relevance_rows
from winnow.tables import Rankings, questions_of

KS = (1, 5, 10, 20)


def score(configs: Sequence[DictConfig]) -> Summary:
    """Score for each job and compare the rankings."""
    rows: list[dict[str, Any]] = []
    note = ""
    for cfg in configs:
        made = _artifacts.relevance(cfg)
        path = _artifacts.questions(cfg).need().folder / "questions.parquet"
        asked = [q for split in cfg.score.splits for q in questions_of(path, [split])[: cfg.score.limit]]
        folder = _artifacts.retrieval(cfg).need().folder
        fresh = not made.done
        cut = 0 if made.done else _write(cfg, made, asked, Rankings(folder, asked))
        found = _compare(folder, made.folder / "relevance.parquet", asked)
        if fresh:
            with track(cfg, "score", made, {"k": cfg.depth}) as run:
                run.metrics({"truncated_texts": float(cut)})
                run.metrics({f"{row['ranking']}_recall_at_{k}": row[f"recall@{k}"].mean for row in found[:2] for k in KS})
        rows += [{n: v.percent() if hasattr(v, "percent") else v for n, v in row.items()} for row in found]
        note = f"{cut} texts were cut to the encoder's window." if cut else "" if fresh else "Scored before; nothing was done."
    return Summary("Recall before and after reranking, % [95 % interval]", rows, note)


def _write(cfg: DictConfig, made: _artifacts.Artifact, asked: Sequence[Question], rankings: Rankings) -> int:
    """Score through the driver: what the ledger holds is not scored again, other processes may take a part."""
    engine = EstimatorEngine(open_estimator(cfg), _artifacts.estimator_identity(cfg))
    found: dict[str, list[float]] = {}
    shown = {q.question_id: _shown(rankings.contexts(q), cfg.score.depth) for q in asked}
    jobs = (Job(q.question_id, judge(q, shown[q.question_id], found)) for q in asked)
    with open_ledger(cfg) as ledger:
        for _ in drive(engine, ledger, jobs, len(asked), "scoring questions' contexts"):
            pass
    rows = (row for q in asked for row in relevance_rows(q, shown[q.question_id], found[q.question_id]))
    made.finish(store.write(made.folder / "relevance.parquet", store.RELEVANCE, rows))
    return engine.estimator.truncated


def _shown(contexts: Sequence[Context], depth: int | None) -> list[Context]:
    """Return the first `depth` contexts, and gold passages that were not retrieved."""
    return [context for context in contexts if depth is None or context.rank <= depth]


def _compare(folder: Path, relevance: Path, asked: Sequence[Question]) -> list[dict[str, Any]]:
    """Return recall@k of both rankings and the paired p-values: two rows of all questions, then two of the answerable."""
    flags = {
        name: [[c.has_answer for c in rankings.contexts(q) if c.rank] for q in asked]
        for name, rankings in (("retriever", Rankings(folder, asked)), ("estimator", Rankings(folder, asked, relevance)))
    }
    rows = _pair(flags, f"all {len(asked)}")
    kept = [n for n, question in enumerate(asked) if question.answerable]
    if 0 < len(kept) < len(asked):
        rows += _pair({name: [ranked[n] for n in kept] for name, ranked in flags.items()}, f"answerable {len(kept)}")
    return rows


def _pair(flags: Mapping[str, Sequence[Sequence[bool]]], which: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {"ranking": name, "questions": which, **{f"recall@{k}": mean_interval(recall_at(ranked, k)) for k in KS}}
        for name, ranked in flags.items()
    ]
    for k in KS:
        both = compare(recall_at(flags["estimator"], k), recall_at(flags["retriever"], k))
        rows[0][f"p@{k}"], rows[1][f"p@{k}"] = "", f"{both.p_value:.4f}"
    return rows


main = entry(score)
if __name__ == "__main__":
    main()
