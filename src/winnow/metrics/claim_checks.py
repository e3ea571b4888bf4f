"""Claims and a judge's verdicts on whether references entail them, for RAGChecker and RAGAS."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.identity.values import Template
from winnow.metrics.base import Input, JudgedMetric
from winnow.metrics.factscore import parse_facts
from winnow.records import Decoding
from winnow.requests import Generate, Generation, Message
from winnow.text.final import extract_final_text

Verdicts = list[list[bool | None]]
"""(claims, references) Whether each reference entails each claim; None without a verdict."""

EXTRACT = """Divide the answer to the question into claims, one per line, each with a dash before \
it. A claim states one fact, names whom or what it is about, and can be understood alone. Keep \
what the answer says, whether it is true or not, and add nothing. If the answer states nothing, \
write "- none".

Question: Who painted the ceiling of the Sistine Chapel, and when?
Answer: Michelangelo painted it between 1508 and 1512 for the pope.
Claims:
- Michelangelo painted the ceiling of the Sistine Chapel.
- The ceiling of the Sistine Chapel was painted between 1508 and 1512.
- The ceiling of the Sistine Chapel was painted for the pope.

Question: {question}
Answer: {answer}
Claims:"""
"""Prompt for the claims of an answer, with the fields {question} and {answer}."""

CHECK = """Decide for each claim what the reference says about it. Use the reference alone, and \
not what you know besides.

entailment: the reference states the claim or implies it.
contradiction: the reference says that the claim is false.
neutral: the reference does neither.

Question: {question}
Reference: {reference}
Claims:
{claims}

Write one line for each claim, in their order, with its number and one of the three words."""
"""Prompt for the verdicts on claims, with the fields {question}, {reference} and {claims}."""

_LABEL = re.compile(r"(?<!non-)(?<!not )\b(entailment|neutral|contradiction)\b", re.IGNORECASE)
_LINE = re.compile(r"^\W*(?:(\d+)\W+)?(entailment|neutral|contradiction)\W*$", re.IGNORECASE)
"""Line with a verdict, and the number of its claim if it has one."""
_NONE = ("none", "none.")
_TOKENS_OF_A_VERDICT = 12


@dataclass(frozen=True)
class ClaimMetric(JudgedMetric):
    """Base class of metrics for which a judge lists the claims of a text and checks them against
    references.

    Args:
        extract_template: Template of the prompt for claims, with the fields {question} and
            {answer}.
        check_template: Template of the prompt for verdicts on claims, with the fields {question},
            {reference} and {claims}.
        max_new_tokens: Maximum number of tokens of a list of claims (RAGChecker: 1000).
    """

    inputs: ClassVar[frozenset[Input]] = frozenset({"prediction", "shown"})

    extract_template: Annotated[str, Template("question", "answer")] = EXTRACT
    check_template: Annotated[str, Template("question", "reference", "claims")] = CHECK
    max_new_tokens: Annotated[int, Ge(1)] = 1000


def ask_for_claims(template: str, question: str, answer: str, max_new_tokens: int) -> Generate:
    """Return the request for the claims of an answer."""
    prompt = template.format(question=question, answer=answer)
    return Generate(
        (Message("user", prompt),), Decoding(max_new_tokens=max_new_tokens), role="judge"
    )


def read_claims(reply: Generation, *, is_strict: bool) -> list[str] | None:
    """Return the distinct claims that a reply lists, possibly none, or None if it is not a list.

    A list that was cut at its maximum length is none if `is_strict`: the rest of the answer has no
    claims in it.
    """
    facts = parse_facts(reply.text)
    if not facts or (is_strict and reply.finish == "length"):
        return None
    return list(dict.fromkeys(claim for claim in facts if claim.lower() not in _NONE))


def ask_for_verdicts(
    template: str, question: str, claims: Sequence[str], references: Sequence[str], most: int
) -> list[Generate]:
    """Return the requests for verdicts: for each reference, one for each `most` claims."""
    return [
        Generate(
            (
                Message(
                    "user",
                    template.format(
                        question=question, reference=reference, claims=format_numbered(part)
                    ),
                ),
            ),
            Decoding(max_new_tokens=_TOKENS_OF_A_VERDICT * len(part)),
            role="judge",
        )
        for reference in references
        for part in (claims[start : start + most] for start in range(0, len(claims), most))
    ]


def read_verdicts(
    replies: Sequence[Generation],
    num_claims: int,
    num_references: int,
    most: int,
    *,
    is_padded: bool,
) -> Verdicts:
    """Return the verdicts of replies to `ask_for_verdicts`.

    Args:
        replies: Replies in the order of the requests.
        num_claims: Number of claims.
        num_references: Number of references.
        most: Number of claims of a request.
        is_padded: Whether verdicts that a reply lacks count as neutral, and those that it has too
            many are cut off, as in RefChecker's code, which looks for the words anywhere. Else a
            verdict is a line of its own, with the number of its claim or in the order of the
            claims, and if they are not those of all claims, none counts.
    """
    columns: list[list[bool | None]] = []
    reply_iterator = iter(replies)
    for _ in range(num_references):
        column: list[bool | None] = []
        for start in range(0, num_claims, most):
            column += _read_labels(next(reply_iterator), min(most, num_claims - start), is_padded)
        columns.append(column)
    return [[column[claim] for column in columns] for claim in range(num_claims)]


def read_all_labels(reply: Generation) -> list[bool]:
    """Return whether each verdict that a reply has is "entailment", however many there are."""
    return [
        label.lower() == "entailment" for label in _LABEL.findall(extract_final_text(reply.text))
    ]


def _read_labels(reply: Generation, number: int, is_padded: bool) -> list[bool | None]:
    if is_padded:
        labels: list[bool | None] = [*read_all_labels(reply), *[False] * number]
        return labels[:number]
    words = read_numbered_words(reply, _LINE, number)
    return [None] * number if words is None else [word == "entailment" for word in words]


def read_numbered_words(reply: Generation, line: re.Pattern[str], number: int) -> list[str] | None:
    """Return the words of numbered lines in order, or None unless there is one for each number.

    Args:
        reply: Reply that has a word for each of some things, in a line of its own.
        line: Pattern of such a line, whose groups are the number, which may be missing in all
            lines, and the word.
        number: How many things there are.
    """
    lines = [
        match for text in extract_final_text(reply.text).split("\n") if (match := line.match(text))
    ]
    places = [int(match[1]) if match[1] else place for place, match in enumerate(lines, 1)]
    if sorted(places) != list(range(1, number + 1)):
        return None
    words = {place: match[2].lower() for place, match in zip(places, lines, strict=True)}
    return [words[place] for place in range(1, number + 1)]


def format_numbered(texts: Sequence[str]) -> str:
    """Return texts as lines with their numbers, from 1."""
    return "\n".join(f"{number}. {text}" for number, text in enumerate(texts, 1))
