"""The files that CRAG's authors publish: contexts as text, without ids and without answers.

There are two forms. A file of pairs has a line "question [SEP] title // text" for each context, in
some files with a tab and a label behind it, which is left out. A file of knowledge has one line per
question of another file. Both are joined with questions by the question's text, never by position.
"""

import re
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from winnow.errors import InputError
from winnow.formats.alignment import check_alignment
from winnow.formats.text import iter_lines
from winnow.records import Passage

_SEPARATOR = " [SEP] "
_TITLE_END = " // "
_LABEL = re.compile(r"\t+-?[01]$")
"""Relevance label after a context in some files of pairs, which no reader or evaluator may see."""


@dataclass(frozen=True, slots=True)
class CragRow:
    """A question's text with its contexts, best first."""

    question: str
    passages: tuple[Passage, ...]


def read_crag_rows(path: str | Path, questions: str | Path = "") -> Iterator[CragRow]:
    """Yield the rows of a published file, one per question.

    The ids of passages are "<name of the file>:<line>".

    Args:
        path: File of pairs or, if `questions` is given, of knowledge.
        questions: File of the questions, one per line, or "" for a file of pairs.

    Raises:
        InputError: If a line has another form, if the knowledge is shifted against the questions,
            or if adjacent rows of the same question cannot be told apart.
    """
    return (
        _read_knowledge(Path(path), Path(questions))
        if questions
        else _split_equal_questions(Path(path))
    )


def normalize_question(text: str) -> str:
    """Return a question's first line in lower case with single spaces, by which rows are joined."""
    return " ".join(text.strip().partition("\n")[0].lower().split())


def _split_equal_questions(path: Path) -> Iterator[CragRow]:
    """Yield the rows of a file of pairs; a row with a multiple of the contexts of most is several
    questions of one text.

    Raises:
        InputError: If the contexts of these questions differ, because it is not known where each
            begins.
    """
    rows = list(_read_pairs(path))
    usual = statistics.mode(len(row.passages) for row in rows) if rows else 0
    for row in rows:
        if usual < 2 or len(row.passages) == usual or len(row.passages) % usual:
            yield row
            continue
        parts = [
            row.passages[start : start + usual] for start in range(0, len(row.passages), usual)
        ]
        if len({tuple((passage.title, passage.text) for passage in part) for part in parts}) > 1:
            raise InputError(
                f"{path} has {len(row.passages)} lines in a row of the question {row.question!r}, "
                f"but {usual} of most others. These seem to be several questions of the same "
                "text, whose lines cannot be told apart. Move them apart, or provide contexts "
                "with ids as FiD JSON (retriever=provided)."
            )
        yield from (CragRow(row.question, part) for part in parts)


def _read_pairs(path: Path) -> Iterator[CragRow]:
    """Yield the contexts of each question, whose lines are adjacent."""
    question, passages = "", list[Passage]()
    for place, line in iter_lines(path):
        text, separator, context = line.partition(_SEPARATOR)
        if not separator or not context.strip() or not text.strip():
            raise InputError.at(place, received=line, expected='"question [SEP] title // text"')
        context = _LABEL.sub(
            "", context.rstrip()
        )  # before white space is removed, of which its tab is
        title, title_end, body = context.partition(_TITLE_END)
        title, body = (title.strip(), body.strip()) if title_end else ("", context.strip())
        if passages and normalize_question(text) != normalize_question(question):
            yield CragRow(question, tuple(passages))
            passages = []
        question = text.strip()
        passages.append(Passage(f"{path.name}:{place.number}", title, body))
    if passages:
        yield CragRow(question, tuple(passages))


def _read_knowledge(path: Path, questions: Path) -> Iterator[CragRow]:
    """Yield the question and knowledge of each row; knowledge may start with "#" or be empty."""
    texts = [
        (place.number, line.removeprefix("#").strip())
        for place, line in iter_lines(path, blank=True)
    ]
    rows = [line.strip() for _, line in iter_lines(questions, blank=True)]
    while rows and not rows[-1]:
        rows.pop()
    while len(texts) > len(rows) and not texts[-1][1]:
        texts.pop()
    check_alignment(path, rows, [text for _, text in texts])
    for question, (number, text) in zip(rows, texts, strict=True):
        yield CragRow(question, (Passage(f"{path.name}:{number}", "", text),) if text else ())
