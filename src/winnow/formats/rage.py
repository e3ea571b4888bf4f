"""Reader and writer of RAGE's files: a corpus, queries, and the relevance of documents.

A folder has the tables `corpus` (_id, title, text), `queries` (_id, text), `relevant`, `irrelevant`
and `seemingly_relevant` (query-id, corpus-id), each as .jsonl or .parquet, as in the data sets
othr-nlp/rage_nq and othr-nlp/rage_hotpotqa on the hub.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from winnow.artifacts.parquet import iter_batches
from winnow.errors import InputError, Place
from winnow.formats.text import read_json_lines, write_json_lines
from winnow.records import Passage, Question

_ROWS_AT_ONCE = 10_000
KINDS = ("relevant", "irrelevant", "seemingly_relevant")
"""Names of the three maps from queries to documents."""
_SUFFIXES = (".jsonl", ".jsonl.gz", ".parquet")


@dataclass(frozen=True, slots=True)
class RelevanceMap:
    """Ids of one query's documents by relevance, the most similar first where known."""

    relevant: tuple[str, ...] = ()
    irrelevant: tuple[str, ...] = ()
    seemingly_relevant: tuple[str, ...] = ()


def find_table(folder: Path, name: str) -> Path:
    """Return the file of a table; raise InputError if the folder has none."""
    files = [folder / f"{name}{suffix}" for suffix in _SUFFIXES]
    table_file = next((file for file in files if file.is_file()), None)
    if table_file is None:
        raise InputError(
            f"{folder} has none of the files {', '.join(file.name for file in files)}. RAGE's "
            f"tables are corpus, queries, {', '.join(KINDS)}, one file each."
        )
    return table_file


def read_table(file: Path, columns: Sequence[str]) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield the place and the columns of each row; raise InputError if one is not a text."""
    if file.suffix != ".parquet":
        yield from read_json_lines(file, dict.fromkeys(columns, str))
        return
    import pyarrow as pa
    from pyarrow.parquet import read_schema

    try:
        names = read_schema(file).names
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            f"{file} is not a Parquet file or is damaged ({' '.join(str(error).split())[:200]})."
        ) from error
    missing_columns = [name for name in columns if name not in names]
    if missing_columns:
        raise InputError(f"{file} lacks the columns {missing_columns}; it has {names}.")
    batches = iter_batches(file, _ROWS_AT_ONCE, columns)
    rows = (row for batch in batches for row in batch.to_pylist())
    for number, row in enumerate(rows, start=1):
        place = Place(file, number, "row")
        if any(not isinstance(row[name], str) for name in columns):
            raise InputError(f"{place}: expected texts in {list(columns)}; received {row}.")
        yield place, row


def read_maps(folder: Path) -> dict[str, RelevanceMap]:
    """Read the three maps of all queries, by query id."""
    ids: dict[str, dict[str, list[str]]] = {}
    for kind in KINDS:
        for _, row in read_table(find_table(folder, kind), ("query-id", "corpus-id")):
            ids.setdefault(row["query-id"], {}).setdefault(kind, []).append(row["corpus-id"])
    return {
        query_id: RelevanceMap(
            **{kind: tuple(dict.fromkeys(passage_ids)) for kind, passage_ids in kinds.items()}
        )
        for query_id, kinds in ids.items()
    }


def write_rage_files(
    folder: Path,
    questions: Sequence[Question],
    passages: Iterable[Passage],
    maps: Mapping[str, RelevanceMap],
) -> None:
    """Write a corpus, questions and their maps as JSON lines.

    Accepted answers of a question are written to the column "short_answers" of its relevant
    documents.

    Args:
        folder: Folder of the files.
        questions: Questions to write.
        passages: Passages of the corpus.
        maps: Map of each question by question id.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_json_lines(
        folder / "corpus.jsonl",
        ({"_id": p.passage_id, "title": p.title, "text": p.text} for p in passages),
    )
    write_json_lines(
        folder / "queries.jsonl",
        ({"_id": question.question_id, "text": question.text} for question in questions),
    )
    for kind in KINDS:
        write_json_lines(folder / f"{kind}.jsonl", _iter_pairs(kind, questions, maps))


def _iter_pairs(
    kind: str, questions: Sequence[Question], maps: Mapping[str, RelevanceMap]
) -> Iterator[dict[str, Any]]:
    for question in questions:
        answers = list(question.answers)
        for passage_id in getattr(maps[question.question_id], kind):
            row: dict[str, Any] = {"query-id": question.question_id, "corpus-id": passage_id}
            yield row | ({"short_answers": answers} if kind == "relevant" and answers else {})
