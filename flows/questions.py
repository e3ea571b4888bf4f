"""Turn a public format into the questions artifact, with splits, and label what the corpus can answer.

The training split keeps only answerable questions (BM25's top 20 hold an answer of 3 or more characters: DPR's
filter); dev and test keep all and carry the label, or else nothing would ever be unanswerable.

    python -m flows.questions
    python -m flows.questions dataset=nq_open dataset.reader.path=/data/NQ-open.dev.jsonl
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from omegaconf import DictConfig

from flows import _artifacts
from flows._build import build
from flows._entry import entry
from flows._summary import Summary, progress
from winnow import store
from winnow.metrics.ranking import has_answers
from winnow.records import Question
from winnow.tables import passages_of, question_rows


def questions(configs: Sequence[DictConfig]) -> Summary:
    """Write the questions of each job."""
    rows = []
    for cfg in configs:
        made = _artifacts.questions(cfg)
        if not made.done:
            _write(cfg, made)
        rows += _counts(made.folder / "questions.parquet")
    return Summary("Questions", rows)


def _write(cfg: DictConfig, made: _artifacts.Artifact) -> None:
    read = list(build(cfg.dataset.split).assign(build(cfg.dataset.reader)))
    labelled = (q for q in _label(cfg, read) if q.answerable or q.split != "train")
    rows = store.write(made.folder / "questions.parquet", store.QUESTIONS, question_rows(labelled))
    made.finish(rows)


def _label(cfg: DictConfig, read: Sequence[Question]) -> Iterator[Question]:
    """Yield the questions with `answerable` set by the labelling retriever's ranking."""
    folder = _artifacts.index(cfg, cfg.answerable.retriever).need().folder
    searcher = build(cfg.answerable.retriever).open(folder)
    rankings = searcher.search(read, cfg.answerable.depth)
    wanted = {hit.passage_id for hits in rankings for hit in hits}
    passages = _artifacts.corpus(cfg).need().folder / "passages.parquet"
    texts = {p.passage_id: p.text for p in passages_of(passages) if p.passage_id in wanted}
    with progress("labelling questions", len(read)) as advance:
        for question, hits in zip(read, rankings, strict=True):
            advance()
            long = [answer for answer in question.answers if len(answer) >= cfg.answerable.min_answer_chars]
            held = has_answers([texts[hit.passage_id] for hit in hits], long) if long else []
            yield replace(question, answerable=any(held))


def _counts(path: Path) -> list[dict[str, object]]:
    table = store.read(path, store.QUESTIONS, columns=["split", "answerable"]).to_pylist()
    total, answerable = Counter(r["split"] for r in table), Counter(r["split"] for r in table if r["answerable"])
    return [{"questions": path.parent, "split": s, "number": total[s], "answerable": answerable[s]} for s in total]


main = entry(questions)
if __name__ == "__main__":
    main()
