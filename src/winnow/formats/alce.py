"""Rows of ALCE's files (Gao et al. 2023): ASQA, QAMPARI and ELI5 questions with retrieved passages.

A row is converted to FiD's form (`winnow.formats.fid_json`). What the metrics of
`winnow.metrics.alce` look for is its `meta`.
"""

from collections.abc import Mapping
from typing import Any

from winnow.formats.multihop import build_context, build_row

_LOOKED_FOR = ("qa_pairs", "claims")


def convert_alce_row(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Convert a row to FiD's form, or return None if it is not one of ALCE's.

    The accepted answers are the short ones of ASQA, in the order of their questions, those of
    QAMPARI's list, or the long answer of ELI5. ASQA's long ones are `long_answers` of the metadata.
    The id of a passage is its title with a digest of its text.

    Args:
        row: Row of the file.

    Raises:
        KeyError, TypeError, ValueError: If the row is malformed.
    """
    if "docs" not in row or "question" not in row:
        return None
    meta = {name: row[name] for name in _LOOKED_FOR if row.get(name)}
    if meta.get("qa_pairs"):
        answers = [answer for pair in row["qa_pairs"] for answer in pair["short_answers"]]
        meta["qa_pairs"] = [
            {"question": pair.get("question", ""), "short_answers": list(pair["short_answers"])}
            for pair in row["qa_pairs"]
        ]
        long = [
            one["long_answer"] for one in row.get("annotations") or () if one.get("long_answer")
        ] or [row.get("answer")]
        meta |= {"long_answers": long} if all(long) else {}
    elif isinstance(row.get("answers"), list):
        meta["answers"] = [
            [names] if isinstance(names, str) else list(names) for names in row["answers"]
        ]
        answers = [name for names in meta["answers"] for name in names]
    else:
        answers = [row["answer"]]
    contexts = [
        {
            **build_context(document["title"], document["text"], is_gold=False),
            "score": document.get("score"),
        }
        for document in row["docs"]
    ]
    question_id = next(
        (row[name] for name in ("id", "sample_id") if row.get(name) is not None), None
    )
    return build_row(question_id, row["question"], answers, contexts, meta)
