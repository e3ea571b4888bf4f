"""A guard for files whose lines belong to another file's lines: it finds shifts by some rows."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from winnow.errors import InputError

_WORD = re.compile(r"\w+")
_MAX_SHIFT = 3
_MIN_ROWS = 5


def check_alignment(path: Path, questions: Sequence[str], texts: Sequence[str]) -> None:
    """Check that the n-th text belongs to the n-th question.

    The fit of a text to a question is the share of the question's words that the text contains,
    where rare words count more (inverse document frequency over the questions). The texts are
    refused if they fit the questions a few rows away better than their own: by a mean difference of
    more than three standard errors. CRAG's released file for ARC-Challenge is shifted by one row.

    Args:
        path: File of the texts, for error messages.
        questions: Questions, one per row.
        texts: Texts, one per row.

    Raises:
        InputError: If the numbers of rows differ, or if the texts are shifted.
    """
    if len(questions) != len(texts):
        raise InputError(
            f"{path} has {len(texts)} rows, but there are {len(questions)} questions. Rows are "
            "joined by their number, so that both must be equal. Use files of one release."
        )
    words = [frozenset(_WORD.findall(text.lower())) for text in questions]
    contents = [frozenset(_WORD.findall(text.lower())) for text in texts]
    counts = Counter(word for row in words for word in row)
    weights = {word: math.log((1 + len(words)) / count) for word, count in counts.items()}

    def compute_fit(row: int, shift: int) -> float:
        total = sum(weights[word] for word in words[row])
        return (
            sum(weights[word] for word in words[row] & contents[row + shift]) / total
            if total
            else 0.0
        )

    own_fits = [compute_fit(row, 0) for row in range(len(words))]
    for shift in sorted((s for s in range(-_MAX_SHIFT, _MAX_SHIFT + 1) if s), key=abs):
        rows = [row for row in range(len(words)) if 0 <= row + shift < len(words)]
        gains = [compute_fit(row, shift) - own_fits[row] for row in rows]
        if len(gains) >= _MIN_ROWS:
            mean = sum(gains) / len(gains)
            deviation = math.sqrt(sum((gain - mean) ** 2 for gain in gains) / (len(gains) - 1))
            if mean > 3 * deviation / math.sqrt(len(gains)):
                direction = "before" if shift > 0 else "after"
                raise InputError(
                    f"{path} is shifted: its texts fit the question {abs(shift)} row(s) "
                    f"{direction} their own better than their own (by {mean:.0%} of the "
                    f"question's words, over {len(gains)} rows). Correct the file."
                )
