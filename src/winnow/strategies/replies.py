"""Reads replies: which count as "unknown", and how the answer is extracted.

The paper leaves these rules open; ours are listed, with those of the vote, in docs/rules.md.
"""

import re

from winnow.metrics.answer import normalise

UNKNOWN = "unknown"
_EXPLAINED = re.compile(r"^\W*(unknown\s*[.,;:!?()\[\]-]|n/a\W*$)", re.IGNORECASE)
_UNKNOWN = re.compile(
    r"^(unknown|not known|i (do not|dont) know.*|im not sure.*|none of (sources|passages|documents).*|no answer.*"
    r"|(provided |given )?(context|passage|passages|text|source|sources|input|information)( provided| given)?"
    r" ((does|do|did) not|doesnt|dont|didnt) (contain|provide|mention|state|say|specify|give|include).*"
    r"|(answer|it) is (unknown|not (known|given|stated|mentioned|provided|specified|in)).*"
    r"|(there is )?(not|no) (enough |sufficient )?information.*|cannot be (determined|answered).*|insufficient information.*"
    r"|unable to (answer|determine).*)$"
)
_MARK = re.compile(r"(?:\*\*)?answer(?:\*\*)?\s*(?:is\s*)?:(?:\*\*)?", re.IGNORECASE)


_FURTHER = re.compile(
    r"\n\s*#*\s*example \d+:?\s*$|\n\s*#+\s*(?:question|context):|\n\s*\n\s*(?:question|context):",
    re.IGNORECASE | re.MULTILINE,
)
"""Where a reply continues with a few-shot example of its own (conf/prompt/re_rag.yaml), as models do after demonstrations:
a numbered example, a heading of the prompt, or, after a blank line, one of a demonstration.
"""


def read_answer(reply: str) -> str:
    """Return the answer in a reply: the first non-empty line, after the last "Answer:" where there is one.

    A further example or question that the model writes after its answer is ignored.
    """
    return _marked(_FURTHER.split(reply.lstrip(), maxsplit=1)[0])


def read_reasoned_answer(reply: str) -> str:
    """Return the answer at the end of a chain of thought: what follows the last "Answer:", else the last line.

    A rationale without "Answer:" is usually cut off or is the answer itself; its last line is the best guess.
    """
    if _MARK.search(reply):
        return _marked(reply)
    lines = [line.strip() for line in reply.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _marked(text: str) -> str:
    """Return the first non-empty line, after the last "Answer:" where there is one."""
    marks = list(_MARK.finditer(text))
    lines = text[marks[-1].end() :].splitlines() if marks else text.splitlines()
    return next((line.strip() for line in lines if line.strip()), "")


def is_unknown(answer: str) -> bool:
    """Return whether an answer means that the answer is not known; an empty one does."""
    text = normalise(answer)
    return not answer.strip() or _UNKNOWN.match(text) is not None or _EXPLAINED.match(answer) is not None
