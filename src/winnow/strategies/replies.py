"""Extraction of the answer from a reply, and detection of "unknown" answers.

The Post-Fusion paper does not specify these rules. Ours are documented in docs/rules.md, with those of the vote.
"""

import re

from winnow.metrics.answer import UNKNOWN, normalise
from winnow.strategies.refusals import is_refusal

_UNKNOWN_WITH_COMMENT = re.compile(
    r"^\W*(unknown\s*[.,;:!?()\[\]-]|unknown (based|given|from|according|in the)\b|n/a\W*$)", re.IGNORECASE
)
_ANSWER_PREFIX = re.compile(r"(?:\*\*|[\"'])?answer(?:\*\*|[\"'])?\s*(?:is\s*)?:(?:\*\*)?", re.IGNORECASE)
_EXAMPLE = re.compile(r"#*\s*example \d+:?", re.IGNORECASE)
_HEADING = re.compile(r"#+\s*(?:question|context):", re.IGNORECASE)
_DEMONSTRATION = re.compile(r"(?:question|context):", re.IGNORECASE)


def extract_answer(reply: str) -> str:
    """Extract the answer from a reply: the first line that is not blank, after the last "Answer:" if there is one.

    Further examples or questions that the model writes after its answer are ignored.
    """
    return _first_answer_line(_without_next_example(reply.lstrip()))


def _without_next_example(text: str) -> str:
    """Cut a text before the few-shot example that a model writes after its answer, in the format of conf/prompt/re_rag.yaml.

    It begins with a numbered example, a heading of the prompt or, after a blank line, a heading of a demonstration.
    """
    lines = text.split("\n")
    for number in range(1, len(lines)):
        line, follows_blank = lines[number].strip(), not lines[number - 1].strip()
        if _EXAMPLE.fullmatch(line) or _HEADING.match(line) or (follows_blank and _DEMONSTRATION.match(line)):
            return "\n".join(lines[:number])
    return text


def extract_reasoned_answer(reply: str) -> str:
    """Extract the answer from a chain of thought: the text after the last "Answer:", or else the last line.

    A rationale without "Answer:" is usually truncated or the answer itself, so that its last line is the best guess.
    """
    if _ANSWER_PREFIX.search(reply):
        return _first_answer_line(reply)
    lines = [line.strip() for line in reply.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _first_answer_line(text: str) -> str:
    """Extract the first line that is not blank, after the last "Answer:" if there is one."""
    prefixes = list(_ANSWER_PREFIX.finditer(text))
    lines = text[prefixes[-1].end() :].splitlines() if prefixes else text.splitlines()
    return next((line.strip() for line in lines if line.strip()), "")


def is_unknown(answer: str) -> bool:
    """Return whether an answer is empty or means that the answer is not known."""
    if not answer.strip() or normalise(answer) == UNKNOWN or _UNKNOWN_WITH_COMMENT.match(answer):
        return True
    return is_refusal(answer)
