"""FiD (Fusion-in-Decoder) exchange format: a JSON list or JSON Lines of question, answers and ctxs.

A context may have a flag `is_gold`, which is ours. Rows of multi-hop data sets
(`winnow.formats.multihop`) and of ALCE (`winnow.formats.alce`) are converted.
"""

import json
import logging
import math
import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from winnow.artifacts.files import atomic_write
from winnow.errors import InputError, Place
from winnow.formats.alce import convert_alce_row
from winnow.formats.fields import format_meta, parse_answers, parse_flag, read_title, require_text
from winnow.formats.multihop import MISSING, convert_multihop_row
from winnow.formats.text import load_json, read_json_lines
from winnow.records import Context, Passage, Question

_ID_FIELDS = ("id", "_id", "docid", "passage_id", "psg_id")
"""Fields of a context that may have its id: those of FiD and DPR, BEIR, Pyserini, and others."""
_FILE_NAME = re.compile(r"\.jsonl?(?:\.gz)?$")
_MAX_SCORE = 3.4e38
"""Largest score that float32 can hold."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FidRow:
    """A question with its retrieved passages.

    Attributes:
        question: Question with its answers.
        contexts: Pairs of a passage and its score, best first. The score is None if the file
            contains none.
    """

    question: Question
    contexts: tuple[tuple[Passage, float | None], ...]


def read_fid(path: Path) -> Iterator[FidRow]:
    """Yield the rows of a FiD file, or of a folder with one file per split.

    A .jsonl file is read line by line, and a .json file as a whole. In a folder, the name of each
    file (train.json, dev.json or test.json in FiD's data) is the split of its questions, and a
    prefix of the ids that consist of digits.

    Raises:
        InputError: If a row is malformed, or if a folder contains no FiD file.
    """
    if path.is_dir():
        files = sorted(
            file
            for file in path.iterdir()
            if _FILE_NAME.search(file.name) and not file.name.startswith(".")
        )
        if not files:
            raise InputError(
                f"The folder {path} contains no FiD file, such as train.json or train.jsonl. Check "
                "the path."
            )
        for file in files:
            yield from _read_file(file, file.name.partition(".")[0])
    else:
        yield from _read_file(path, "")


def _read_file(path: Path, split: str) -> Iterator[FidRow]:
    """Yield the rows of a file, whose questions belong to a split if it is not empty."""
    name = path.name.removesuffix(".gz")
    if name.endswith(".jsonl"):
        rows: Iterable[tuple[Place, Any]] = read_json_lines(path, {"question": str})
    else:
        content = load_json(path)
        if not isinstance(content, list):
            raise InputError(
                f"{path}: expected a list of questions with contexts; received "
                f"{str(content)[:80]!r}."
            )
        rows = ((Place(path, number, "record"), row) for number, row in enumerate(content, start=1))
    num_rows = num_incomplete = 0
    for place, row in rows:
        fid_row = _parse_row(place, row, split)
        num_rows, num_incomplete = (
            num_rows + 1,
            num_incomplete + (f'"{MISSING}"' in fid_row.question.meta),
        )
        yield fid_row
    if num_incomplete:
        _log.warning(
            "%s: the passages of %d of %d questions lack some that support the answer. Recall is "
            "of the supporting passages that the file has; `breakdown=meta "
            "breakdown.field=%s` shows the others apart.",
            path,
            num_incomplete,
            num_rows,
            MISSING,
        )


def _parse_row(place: Place, row: Any, split: str) -> FidRow:
    """Parse one row."""
    row = _convert(place, row)
    if not isinstance(row, dict) or not isinstance(row.get("ctxs"), list) or "question" not in row:
        raise InputError.at(
            place,
            received=str(row),
            expected="an object with question, answers and ctxs",
        )
    target = str(row.get("target") or "").strip()
    is_unanswered = row.get("answers") == [] and not target
    answers = () if is_unanswered else parse_answers(row.get("answers") or [target], place)
    given_id = row.get("id")
    question_id = str(place.number - 1) if given_id is None else require_text(given_id, place, "id")
    if split and question_id.isdigit():
        question_id = f"{split}-{question_id}"
    question_text = require_text(row["question"], place, "question")
    contexts: list[tuple[Passage, float | None]] = []
    gold_ids = []
    for index, entry in enumerate(row["ctxs"]):
        if not isinstance(entry, dict):
            expectation = f"context {index} as an object with title and text"
            raise InputError.at(place, received=str(entry), expected=expectation)
        text = require_text(entry.get("text", ""), place, f"text of context {index}")
        own_id = next(
            (entry[name] for name in _ID_FIELDS if entry.get(name) not in (None, "")),
            f"{question_id}-{index}",
        )
        passage_id = require_text(own_id, place, f"id of context {index}")
        if any(passage_id == other.passage_id for other, _ in contexts):
            expectation = (
                f"distinct contexts; the id {passage_id!r} occurs twice, the second time as "
                f"context {index}"
            )
            raise InputError.at(place, received=str(entry), expected=expectation)
        passage = Passage(passage_id, read_title(entry.get("title"), place), text)
        contexts.append((passage, _parse_score(entry.get("score"), place, index)))
        try:
            is_gold = parse_flag(entry.get("is_gold") or False, "is_gold")
        except ValueError as error:
            expectation = f"true or false as is_gold of context {index} ({error})"
            raise InputError.at(place, received=str(entry), expected=expectation) from None
        gold_ids += [passage.passage_id] if is_gold else []
    meta = format_meta(row["meta"] if isinstance(row.get("meta"), dict) else {})
    gold_passage_ids = tuple(dict.fromkeys(gold_ids))
    question = Question(
        question_id,
        question_text,
        answers,
        gold_passage_ids,
        split=split,
        meta=meta,
        target=target,
    )
    return FidRow(question, tuple(contexts))


def _convert(place: Place, row: Any) -> Any:
    """Return a row, converted if it has another format; raise InputError if it is malformed."""
    if not isinstance(row, dict) or "ctxs" in row:
        return row
    try:
        return convert_multihop_row(row) or convert_alce_row(row) or row
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        expectation = (
            f"a row of HotpotQA, 2WikiMultihopQA, MuSiQue or ALCE ({type(error).__name__}: {error})"
        )
        raise InputError.at(place, received=str(row), expected=expectation) from None


def _parse_score(value: Any, place: Place, index: int) -> float | None:
    """Convert a score, which may be a string as in DPR's files; None and "" mean no score."""
    if value is None or value == "":
        return None
    try:
        score = float(value)
    except (TypeError, ValueError):
        score = math.nan
    if not abs(score) <= _MAX_SCORE:
        expectation = f"a finite number as the score of context {index}, or none"
        raise InputError.at(place, received=repr(value), expected=expectation)
    return score


def write_fid(path: Path, rows: Iterable[tuple[Question, Iterable[Context]]]) -> int:
    """Write questions with their contexts as a FiD JSON list, and return the number of questions.

    The format has no place for gold passages that are not among the contexts. Their number is in
    the metadata, of which `read_fid` warns.
    """
    count = 0
    with atomic_write(path) as partial, partial.open("w", encoding="utf-8") as stream:
        stream.write("[")
        for question, contexts in rows:
            gold_ids, meta = set(question.gold_passage_ids), json.loads(question.meta)
            formatted = [_format_context(context, gold_ids) for context in contexts]
            if num_missing := len(gold_ids.difference(context["id"] for context in formatted)):
                meta |= {MISSING: num_missing}
            row = {
                "id": question.question_id,
                "question": question.text,
                "answers": list(question.answers),
                **({"target": question.target} if question.target else {}),
                **({"meta": meta} if meta else {}),
                "ctxs": formatted,
            }
            stream.write(",\n" if count else "\n")
            json.dump(row, stream, ensure_ascii=False)
            count += 1
        stream.write("\n]\n")
    return count


def _format_context(context: Context, gold_ids: Set[str]) -> dict[str, Any]:
    """Format a context. Only annotated gold passages are marked as such."""
    passage = context.passage
    return {
        "id": passage.passage_id,
        "title": passage.title,
        "text": passage.text,
        **({} if context.score is None else {"score": context.score}),
        "has_answer": context.has_answer,
        **({"is_gold": True} if passage.passage_id in gold_ids else {}),
    }
