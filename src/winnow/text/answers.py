"""Answer extraction by the rules of docs/rules.md; the Post-Fusion paper specifies none."""

import json
import re
from functools import lru_cache

from winnow.text.citations import remove_citations
from winnow.text.final import extract_final_text

_ANSWER_PREFIX = re.compile(
    r"(?:\*\*|[\"'])?answer(?:\*\*|[\"'])?\s*(?:is\s*)?:(?:\*\*)?", re.IGNORECASE
)
_WORD = (
    r"(?:(?:final |short )?answer|response|a|antwort|réponse|respuesta|risposta|resposta|ответ|"
    r"答案|回答|答)"
)
_LABEL = re.compile(rf"[#*\s]*{_WORD}(?:\*\*)?\s*[:：](?:\*\*)?(?=\s*\S)", re.IGNORECASE)
"""Label before an answer on its line."""
_HEADING_LINE = re.compile(rf"(?:#+\s*)?[*_]*{_WORD}[*_]*\s*[:：]?[*_]*", re.IGNORECASE)
"""Line that only says that the answer follows."""
_FURNITURE = re.compile(r"`{3,}\w*|~{3,}\w*|-{3,}|\*{3,}|_{3,}|={3,}|#+")
"""Line of a code fence, or a rule."""
_TAGGED = re.compile(
    r"(?<![a-z,] (?=\S{1,15} [a-z]))<(answer|final_answer|final|response|result)>(.*?)(?:</\1>|$)",
    re.DOTALL | re.IGNORECASE,
)
_BOXED = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})+)\}")
_TEXT_COMMAND = re.compile(r"\\(?:text|mathrm|textbf)\{([^{}]*)\}")
_ANSWER_KEYS = ("answer", "final_answer", "short_answer", "response")
_EMPHASIS = (
    re.compile(r"(?<![\w*])\*\*(?=[^\s*])([^*\n]*[^\s*])\*\*(?![\w*])"),
    re.compile(r"(?<![\w*])\*(?=[^\s*])([^*\n]*[^\s*])\*(?![\w*])"),
    re.compile(r"(?<![\w`])`(?=[^\s`])([^`\n]*[^\s`]|)`(?![\w`])"),
)
"""Bold and italic words, and code, of Markdown."""
_EXAMPLE = re.compile(r"#*\s*example \d+:?", re.IGNORECASE)
_HEADING = re.compile(r"#+\s*(?:question|context):", re.IGNORECASE)
_DEMONSTRATION = re.compile(r"(?:question|context):", re.IGNORECASE)


@lru_cache(maxsize=10_000)
def extract_answer(reply: str) -> str:
    """Extract the answer from a reply: the first nonblank line, after the last "Answer:" if any.

    The reasoning of a model before its reply, control tokens, further examples or questions after
    its answer, and the markup around it (headings, code fences, tags, JSON, emphasis) are ignored.
    """
    return _extract_answer_line(_remove_next_example(extract_final_text(reply).lstrip()))


def extract_whole_answer(reply: str, answer: str) -> str:
    """Extract the whole text of a longer answer, of which `extract_answer` takes the first line.

    The text follows the last "Answer:", as there; citations and emphasis stay.

    Args:
        reply: Reply of a reader.
        answer: Answer that a strategy made of it. If it is not what the text of the reply begins
            with, with or without citations, it is returned itself: the last line of a chain of
            thought, or a candidate of a fusion.
    """
    final = _remove_next_example(extract_final_text(reply).lstrip())
    unwrapped = _unwrap(final)
    labels = list(_ANSWER_PREFIX.finditer(unwrapped))
    body = unwrapped[labels[-1].end() :] if labels else unwrapped
    lines = _list_lines(body)
    if not lines:
        return answer
    whole = body[body.index(lines[0]) : body.rindex(lines[-1]) + len(lines[-1])]
    label = _LABEL.match(whole)
    whole = whole[label.end() :].lstrip() if label else whole
    first = whole.split("\n", 1)[0]
    begins = {
        extract_answer(final),
        extract_answer(remove_citations(final)),
        _remove_marks(first),
        _remove_marks(remove_citations(first)),
    }
    return whole if answer in begins or whole.startswith(answer.strip()) else answer


def _remove_next_example(text: str, *, headings: bool = True) -> str:
    """Remove the few-shot example that a model may write after its answer, and all that follows.

    The example begins with a line of the format of conf/prompt/re_rag.yaml: "Example 9", a heading
    of the prompt such as "### Question:" or, after a blank line, a heading of a demonstration such
    as "Question:".

    Args:
        text: Text of a model.
        headings: Whether a heading of the prompt begins an example; a chain of thought may repeat
            one before its answer.
    """
    lines = text.split("\n")
    for number in range(1, len(lines)):
        line, follows_blank = lines[number].strip(), not lines[number - 1].strip()
        if (
            _EXAMPLE.fullmatch(line)
            or (headings and _HEADING.match(line))
            or (follows_blank and _DEMONSTRATION.match(line))
        ):
            return "\n".join(lines[:number])
    return text


def extract_reasoned_answer(reply: str) -> str:
    """Extract a chain of thought's answer: the text after the last "Answer:" or else the last line.

    An example that the model writes behind its own answer is left out. A rationale without
    "Answer:" is usually truncated, or it is the answer itself. Its last line is then the best
    guess. What a model reasons before its reply, between tags, is not part of the
    chain.
    """
    reply = _remove_next_example(extract_final_text(reply).lstrip(), headings=False)
    if first := _ANSWER_PREFIX.search(reply):
        reply = reply[: first.start()] + _remove_next_example(reply[first.start() :])
    if first or _unwrap(reply) != reply:
        return _extract_answer_line(reply)
    lines = _list_lines(reply)
    return _remove_marks(lines[-1]) if lines else ""


def _extract_answer_line(text: str) -> str:
    """Extract the first nonblank line, after the last "Answer:" if any, without markup."""
    text = _unwrap(text)
    prefixes = list(_ANSWER_PREFIX.finditer(text))
    lines = _list_lines(text[prefixes[-1].end() :] if prefixes else text)
    is_bold = bool(prefixes) and prefixes[-1][0].count("**") == 1
    return _remove_marks(lines[0].removesuffix("**") if is_bold else lines[0]) if lines else ""


def _unwrap(text: str) -> str:
    """Return the content of a JSON object, an answer tag or LaTeX's box, or else the text."""
    while tagged := [match[2] for match in _TAGGED.finditer(text) if match[2].strip()]:
        text = tagged[-1]
    start, end = text.find("{"), text.rfind("}")
    if (
        0 <= start < end
        and '"' in text
        and not _list_lines(text[:start])
        and not _list_lines(text[end + 1 :])
    ):
        try:
            value = json.loads(text[start : end + 1])
        except ValueError:
            value = None
        values = value if isinstance(value, dict) else {}
        only = next(iter(values.values())) if len(values) == 1 else None
        content = next((values[key] for key in _ANSWER_KEYS if key in values), only)
        if isinstance(content, list) and content:
            content = content[0]
        if isinstance(content, str | int | float):
            return content if isinstance(content, str) else json.dumps(content)
    boxes = _BOXED.findall(text)
    return _TEXT_COMMAND.sub(r"\1", boxes[-1]) if boxes else text


def _list_lines(text: str) -> list[str]:
    """Return the nonblank lines, without those that only lead to an answer, unless all do."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    while len(lines) > 1 and (_FURNITURE.fullmatch(lines[0]) or _HEADING_LINE.fullmatch(lines[0])):
        del lines[0]
    while len(lines) > 1 and _FURNITURE.fullmatch(lines[-1]):
        del lines[-1]
    return [] if len(lines) == 1 and re.fullmatch(r"`{3,}\w*", lines[0]) else lines


def _remove_marks(line: str) -> str:
    """Return a line without a label, a heading's or quotation's mark, and emphasis."""
    line = re.sub(r"^(?:#{1,6} +|> +|- +(?=[^\W\d_])|[*•] +)", "", line)
    label = _LABEL.match(line)
    line = line[label.end() :].strip() if label else line
    for pattern in _EMPHASIS:
        line = pattern.sub(r"\1", line)
    return line
