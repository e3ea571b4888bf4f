"""Extraction of the answer from a reply, and detection of "unknown" answers.

The Post-Fusion paper specifies rules for neither. The rules implemented here are documented in docs/rules.md.
"""

import re
from functools import lru_cache

from winnow.metrics.answer import UNKNOWN, normalise
from winnow.metrics.reasoning import remove_reasoning

_UNKNOWN_WITH_COMMENT = re.compile(
    r"^\W*(unknown\s*[.,;:!?()\[\]-]|unknown (based|given|from|according|in the)\b|n/a\W*$)", re.IGNORECASE
)
_ANSWER_PREFIX = re.compile(r"(?:\*\*|[\"'])?answer(?:\*\*|[\"'])?\s*(?:is\s*)?:(?:\*\*)?", re.IGNORECASE)
_EXAMPLE = re.compile(r"#*\s*example \d+:?", re.IGNORECASE)
_HEADING = re.compile(r"#+\s*(?:question|context):", re.IGNORECASE)
_DEMONSTRATION = re.compile(r"(?:question|context):", re.IGNORECASE)


@lru_cache(maxsize=10_000)
def extract_answer(reply: str) -> str:
    """Extract the answer from a reply: the first line that is not blank, after the last "Answer:" if there is one.

    The reasoning of a model before its reply, and further examples or questions after its answer, are ignored.
    """
    return _extract_answer_line(_remove_next_example(remove_reasoning(reply).lstrip()))


def _remove_next_example(text: str) -> str:
    """Remove the few-shot example that a model may write after its answer, and everything that follows.

    The example begins with a line of the format of conf/prompt/re_rag.yaml: "Example 9", a heading of the prompt such as
    "### Question:" or, after a blank line, a heading of a demonstration such as "Question:".
    """
    lines = text.split("\n")
    for number in range(1, len(lines)):
        line, follows_blank = lines[number].strip(), not lines[number - 1].strip()
        if _EXAMPLE.fullmatch(line) or _HEADING.match(line) or (follows_blank and _DEMONSTRATION.match(line)):
            return "\n".join(lines[:number])
    return text


def extract_reasoned_answer(reply: str) -> str:
    """Extract the answer from a chain of thought: the text after the last "Answer:", or else the last line.

    A rationale without "Answer:" is usually truncated, or it is the answer itself. Its last line is then the best guess. What
    a model reasons before its reply, between tags, is not part of the chain.
    """
    reply = remove_reasoning(reply)
    if _ANSWER_PREFIX.search(reply):
        return _extract_answer_line(reply)
    lines = [line.strip() for line in reply.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _extract_answer_line(text: str) -> str:
    """Extract the first line that is not blank, after the last "Answer:" if there is one."""
    prefixes = list(_ANSWER_PREFIX.finditer(text))
    lines = text[prefixes[-1].end() :].splitlines() if prefixes else text.splitlines()
    return next((line.strip() for line in lines if line.strip()), "")


@lru_cache(maxsize=10_000)
def is_unknown(answer: str) -> bool:
    """Return whether an answer is empty or means that the answer is not known."""
    if not answer.strip() or normalise(answer) == UNKNOWN or _UNKNOWN_WITH_COMMENT.match(answer):
        return True
    from winnow.strategies.refusals import is_refusal  # the patterns take 10 ms to compile

    return is_refusal(answer)
