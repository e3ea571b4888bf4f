"""Multi-round chains of thought: the prompt that shows one, its sentences and its answer."""

import re
from collections.abc import Sequence

from msgspec import structs

from winnow.errors import ReaderError
from winnow.records import Context, Decoding, Question
from winnow.requests import Generate, Generation
from winnow.strategies.prompt import Prompt, build_request, fill_template
from winnow.text.final import extract_final_text, is_reasoning_open

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9\"'(])")
_ABBREVIATIONS = (
    "St", "Mt", "Ft", "Dr", "Mr", "Mrs", "Ms", "Prof", "Gen", "Col", "Lt", "Capt", "Rev", "Sen",
    "Gov", "Jr", "Sr", "vs", "No", "Vol", "Inc", "Ltd", "Co", "ca", "approx", "al", "Jan", "Feb",
    "Mar", "Apr", "Jun", "Jul", "Aug", "Sept", "Sep", "Oct", "Nov", "Dec",
)  # fmt: skip
_ABBREVIATION = re.compile(
    rf"(?:^(?:[Ss]tep )?\d{{1,2}}\.|\b(?:[A-Za-z]\.)+|\b(?:{'|'.join(_ABBREVIATIONS)})\.)$"
)
"""End of a text whose full stop ends no sentence; also a step's number."""
_ANSWER = re.compile(r"\banswer is:?\s+(.*\S)", re.IGNORECASE)
"""End of a chain."""


def build_chain_request(
    prompt: Prompt,
    template: str,
    question: Question,
    contexts: Sequence[Context],
    thoughts: str,
    decoding: Decoding,
) -> Generate:
    """Build the request that continues a chain, without demonstrations or the start of a reply.

    The plan receives TooLong if the prompt does not fit with one passage.

    Args:
        prompt: Prompt whose templates of a passage and of the system are used.
        template: Template of the prompt, with the fields {contexts}, {question} and {thoughts}.
        question: Question.
        contexts: Contexts to show.
        thoughts: Chain so far.
        decoding: Generation settings.
    """
    filled = fill_template(prompt, template, thoughts=thoughts)
    return structs.replace(
        build_request(filled, question, contexts, decoding), may_be_too_long=True
    )


def extract_chain_text(reply: Generation) -> str:
    """Return the text of a reply without reasoning.

    Raises:
        ReaderError: If the stop string of a round ended the reasoning of the model, so that nothing
            of the chain is left.
    """
    is_cut_here = reply.finish == "stop" and is_reasoning_open(reply.text)
    is_cut_by_server = reply.finish == "empty" and len(reply.reasoning.strip().splitlines()) == 1
    if is_cut_here or is_cut_by_server:
        raise ReaderError(
            "The model reasons before its reply, and the stop string of this strategy ended the "
            "reasoning. Turn reasoning off (reader.engine.template_options.enable_thinking=false "
            "for Qwen), or choose another reader."
        )
    return extract_final_text(reply.text)


def find_first_sentence(text: str) -> str:
    """Return the first sentence of the first line that is not blank, or the whole line from one
    that gives the answer.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = lines[0].removeprefix("A:").strip() if lines else ""
    for end in _SENTENCE_END.finditer(line):
        sentence = line[: end.start()]
        if find_answer(sentence) is not None:
            # an answer may have full stops, as "J. R. R. Tolkien" and "Washington, D.C. 20001"
            break
        if not _ABBREVIATION.search(sentence):
            return sentence
    return line


def find_stop(sentence: str, *, is_last: bool) -> str:
    """Return why a chain ends with a sentence, or "" if it continues."""
    if not sentence:
        return "empty reply"
    if find_answer(sentence) is not None:
        return "answer"
    return "max rounds" if is_last else ""


def find_answer(sentence: str) -> str | None:
    """Return the text after "answer is", without its final period, or None if there is none."""
    match = _ANSWER.search(sentence)
    return match[1].removesuffix(".").strip() if match else None
