"""FiD's exchange format: a JSON list, or JSON lines, of objects with question, answers and ctxs."""

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from winnow.artifacts.files import atomic_write
from winnow.errors import InputError
from winnow.formats.text import load_json, parse_answers, read_json_lines, require_text
from winnow.records import Context, Passage, Question


@dataclass(frozen=True, slots=True)
class FidRow:
    """A question with its retrieved passages and their scores, best first. A score is None where the file has none."""

    question: Question
    contexts: tuple[tuple[Passage, float | None], ...]


def read_fid(path: Path) -> Iterator[FidRow]:
    """Yield the rows of a FiD file, or of a folder with one file per split.

    A .jsonl file is read line by line, a .json file at once. The files of a folder (train.json, dev.json, test.json in FiD's
    data) give the questions their split. The split is also prefixed to ids that are only numbers.
    """
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if ".json" in file.name and not file.name.startswith("."))
        if not files:
            raise InputError(f"The folder {path} contains no FiD file (train.json, dev.json, test.json, or .jsonl).")
        for file in files:
            yield from (_with_split(row, file.name.partition(".")[0]) for row in read_fid(file))
        return
    name = path.name.removesuffix(".gz")
    if name.endswith(".jsonl"):
        rows: Iterable[tuple[int, Any]] = read_json_lines(path, {"question": str, "ctxs": list})
    else:
        content = load_json(path)
        if not isinstance(content, list):
            raise InputError(f"{path}: expected a list of questions with their contexts; received {str(content)[:80]!r}.")
        rows = enumerate(content, start=1)
    for number, row in rows:
        yield _parse_row(path, number, row)


def _with_split(row: FidRow, split: str) -> FidRow:
    question_id = row.question.question_id
    if question_id.isdigit():
        question_id = f"{split}-{question_id}"
    return FidRow(replace(row.question, question_id=question_id, split=split), row.contexts)


def _parse_row(path: Path, number: int, row: Any) -> FidRow:
    if not isinstance(row, dict) or not isinstance(row.get("ctxs"), list) or "question" not in row:
        raise InputError.at(path, number, received=str(row), expected="an object with question, answers and ctxs")
    target = str(row.get("target") or "").strip()
    answers = parse_answers(row.get("answers") or [target], path, number)
    question_id = str(row.get("id", number - 1))
    question = Question(question_id, require_text(row["question"], path, number, "question"), answers, target=target)
    if not row["ctxs"]:
        raise InputError.at(path, number, received=str(row), expected="at least one context in ctxs")
    contexts = []
    for rank, ctx in enumerate(row["ctxs"]):
        if not isinstance(ctx, dict):
            raise InputError.at(path, number, received=str(ctx), expected=f"context {rank} as an object with title and text")
        text = require_text(ctx.get("text", ""), path, number, f"text of context {rank}")
        passage = Passage(str(ctx.get("id", f"{question_id}-{rank}")), str(ctx.get("title", "")), text)
        contexts.append((passage, _parse_score(ctx.get("score"), path, number, rank)))
    return FidRow(question, tuple(contexts))


def _parse_score(value: Any, path: Path, number: int, rank: int) -> float | None:
    """Convert a score, which may be a string as in DPR's files; None and an empty string are no score."""
    if value is None or value == "":
        return None
    try:
        score = float(value)
    except (TypeError, ValueError):
        score = math.nan
    if math.isnan(score):
        raise InputError.at(path, number, received=repr(value), expected=f"a number as the score of context {rank}, or none")
    return score


def write_fid(path: Path, rows: Iterable[tuple[Question, Iterable[Context]]]) -> int:
    """Write questions with their contexts as a FiD JSON list; return the number of questions."""
    count = 0
    with atomic_write(path) as partial, partial.open("w", encoding="utf-8") as stream:
        stream.write("[")
        for question, contexts in rows:
            row = {
                "id": question.question_id,
                "question": question.text,
                "answers": list(question.answers),
                **({"target": question.target} if question.target else {}),
                "ctxs": [_format_context(context) for context in contexts],
            }
            stream.write(",\n" if count else "\n")
            json.dump(row, stream, ensure_ascii=False)
            count += 1
        stream.write("\n]\n")
    return count


def _format_context(context: Context) -> dict[str, Any]:
    passage = context.passage
    return {
        "id": passage.passage_id,
        "title": passage.title,
        "text": passage.text,
        **({} if context.score is None else {"score": context.score}),
        "has_answer": context.has_answer,
    }
