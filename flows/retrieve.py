"""Retrieve the top passages of every question once (depth 100 serves every smaller k), with has_answer beside each.

python -m flows.retrieve
python -m flows.retrieve retriever=dense
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from flows import _artifacts
from flows._build import build
from flows._entry import entry
from flows._summary import Summary, progress
from flows._track import track
from winnow import store
from winnow.errors import ArtifactError
from winnow.metrics.intervals import mean_interval
from winnow.metrics.ranking import recall_at
from winnow.protocols import Searcher
from winnow.records import Question
from winnow.tables import hit_rows, passage_rows, passages_of, questions_of, retrieval_rows

SHARD = 500
"""Questions between two saves."""
DEPTHS = (1, 5, 10, 20, 50, 100)


def retrieve(configs: Sequence[DictConfig]) -> Summary:
    """Retrieve for each job, with the configured and the labelling retriever, and tell recall@k by split."""
    rows = []
    for cfg in configs:
        asked = questions_of(_artifacts.questions(cfg).need().folder / "questions.parquet")
        engines = {_artifacts.index(cfg, e).key: e for e in (cfg.answerable.retriever, cfg.retriever.engine)}
        for engine in engines.values():
            made = _artifacts.retrieval(cfg, engine)
            fresh = not made.done
            if fresh:
                _write(cfg, engine, made, asked)
            found = recalls(made.folder, asked)
            if fresh:
                with track(cfg, "retrieve", made, {"k": cfg.depth}) as run:
                    values = {f"{r['split']}_{n}": m.mean for r in found for n, m in r.items() if n.startswith("recall")}
                    run.metrics({name.replace("@", "_at_"): mean for name, mean in values.items()})
            rows += [{n: m.percent() if n.startswith("recall") else m for n, m in row.items()} for row in found]
    return Summary("Retrieval, % [95 % interval]", rows)


def _write(cfg: DictConfig, engine: DictConfig, made: _artifacts.Artifact, asked: Sequence[Question]) -> None:
    shards = made.folder / "shards"
    searcher = build(engine).open(_artifacts.index(cfg, engine).need().folder)
    with progress("retrieving", len(asked)) as advance:
        parts = []
        for number, batch in enumerate(store.batched(asked, SHARD)):
            parts.append(_shard(shards / f"{number:05d}.parquet", searcher, batch, cfg.depth))
            advance(len(batch))
    texts = _write_texts(cfg, made.folder, parts, asked)
    hits = (row for part in parts for row in store.stream(part, store.HITS))
    made.finish(store.write(made.folder / "contexts.parquet", store.RETRIEVAL, retrieval_rows(asked, hits, texts)))
    shutil.rmtree(shards)


def _shard(path: Path, searcher: Searcher, batch: Sequence[Question], depth: int) -> Path:
    """Search for one batch of questions, unless a killed run has done that."""
    if path.is_file():
        return path
    rankings = searcher.search(batch, depth)
    empty = next((q for q, hits in zip(batch, rankings, strict=True) if not hits), None)
    if empty is not None:
        raise ArtifactError(
            f"No passage was retrieved for question {empty.question_id!r} ({empty.text!r}): no word of it is in the "
            "corpus. Take it out of the data set, or use retriever=dense or retriever=hybrid."
        )
    store.write(path, store.HITS, hit_rows(batch, rankings))
    return path


def _write_texts(cfg: DictConfig, folder: Path, parts: Sequence[Path], asked: Sequence[Question]) -> dict[str, str]:
    """Write the passages that occur in the rankings (and the gold ones), so that later stages need no corpus."""
    wanted = {one for question in asked for one in question.gold_passage_ids}
    for part in parts:
        wanted.update(store.read(part, store.HITS, columns=["passage_id"])["passage_id"].to_pylist())
    corpus = _artifacts.corpus(cfg).need().folder / "passages.parquet"
    found = [passage for passage in passages_of(corpus) if passage.passage_id in wanted]
    store.write(folder / "passages.parquet", store.CORPUS, passage_rows(found))
    return {passage.passage_id: passage.text for passage in found}


def recalls(folder: Path, asked: Sequence[Question]) -> list[dict[str, Any]]:
    """Return recall@k by split with its interval: by gold passages where they are annotated, else by has_answer."""
    columns = ["question_id", "rank", "passage_id", "has_answer"]
    gold = {q.question_id: set(q.gold_passage_ids) for q in asked}
    flags: dict[str, list[tuple[int, bool]]] = {}
    for row in store.read(folder / "contexts.parquet", store.RETRIEVAL, columns=columns).to_pylist():
        annotated = gold[row["question_id"]]
        hit = row["passage_id"] in annotated if annotated else row["has_answer"]
        flags.setdefault(row["question_id"], []).append((row["rank"], hit))
    found = []
    for split in dict.fromkeys(q.split for q in asked):
        ranked = [[f for _, f in sorted(flags[q.question_id])] for q in asked if q.split == split]
        values = {f"recall@{k}": mean_interval(recall_at(ranked, k)) for k in DEPTHS}
        found.append({"retrieval": folder.name, "split": split, "questions": len(ranked), **values})
    return found


main = entry(retrieve)
if __name__ == "__main__":
    main()
