"""Score the top 100 with the relevance estimator: log-odds, cached, and recall@k before and after reranking.

python -m flows.score
python -m flows.score retriever=dense
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig

from flows import _artifacts
from flows._build import build
from flows._entry import entry
from flows._summary import Summary, progress
from flows._track import track
from winnow import store
from winnow.errors import ArtifactError
from winnow.estimators.bi_encoder import probability
from winnow.metrics.intervals import compare, mean_interval
from winnow.metrics.ranking import recall_at
from winnow.records import Context, Question
from winnow.tables import Rankings, questions_of

SHARD = 50
"""Questions between two saves."""


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
                run.metrics(
                    {f"{row['ranking']}_recall_at_{k}": row[f"recall@{k}"].mean for row in found for k in (1, 5, 10, 20)}
                )
        rows += [{n: v.percent() if hasattr(v, "percent") else v for n, v in row.items()} for row in found]
        note = f"{cut} texts were cut to the encoder's window." if cut else ""
    return Summary("Recall before and after reranking, % [95 % interval]", rows, note)


def _write(cfg: DictConfig, made: _artifacts.Artifact, asked: Sequence[Question], rankings: Rankings) -> int:
    shards = made.folder / "shards"
    texts = {c.passage.passage_id for q in asked for c in rankings.contexts(q)}
    with progress("scoring passages", len(texts)) as advance:
        estimator = build(cfg.estimator.engine, advance=advance)
        parts = []
        for number, batch in enumerate(store.batched(asked, SHARD)):
            path = shards / f"{number:05d}.parquet"
            if not path.is_file():
                store.write(path, store.RELEVANCE, _rows(estimator, [(q, rankings.contexts(q)) for q in batch]))
            parts.append(path)
    rows = store.write(
        made.folder / "relevance.parquet",
        store.RELEVANCE,
        (row for part in parts for row in store.stream(part, store.RELEVANCE)),
    )
    for part in parts:
        part.unlink()
    shards.rmdir()
    made.finish(rows)
    return int(estimator.truncated)


def _rows(estimator: Any, batch: Sequence[tuple[Question, Sequence[Context]]]) -> Iterator[dict[str, Any]]:
    pairs = [(question, context) for question, contexts in batch for context in contexts]
    log_odds = estimator.score([(question.text, context.passage) for question, context in pairs])
    p_true = probability(np.asarray(log_odds))
    for (question, context), value, chance in zip(pairs, log_odds.tolist(), p_true.tolist(), strict=True):
        if value != value:
            raise ArtifactError(
                f"The estimator gave NaN for question {question.question_id!r}, passage {context.passage.passage_id!r}."
            )
        yield {
            "question_id": question.question_id,
            "passage_id": context.passage.passage_id,
            "log_odds": value,
            "p_true": chance,
        }


def _compare(folder: Path, relevance: Path, asked: Sequence[Question]) -> list[dict[str, Any]]:
    """Return recall@k of both rankings, and the paired p-value of each difference."""
    flags = {
        name: [[c.has_answer for c in rankings.contexts(q) if c.rank] for q in asked]
        for name, rankings in (("retriever", Rankings(folder, asked)), ("estimator", Rankings(folder, asked, relevance)))
    }
    ks = (1, 5, 10, 20)
    rows: list[dict[str, Any]] = [
        {"ranking": name, **{f"recall@{k}": mean_interval(recall_at(ranked, k)) for k in ks}} for name, ranked in flags.items()
    ]
    for k in ks:
        both = compare(recall_at(flags["estimator"], k), recall_at(flags["retriever"], k))
        rows[0][f"p@{k}"], rows[1][f"p@{k}"] = "", f"{both.p_value:.3f}"
    return rows


main = entry(score)
if __name__ == "__main__":
    main()
