"""TREC's formats of rankings (run files, as in Pyserini and trec_eval) and judgments (qrels)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from winnow.artifacts.files import atomic_write
from winnow.errors import ConfigError, InputError
from winnow.formats.text import find_files, iter_lines, write_lines
from winnow.records import Hit

_NUM_COLUMNS = 6
"""Number of columns of a run file, which white space separates, or tabs if ids contain spaces."""


def read_trec_run(path: Path) -> dict[str, list[Hit]]:
    """Read a run file or folder of lines with question id, "Q0", passage id, rank, score and tag.

    Passages are ordered by score, as trec_eval orders them, and those with equal scores by rank.

    Returns:
        The hits of each question by question id, best first.

    Raises:
        InputError: If a line is malformed, if a question has a passage twice, or if two files rank
            passages for a question.
    """
    if path.is_dir():
        return _read_trec_runs(find_files(path, "*", "retriever.engine.path"))
    rows: dict[str, dict[str, tuple[float, int]]] = {}
    for place, line in iter_lines(path):
        fields = line.split("\t") if line.count("\t") == _NUM_COLUMNS - 1 else line.split()
        entry = _parse_entry(fields[3], fields[4]) if len(fields) == _NUM_COLUMNS else None
        if entry is None:
            expectation = 'question, "Q0", passage, rank, score and tag'
            raise InputError.at(place, received=line, expected=expectation)
        question_id, passage_id = fields[0], fields[2]
        hits = rows.setdefault(question_id, {})
        if passage_id in hits:
            expectation = f"each passage once per question; {passage_id!r} is there twice"
            raise InputError.at(place, received=line, expected=expectation)
        hits[passage_id] = entry
    return {
        question_id: [
            Hit(passage_id, score)
            for passage_id, (score, _) in sorted(
                hits.items(), key=lambda item: (-item[1][0], item[1][1])
            )
        ]
        for question_id, hits in rows.items()
    }


def _read_trec_runs(files: Sequence[Path]) -> dict[str, list[Hit]]:
    """Read the runs of several files; raise InputError if a question is in two of them."""
    rankings: dict[str, list[Hit]] = {}
    source: dict[str, Path] = {}
    for file in files:
        for question_id, hits in read_trec_run(file).items():
            if question_id in rankings:
                raise InputError(
                    f"{source[question_id]} and {file} both rank passages for question "
                    f"{question_id!r}. A folder has the runs of one retriever, one per split; "
                    "remove one of the files, or name a single file."
                )
            rankings[question_id], source[question_id] = hits, file
    return rankings


def _parse_entry(rank: str, score: str) -> tuple[float, int] | None:
    """Return a score and a rank, or None if one of them is not a finite number."""
    try:
        entry = float(score), int(rank)
    except ValueError:
        return None
    return entry if math.isfinite(entry[0]) else None


def write_trec_run(
    path: Path, rankings: Iterable[tuple[str, Sequence[Hit]]], tag: str = "winnow"
) -> int:
    """Write a run file, and return its number of lines.

    Tools order a run by score (trec_eval those with equal scores by id). Rankings whose hits have
    no score, or whose scores rise with the rank, get the reciprocal rank as the score.

    Args:
        path: File to write.
        rankings: Question ids with hits, best first.
        tag: Name of the run.

    Raises:
        ConfigError: If an id is empty or contains white space, which the format cannot represent.
    """
    num_lines = 0
    with atomic_write(path) as partial, partial.open("w", encoding="utf-8") as file:
        for question_id, hits in rankings:
            for rank, (hit, score) in enumerate(
                zip(hits, _choose_scores(hits), strict=True), start=1
            ):
                ids = " Q0 ".join(_check_id(one) for one in (question_id, hit.passage_id))
                file.write(f"{ids} {rank} {score!r} {tag}\n")
                num_lines += 1
    return num_lines


def _choose_scores(hits: Sequence[Hit]) -> list[float]:
    scores = [hit.score for hit in hits]
    known_scores = [score for score in scores if score is not None]
    is_falling = len(known_scores) == len(scores) and all(
        first >= second for first, second in pairwise(known_scores)
    )
    return known_scores if is_falling else [1 / rank for rank in range(1, len(scores) + 1)]


def write_qrels(path: Path, relevant: Mapping[str, Sequence[str]]) -> int:
    """Write relevance judgments in TREC's four columns, and return their number.

    Args:
        path: File to write.
        relevant: Ids of the relevant passages by question id.
    """
    lines = [
        f"{_check_id(question_id)} 0 {_check_id(passage_id)} 1"
        for question_id, passage_ids in relevant.items()
        for passage_id in passage_ids
    ]
    write_lines(path, lines)
    return len(lines)


def _check_id(text: str) -> str:
    if not text or text.split() != [text]:
        raise ConfigError(
            f"The id {text!r} is empty or contains white space, which TREC's formats cannot "
            "represent. Export FiD's JSON (export.format=fid), or use a corpus and a data set "
            "with other ids."
        )
    return text
