"""Rows of multi-hop data sets with annotated passages: HotpotQA, 2WikiMultihopQA and MuSiQue.

A row is converted to FiD's form (`winnow.formats.fid_json`), in which `is_gold` marks the passages
that support the answer. HotpotQA and 2WikiMultihopQA are read in two forms: lists of pairs, as in
their own files, and columns, as on the Hugging Face Hub.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from winnow.formats.fields import parse_flag

MISSING = "missing_titles"
"""Metadata field with the number of supporting titles or gold passages that a question lacks."""
_UNANSWERABLE = "#unanswerable"
"""Id suffix of the copy of a MuSiQue-Full question whose paragraphs lack the answer."""


def convert_multihop_row(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Convert a row to FiD's form, or return None if it is of no format that is known here.

    The id of a passage is its title with a digest of its text, so that a passage that several
    questions have is one passage. Fields by which results can be grouped become `meta`: type and
    level of HotpotQA, the number of supporting titles that its passages lack (in its full-wiki
    setting, whose passages were retrieved), the number of hops of MuSiQue and, of a question whose
    paragraphs lack the answer, `answerable`.

    Args:
        row: Row of the data set.

    Raises:
        KeyError, TypeError, ValueError: If the row is malformed.
    """
    if "supporting_facts" in row and "context" in row:
        return _convert_hotpotqa(row)
    if "paragraphs" in row:
        return _convert_musique(row)
    return None


def _convert_hotpotqa(row: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a HotpotQA or 2WikiMultihopQA row, whose supporting sentences are named by title."""
    titles = {title for title, _ in _read_pairs(row["supporting_facts"], "sent_id")}
    pairs = _read_pairs(row["context"], "sentences")
    contexts = [
        build_context(title, " ".join(" ".join(sentences).split()), is_gold=title in titles)
        for title, sentences in pairs
    ]
    meta = {name: row[name] for name in ("type", "level") if name in row}
    num_missing = len(titles.difference(title for title, _ in pairs))
    meta |= {MISSING: num_missing} if num_missing else {}
    question_id = row["_id"] if "_id" in row else row["id"]
    return build_row(question_id, row["question"], [row["answer"]], contexts, meta)


def _read_pairs(value: Any, second: str) -> Sequence[tuple[str, Any]]:
    """Return pairs of a title and what belongs to it, from a list of pairs or from two columns."""
    if isinstance(value, Mapping):
        return list(zip(value["title"], value[second], strict=True))
    return [(title, other) for title, other in value]


def _convert_musique(row: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a row of MuSiQue, whose paragraphs say whether they support the answer."""
    contexts = [
        build_context(
            entry["title"],
            entry["paragraph_text"],
            is_gold=parse_flag(entry["is_supporting"], "is_supporting"),
        )
        for entry in row["paragraphs"]
    ]
    answers = [row["answer"], *row.get("answer_aliases", ())]
    meta: dict[str, Any] = (
        {"hops": len(row["question_decomposition"])} if row.get("question_decomposition") else {}
    )
    question_id = row["id"]
    if not parse_flag(row.get("answerable", True), "answerable"):
        question_id, meta = f"{question_id}{_UNANSWERABLE}", {**meta, "answerable": False}
    return build_row(question_id, row["question"], answers, contexts, meta)


def build_row(
    question_id: object,
    question: object,
    answers: Sequence[object],
    contexts: Sequence[dict[str, Any]],
    meta: Mapping[str, Any],
) -> dict[str, Any]:
    """Build a row in FiD's form. A repeated passage is kept once, and gold if either copy is."""
    distinct: dict[str, dict[str, Any]] = {}
    for context in contexts:
        first = distinct.setdefault(context["id"], context)
        first["is_gold"] = first["is_gold"] or context["is_gold"]
    return {
        "id": question_id,
        "question": question,
        "answers": answers,
        "ctxs": list(distinct.values()),
        "meta": meta,
    }


def build_context(title: str, text: str, *, is_gold: bool) -> dict[str, Any]:
    """Build a context in FiD's form, whose id is its title with a digest of its text."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return {"id": f"{title}#{digest}", "title": title, "text": text, "is_gold": is_gold}
