"""Writer of BEIR's files: corpus, queries and relevance judgments. Parsers are in `winnow.corpora`
and `winnow.datasets`.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from winnow.formats.text import write_json_lines, write_lines
from winnow.records import Passage, Question


def write_beir(
    folder: Path,
    split: str,
    questions: Sequence[Question],
    passages: Iterable[Passage],
    relevant: Mapping[str, Sequence[str]],
) -> None:
    """Write corpus.jsonl, queries.jsonl and qrels/<split>.tsv.

    Args:
        folder: Folder of the files.
        split: Name of the split of the questions.
        questions: Questions; their accepted answers are in the metadata of the queries.
        passages: Passages of the corpus.
        relevant: Ids of the relevant passages by question id.
    """
    write_json_lines(
        folder / "corpus.jsonl",
        ({"_id": p.passage_id, "title": p.title, "text": p.text} for p in passages),
    )
    queries = (
        {"_id": q.question_id, "text": q.text, "metadata": {"answers": list(q.answers)}}
        for q in questions
    )
    write_json_lines(folder / "queries.jsonl", queries)
    pairs = (
        f"{question_id}\t{passage_id}\t1"
        for question_id, ids in relevant.items()
        for passage_id in ids
    )
    write_lines(folder / f"qrels/{split}.tsv", ("query-id\tcorpus-id\tscore", *pairs))
