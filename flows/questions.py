"""Convert a public format into the questions artifact, with splits, and label what the corpus can answer.

The training split keeps only answerable questions (BM25's top 20 hold an answer of 3 or more characters: DPR's filter);
answerable.required=[] keeps all. Dev and test keep all questions and carry the label; otherwise no question would ever be
unanswerable.

    python -m flows.questions
    python -m flows.questions dataset=nq_open dataset.parser.path=/data/NQ-open.dev.jsonl
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from omegaconf import DictConfig

from flows._artifacts import Project
from flows._build import build
from flows._entry import entry
from flows._summary import Summary, progress
from winnow.artifacts import contracts, parquet
from winnow.artifacts.tables import question_rows, read_passages
from winnow.errors import InputError
from winnow.metrics.intervals import UNDEFINED
from winnow.metrics.ranking import has_answers
from winnow.records import Question
from winnow.reports.reported import reported_questions


def questions(configs: Sequence[DictConfig]) -> Summary:
    """Write the questions of each job."""
    rows = []
    for project in map(Project, configs):
        if not project.questions.done:
            _write(project)
        rows += _counts(project.questions.folder / "questions.parquet", _reported(project.cfg))
    return Summary("Questions", rows)


def _write(project: Project) -> None:
    cfg, artifact = project.cfg.dataset, project.questions
    parsed = list(build(cfg.parser))
    if not parsed:
        raise InputError(f"dataset={cfg.name}: {cfg.parser.get('path')} contains no question. Correct dataset.parser.path.")
    kept = (
        question
        for question in _label(project, list(build(cfg.split).assign(parsed)))
        if question.answerable or question.split not in project.cfg.answerable.required
    )
    artifact.finish(parquet.write(artifact.folder / "questions.parquet", contracts.QUESTIONS, question_rows(kept)))


def _label(project: Project, parsed: Sequence[Question]) -> Iterator[Question]:
    """Yield the questions with `answerable` set by the labelling retriever's ranking."""
    cfg = project.cfg.answerable
    searcher = build(cfg.retriever).open(project.index(cfg.retriever).require())
    rankings = searcher.search(parsed, cfg.depth)
    ids = {hit.passage_id for hits in rankings for hit in hits}
    corpus = project.corpus.require() / "passages.parquet"
    texts = {passage.passage_id: passage.text for passage in read_passages(corpus) if passage.passage_id in ids}
    with progress("labelling questions", len(parsed)) as advance:
        for question, hits in zip(parsed, rankings, strict=True):
            advance()
            answers = [answer for answer in question.answers if len(answer) >= cfg.min_answer_chars]
            flags = has_answers([texts[hit.passage_id] for hit in hits], answers) if answers else []
            yield replace(question, answerable=any(flags))


def _reported(cfg: DictConfig) -> Mapping[str, int]:
    """Return the numbers of questions of RE-RAG's table 8 by split if the settings compare with that paper, else nothing."""
    paper = cfg.report.paper
    return reported_questions(paper.name, paper.dataset) if paper else {}


def _counts(path: Path, reported: Mapping[str, int]) -> list[dict[str, object]]:
    table = parquet.read(path, contracts.QUESTIONS, columns=["split", "answerable"]).to_pylist()
    total, answerable = Counter(row["split"] for row in table), Counter(row["split"] for row in table if row["answerable"])
    rows: list[dict[str, object]] = [
        {"questions": path.parent, "split": split, "number": total[split], "answerable": answerable[split]} for split in total
    ]
    if not reported:
        return rows
    return [row | {"paper (not verified here)": reported.get(str(row["split"]), UNDEFINED)} for row in rows]


main = entry(questions)
if __name__ == "__main__":
    main()
