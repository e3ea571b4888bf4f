"""Detection of "unknown" answers by the rules of docs/rules.md; the Post-Fusion paper has none."""

import re
import string
from collections.abc import Sequence
from functools import lru_cache

from winnow.records import Answer, Passage
from winnow.text.normalization import UNKNOWN, normalize

_UNKNOWN_WITH_COMMENT = re.compile(
    r"^\W*(unknown\s*[.,;:!?()\[\]-]|unknown (based|given|from|according|in the)\b|n/a\W*$)",
    re.IGNORECASE,
)
_NO_CONTENT = string.whitespace + ".?…-–—'\"“”‘’()[]{}"
"""Characters that answer nothing. Others, such as "+" and "&", may be an answer."""


@lru_cache(maxsize=10_000)
def is_unknown(answer: str) -> bool:
    """Return whether an answer is empty or means that the answer is not known."""
    if (
        not answer.strip(_NO_CONTENT)
        or normalize(answer) == UNKNOWN
        or _UNKNOWN_WITH_COMMENT.match(answer)
    ):
        return True
    from winnow.strategies.foreign_refusals import is_foreign_refusal
    from winnow.strategies.refusals import is_refusal  # the patterns take 10 ms to compile

    return is_refusal(answer) or is_foreign_refusal(answer)


def build_answer(
    text: str | None, used: tuple[Passage, ...], reply: str, trace: Sequence[str], stop: str = ""
) -> Answer:
    """Return the answer of one path of prompts, which is "unknown" if there is no text."""
    text = text or UNKNOWN
    return Answer(text, is_unknown(text), used=used, reply=reply, trace=tuple(trace), stop=stop)
